//! Errors of requests.

use std::{error::Error, io, iter, time::Duration};

use url::Url;

use super::MAX_REDIRECTS;
use crate::guard::{Refusal, ResolveError};

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the URL of {0} is not valid in HTTP")]
    Url(String),
    #[error("could not resolve host \"{host}\": {reason}")]
    UnknownHost { host: String, reason: String },
    #[error("could not connect to {host}: {reason}")]
    Connect { host: String, reason: String },
    #[error("could not establish a secure connection to {host}: {reason}")]
    Tls { host: String, reason: String },
    #[error("{host} did not answer in time ({during})")]
    Timeout { host: String, during: String },
    /// The server was asked several times and has not answered, so the request was not sent.
    #[error("{0} has not answered earlier requests of this run")]
    Silent(String),
    #[error("lost the connection to {host}: {reason}")]
    Broken { host: String, reason: String },
    #[error("{host} sent an invalid HTTP response: {reason}")]
    Protocol { host: String, reason: String },
    #[error("the server redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("the server redirects to another host, {0}")]
    OffOrigin(String),
    #[error("the server redirects to an invalid URL")]
    BadRedirect,
    /// The server of this URL limits the rate of requests, so the request was not sent.
    #[error("{} limits the rate of requests", .url.origin().ascii_serialization())]
    RateLimited { url: Url, wait: Duration },
    #[error("the server sent the encoding \"{0}\", which was not requested")]
    Encoding(String),
    #[error("the response exceeds the limit of {0} bytes")]
    TooLarge(u64),
    #[error("the compressed response is corrupted: {0}")]
    Compression(String),
}

impl HttpError {
    /// Returns true if the same request may succeed after a short time.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. } => true,
            // EAI_AGAIN
            Self::UnknownHost { reason, .. } => reason.contains("Temporary failure"),
            _ => false,
        }
    }

    /// Returns true if the server has not answered at all.
    pub fn is_silence(&self) -> bool {
        match self {
            Self::Timeout { during, .. } => during != "body",
            Self::Connect { .. } => true,
            _ => false,
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::UnknownHost { .. } | Self::Connect { .. } | Self::Silent(_) => {
                "Check the host name, and that the database server can connect to it."
            }
            Self::Tls { .. } => {
                "The server's certificate must be valid for its name and issued by a known \
                    authority."
            }
            Self::TooLarge(_) => "Raise rag.max_file_size.",
            Self::OffOrigin(_) => "Write the URL that the server redirects to.",
            _ => return None,
        })
    }

    /// Converts an error of reading a body.
    pub fn of_io(host: &str, error: io::Error) -> Self {
        error
            .downcast::<Self>()
            .unwrap_or_else(|error| Self::of(host, false, "body", &error))
    }

    /// Converts an error of reqwest. The errors of the layers below it are among its causes and are
    /// more precise.
    pub(super) fn of(
        host: &str,
        proxied: bool,
        during: &str,
        error: &(dyn Error + 'static),
    ) -> Self {
        let host = host.to_owned();
        let request = cause::<reqwest::Error>(error);
        let connecting = request.is_some_and(reqwest::Error::is_connect);
        let reason = innermost(error);
        let named = |reason: String| {
            if proxied {
                format!("rag.http_proxy: {reason}")
            } else {
                reason
            }
        };
        let timeout = |host| Self::Timeout {
            host,
            during: if connecting { "connect" } else { during }.into(),
        };
        let cut = |host| Self::Broken {
            host,
            reason: "it was closed before the response was complete".into(),
        };

        if let Some(unresolved) = cause::<ResolveError>(error) {
            return match unresolved {
                ResolveError::Refused(refusal) => Self::Refused(refusal.clone()),
                ResolveError::Unknown(_) if proxied => Self::Connect {
                    host,
                    reason: named(reason),
                },
                ResolveError::Unknown(_) => Self::UnknownHost { host, reason },
            };
        }
        if request.is_some_and(reqwest::Error::is_timeout) {
            return timeout(host);
        }
        if let Some(error) = cause::<rustls::Error>(error) {
            return Self::Tls {
                host,
                reason: error.to_string(),
            };
        }
        // the innermost one, unless it only wraps another error
        let io = causes(error)
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .last();
        if let Some(error) = io.filter(|error| {
            !error
                .get_ref()
                .is_some_and(|inner| inner.is::<reqwest::Error>())
        }) {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof => cut(host),
                io::ErrorKind::TimedOut => timeout(host),
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                    Self::Protocol { host, reason }
                }
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe => Self::Broken { host, reason },
                _ if connecting => Self::Connect {
                    host,
                    reason: named(reason),
                },
                _ => Self::Broken { host, reason },
            };
        }
        match cause::<hyper::Error>(error) {
            _ if connecting => Self::Connect {
                host,
                reason: named(reason),
            },
            Some(error) if error.is_incomplete_message() => cut(host),
            Some(error)
                if error.is_canceled() || error.is_closed() || error.is_body_write_aborted() =>
            {
                Self::Broken { host, reason }
            }
            _ => Self::Protocol { host, reason },
        }
    }
}

/// Returns an error and its chain of causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>() {
            // `source` would skip the error that it wraps
            Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Returns the text of the innermost cause. The outer ones name URLs, which may have credentials.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
}
