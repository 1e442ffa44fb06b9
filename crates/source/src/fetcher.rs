//! Fetches one resource of the web, with retries, conditional requests and a limit on the body.

use std::{
    thread,
    time::{Duration, SystemTime},
};

use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, FailureCause},
};
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    fetch_failure,
    http::{HttpClient, HttpError, HttpRequest, HttpResponse, MAX_WAIT},
};

/// Attempts for one request, the first included.
const MAX_ATTEMPTS: u32 = 3;
/// Delay before the second attempt. The delay before the third is four times as long.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Maximum time of one attempt.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(600);
/// `Last-Modified` has a resolution of one second. A file that changed more recently than this may
/// change again without a new `Last-Modified`.
const LAST_MODIFIED_RESOLUTION: Duration = Duration::from_secs(2);

/// Identifies a version of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Validator {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Validator {
    /// Reads the text that is stored with a document.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub fn text(&self) -> Option<String> {
        if *self == Self::default() {
            None
        } else {
            serde_json::to_string(self).ok()
        }
    }

    pub fn of(response: &HttpResponse) -> Self {
        let time = |name| {
            response
                .header(name)
                .and_then(|value| httpdate::parse_http_date(value).ok())
        };
        let now = time("date").unwrap_or_else(SystemTime::now);
        let settled = time("last-modified").is_some_and(|modified| {
            now.duration_since(modified)
                .is_ok_and(|age| age >= LAST_MODIFIED_RESOLUTION)
        });
        Self {
            etag: response.header("etag").map(Into::into),
            last_modified: response
                .header("last-modified")
                .filter(|_| settled)
                .map(Into::into),
        }
    }
}

/// A response, with its body if the request accepted it.
#[derive(Debug)]
pub struct Resource {
    pub status: StatusCode,
    /// Its URL, after redirects.
    pub url: Url,
    pub validator: Validator,
    pub media_type: Option<String>,
    pub robots: Vec<String>,
    pub last_modified: Option<String>,
    /// Empty if the request did not accept it, and for any status but 200.
    pub bytes: Vec<u8>,
    pub is_accepted: bool,
}

impl Resource {
    /// Returns type and subtype, in lower case.
    pub fn essence(&self) -> String {
        essence(self.media_type.as_deref())
    }
}

pub fn essence(media_type: Option<&str>) -> String {
    media_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// Why a resource could not be fetched.
#[derive(Debug)]
pub enum FetchError {
    Http(HttpError),
    /// The server is overloaded or has failed.
    Unavailable {
        status: StatusCode,
        /// How long the server asks to wait.
        wait: Option<Duration>,
        /// The server limits the rate of requests; it has not failed.
        throttled: bool,
        /// The server, if a redirect led to another one.
        elsewhere: Option<String>,
    },
}

impl FetchError {
    pub fn message(&self) -> String {
        match self {
            Self::Http(error) => error.to_string(),
            Self::Unavailable {
                status,
                wait,
                elsewhere,
                ..
            } => {
                let who = elsewhere.as_deref().unwrap_or("the server");
                let asks = wait.map_or_else(String::new, |wait| {
                    format!(" and asks to wait {} s", seconds(wait))
                });
                format!("{who} answered {}{asks}", named(*status))
            }
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Http(error) => error.hint(),
            Self::Unavailable { .. } => Some("Sync again later."),
        }
    }

    pub fn failure(&self, uri: &str) -> Failure {
        let failure = fetch_failure(uri, self.message(), self.hint());
        match self {
            Self::Unavailable {
                wait,
                throttled: true,
                ..
            } => failure.with_cause(FailureCause::Throttled {
                retry_after_seconds: wait.map(seconds),
            }),
            _ => failure,
        }
    }

    /// Returns the error of a source that needs the resource of this URL.
    pub fn error(&self, url: &Url) -> EngineError {
        if let Self::Unavailable {
            status,
            wait,
            throttled: true,
            elsewhere,
        } = self
        {
            let who = match elsewhere {
                Some(other) => format!("{other} (redirected from {url})"),
                None => format!("the server of {url}"),
            };
            return EngineError::throttled(&who, wait.map(seconds))
                .detail(format!("It answered {}.", named(*status)));
        }
        let error = EngineError::new(
            ErrorKind::SourceUnavailable,
            format!("could not fetch {url}: {}", self.message()),
        );
        match self.hint() {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// Returns whole seconds, rounded up.
pub fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

pub fn answered(status: StatusCode) -> String {
    format!("the server answered {}", named(status))
}

fn named(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// What to fetch.
pub struct FetchRequest<'a> {
    pub url: &'a Url,
    /// The stored version. If it is current, the status is 304.
    pub known: Option<&'a Validator>,
    /// Maximum size of the body.
    pub max_bytes: u64,
    /// Decides from the headers whether the body is read.
    pub accepts: &'a dyn Fn(&HttpResponse) -> bool,
}

/// Fetches a resource. Retries after errors that may be temporary.
///
/// If the server asks to wait longer than [`MAX_WAIT`], the request is not retried. After a 429, no
/// other request is sent to it either until that time is over. A server that has not answered three
/// requests in a row gets no more.
///
/// # Errors
/// There is no complete response, or the last attempt failed with a status that may be temporary
/// (429, 5xx).
pub fn fetch(client: &HttpClient, request: &FetchRequest<'_>) -> Result<Resource, FetchError> {
    retried(client, request.url, || fetch_once(client, request))
}

/// Makes an attempt to get something of a server, and more after errors that may be temporary: see
/// [`fetch`].
///
/// # Errors
/// The last attempt's.
pub fn retried<T>(
    client: &HttpClient,
    url: &Url,
    attempt_once: impl Fn() -> Result<T, FetchError>,
) -> Result<T, FetchError> {
    let mut delay = FIRST_RETRY_DELAY;
    let mut attempt = 1;
    loop {
        if client.is_silent(url) {
            let host = url.host_str().unwrap_or_default().into();
            return Err(FetchError::Http(HttpError::Silent(host)));
        }
        let fetched = attempt_once();
        let is_silent = matches!(&fetched, Err(FetchError::Http(error)) if error.is_silence());
        client.note_answer(url, is_silent);
        let (error, asked) = match fetched {
            Ok(fetched) => return Ok(fetched),
            Err(FetchError::Http(error)) if !error.is_transient() => {
                return Err(FetchError::Http(error));
            }
            Err(FetchError::Http(error)) => (FetchError::Http(error), None),
            Err(error @ FetchError::Unavailable { wait, .. }) => (error, wait),
        };
        let wait = asked.map_or(delay, |asked| asked.max(delay));
        // the next one would only say that the server is silent
        let is_last = attempt == MAX_ATTEMPTS || client.is_silent(url);
        if is_last || wait > MAX_WAIT {
            return Err(error);
        }
        thread::sleep(wait);
        delay *= 4;
        attempt += 1;
    }
}

fn fetch_once(client: &HttpClient, wanted: &FetchRequest<'_>) -> Result<Resource, FetchError> {
    let mut request = HttpRequest::get(wanted.url.clone());
    request.total = Some(ATTEMPT_TIMEOUT);
    if let Some(known) = wanted.known {
        if let Some(etag) = &known.etag {
            request = request.header("if-none-match", etag);
        }
        if let Some(time) = &known.last_modified {
            request = request.header("if-modified-since", time);
        }
    }
    let elsewhere = |url: &Url| {
        (url.origin() != wanted.url.origin()).then(|| url.origin().ascii_serialization())
    };
    let response = client.send(&request).map_err(|error| match error {
        HttpError::RateLimited { url, wait } => FetchError::Unavailable {
            status: StatusCode::TOO_MANY_REQUESTS,
            wait: Some(wait),
            throttled: true,
            elsewhere: elsewhere(&url),
        },
        error => FetchError::Http(error),
    })?;
    let status = response.status;
    if status == StatusCode::TOO_MANY_REQUESTS
        || (status.is_server_error() && status.as_u16() != 501)
    {
        let (wait, throttled) = (response.retry_after(), response.is_throttling());
        if throttled {
            client.note_throttled(&response.url);
        }
        // 503 may concern this resource only, 429 concerns the client
        if let Some(wait) =
            wait.filter(|wait| status == StatusCode::TOO_MANY_REQUESTS && *wait > MAX_WAIT)
        {
            client.back_off(&response.url, wait);
        }
        return Err(FetchError::Unavailable {
            status,
            wait,
            throttled,
            elsewhere: elsewhere(&response.url),
        });
    }
    let is_accepted = status == StatusCode::OK && (wanted.accepts)(&response);
    let mut resource = Resource {
        status,
        url: response.url.clone(),
        validator: Validator::of(&response),
        media_type: response.header("content-type").map(Into::into),
        robots: response
            .headers
            .get_all("x-robots-tag")
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect(),
        last_modified: response.header("last-modified").map(Into::into),
        bytes: vec![],
        is_accepted,
    };
    if is_accepted {
        resource.bytes = response.bytes(wanted.max_bytes).map_err(FetchError::Http)?;
    }
    Ok(resource)
}
