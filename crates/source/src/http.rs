//! The HTTP client of all sources: the only way out to the network.
//!
//! ```text
//! Request ─▶ guard.check(url) ─▶ connect (guarded resolver) ─▶ send ─▶ 3xx? ── yes: next url ──┐
//!               ▲                                                       │ no                     │
//!               └───────────────────────────────────────────────────────┼────────────────────────┘
//!                                                                       ▼
//!                                            Response { status, headers, url, body: Read, decompressed }
//! ```
//!
//! * Redirects are followed here, hop by hop, so that each goes through the [`Guard`](crate::guard), and so that
//!   credentials are shown only to the origin (scheme, host and port) they were made for.
//! * Nothing waits forever: [`CONNECT`] for a connection, [`SILENCE`] for the next bytes, and a request's own `total`.
//! * Bodies are streams. Who reads one says how many bytes it may have, counted after decompression.
//! * No proxy is taken from the environment. Through the one of [`Network`], everything is tunnelled (`CONNECT`).
//! * Certificates are verified against the system's authorities, or Mozilla's where the system has none.

use std::{
    io::{self, Read},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::read::MultiGzDecoder;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Network},
};
use ureq::{
    Agent, Proxy, SendBody,
    http::{self, HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    tls::{Certificate, RootCerts, TlsConfig},
    unversioned::transport::DefaultConnector,
};
use url::{Origin, Url};

use crate::guard::{Guard, GuardedResolver, Refusal, Unresolved};

/// Longest wait for a connection, TLS included, and longest for a name to be resolved.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest wait for the next bytes.
const SILENCE: Duration = Duration::from_secs(60);
/// Most redirects of a request.
const MAX_REDIRECTS: usize = 8;
const USER_AGENT: &str = concat!("rag/", env!("CARGO_PKG_VERSION"), " (+PostgreSQL extension rag)");

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the URL of {0} cannot be sent")]
    Url(String),
    #[error("the host \"{host}\" cannot be resolved: {reason}")]
    UnknownHost { host: String, reason: String },
    #[error("cannot connect to {host}: {reason}")]
    Connect { host: String, reason: String },
    #[error("no secure connection to {host}: {reason}")]
    Tls { host: String, reason: String },
    #[error("{host} did not answer in time ({during})")]
    Timeout { host: String, during: String },
    #[error("the connection to {host} broke: {reason}")]
    Broken { host: String, reason: String },
    #[error("{host} does not answer in HTTP: {reason}")]
    Protocol { host: String, reason: String },
    #[error("the server redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("the server redirects to another host, {0}")]
    OffOrigin(String),
    #[error("the server redirects to what is not a URL")]
    BadRedirect,
    #[error("the server sent the encoding \"{0}\", which was not asked for")]
    Encoding(String),
    #[error("the response has more than the limit of {0} bytes")]
    TooLarge(u64),
    #[error("the compressed response is damaged: {0}")]
    Compression(String),
}

impl HttpError {
    /// Whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. } => true,
            // EAI_AGAIN
            Self::UnknownHost { reason, .. } => reason.contains("Temporary failure"),
            _ => false,
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::UnknownHost { .. } | Self::Connect { .. } => {
                "Check the host's name, and that the database server may connect to it."
            }
            Self::Tls { .. } => "The server's certificate must be valid for its name and of a known authority.",
            Self::TooLarge(_) => "Raise the limit on the size of files (rag.max_file_size).",
            Self::OffOrigin(_) => "Write the URL that it redirects to.",
            _ => return None,
        })
    }

    /// What an error is that came while a body was read.
    fn of_io(host: &str, error: io::Error) -> Self {
        error.downcast::<Self>().unwrap_or_else(|error| Self::of(host, error.into()))
    }

    fn of(host: &str, error: ureq::Error) -> Self {
        let host = host.to_owned();
        match error {
            ureq::Error::Other(inner) => match inner.downcast::<Unresolved>() {
                Ok(unresolved) => match *unresolved {
                    Unresolved::Refused(refusal) => Self::Refused(refusal),
                    Unresolved::Unknown(reason) => Self::UnknownHost { host, reason },
                },
                Err(other) => Self::Protocol { host, reason: other.to_string() },
            },
            ureq::Error::HostNotFound => Self::UnknownHost { host, reason: "it has no address".into() },
            ureq::Error::Timeout(during) => Self::Timeout { host, during: during.to_string() },
            ureq::Error::ConnectionFailed => Self::Connect { host, reason: "no address of it answers".into() },
            ureq::Error::ConnectProxyFailed(reason) => {
                Self::Connect { host, reason: format!("rag.http_proxy: {reason}") }
            }
            ureq::Error::Rustls(error) => Self::Tls { host, reason: error.to_string() },
            ureq::Error::Tls(reason) => Self::Tls { host, reason: reason.into() },
            ureq::Error::TlsRequired => Self::Tls { host, reason: "the connection is not encrypted".into() },
            ureq::Error::Io(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::AddrNotAvailable => Self::Connect { host, reason: error.to_string() },
                // how rustls reports what it does not accept
                io::ErrorKind::InvalidData => Self::Tls { host, reason: error.to_string() },
                io::ErrorKind::UnexpectedEof => {
                    Self::Broken { host, reason: "it ended before the response was complete".into() }
                }
                _ => Self::Broken { host, reason: error.to_string() },
            },
            other => Self::Protocol { host, reason: other.to_string() },
        }
    }
}

/// Where redirects may lead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redirects {
    /// To whatever the guard lets pass.
    #[default]
    Anywhere,
    /// To the same scheme, host and port.
    SameOrigin,
}

#[derive(Debug)]
pub struct Request<'a> {
    pub url: Url,
    pub headers: Vec<(&'static str, String)>,
    /// With a body it is a POST. One that is redirected is sent again only for the statuses that ask for it (307, 308).
    pub body: Option<&'a [u8]>,
    pub redirects: Redirects,
    /// Longest time for everything, the body included.
    pub total: Option<Duration>,
}

impl Request<'_> {
    pub fn get(url: Url) -> Self {
        Self { url, headers: vec![], body: None, redirects: Redirects::default(), total: None }
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Where it came from, after redirects.
    pub url: Url,
    pub body: Body,
}

impl Response {
    /// A header's value, if it is there once and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The whole body.
    ///
    /// # Errors
    /// It has more than `most` bytes, decompressed, or does not arrive whole.
    pub fn bytes(self, most: u64) -> Result<Vec<u8>, HttpError> {
        let host = self.body.host.clone();
        let mut bytes = vec![];
        let read = self.body.take(most.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| HttpError::of_io(&host, error))?;
        if bytes.len() as u64 > most { Err(HttpError::TooLarge(most)) } else { Ok(bytes) }
    }
}

/// A body as it arrives, decompressed. Its errors carry an [`HttpError`].
pub struct Body {
    host: String,
    reader: Box<dyn Read + Send>,
}

impl Body {
    fn new(host: &str, encoding: Encoding, body: ureq::Body) -> Self {
        let host = host.to_owned();
        let arriving = Arriving { host: host.clone(), reader: body.into_reader() };
        let reader: Box<dyn Read + Send> = match encoding {
            Encoding::Identity => Box::new(arriving),
            Encoding::Gzip => Box::new(Gunzip(MultiGzDecoder::new(arriving))),
        };
        Self { host, reader }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// A body as it comes from the connection.
struct Arriving<R> {
    host: String,
    reader: R,
}

impl<R: Read> Read for Arriving<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).map_err(|error| io::Error::new(error.kind(), HttpError::of_io(&self.host, error)))
    }
}

/// Tells what is wrong with the compression from what is wrong with the connection.
struct Gunzip<R>(MultiGzDecoder<R>);

impl<R: Read> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let kind = error.kind();
            let error = error.downcast::<HttpError>().unwrap_or_else(|error| match kind {
                io::ErrorKind::UnexpectedEof => HttpError::Compression("it ends too early".into()),
                _ => HttpError::Compression(error.to_string()),
            });
            io::Error::new(kind, error)
        })
    }
}

/// Keeps connections open between requests; may be used by several threads at once.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    guard: Arc<Guard>,
    credentials: Option<(Origin, HeaderValue)>,
}

impl Client {
    /// `credentials` are shown to the origin of the URL beside them, and only over https or to an exception of the guard.
    ///
    /// # Errors
    /// `InvalidRequest` where the network settings cannot be understood or credentials would travel in the clear.
    pub fn new(network: &Network, credentials: Option<(&Credentials, &Url)>) -> Result<Self, EngineError> {
        let guard = Arc::new(Guard::new(network)?);
        let credentials = credentials
            .map(|(credentials, url)| {
                if url.scheme() == "https" || guard.is_exception(url) {
                    Ok((url.origin(), authorization(credentials)?))
                } else {
                    Err(EngineError::new(ErrorKind::InvalidRequest, "credentials are not sent over http")
                        .hint("Write the URL with https."))
                }
            })
            .transpose()?;
        let proxy = network.proxy.as_deref().map(Proxy::new).transpose().map_err(|_| {
            EngineError::new(ErrorKind::InvalidRequest, "rag.http_proxy is not the URL of a proxy")
                .hint("Write http://host:port.")
        })?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .user_agent(USER_AGENT)
            .accept_encoding("gzip")
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE))
            .tls_config(TlsConfig::builder().root_certs(authorities()).build())
            .build();
        let resolver = GuardedResolver::new(Arc::clone(&guard));
        Ok(Self { agent: Agent::with_parts(config, DefaultConnector::new(), resolver), guard, credentials })
    }

    /// Sends a request and follows its redirects. Statuses are not errors.
    ///
    /// # Errors
    /// The guard refuses a hop, or there is no answer.
    pub fn send(&self, request: &Request<'_>) -> Result<Response, HttpError> {
        let started = std::time::Instant::now();
        let mut url = request.url.clone();
        url.set_fragment(None);
        let mut body = request.body;
        for _ in 0..=MAX_REDIRECTS {
            let total = request.total.map(|total| total.saturating_sub(started.elapsed()));
            let response = self.send_once(&url, request, body, total)?;
            let Some(location) = redirect(&response) else { return Ok(response) };
            let next = location.and_then(|location| url.join(&location).ok()).ok_or(HttpError::BadRedirect)?;
            self.guard.check(&next)?;
            if request.redirects == Redirects::SameOrigin && next.origin() != request.url.origin() {
                return Err(HttpError::OffOrigin(next.host_str().unwrap_or_default().into()));
            }
            if !matches!(response.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
                body = None;
            }
            url = next;
            url.set_fragment(None);
        }
        Err(HttpError::TooManyRedirects)
    }

    fn send_once(
        &self,
        url: &Url,
        request: &Request<'_>,
        body: Option<&[u8]>,
        total: Option<Duration>,
    ) -> Result<Response, HttpError> {
        self.guard.check(url)?;
        let host = url.host_str().unwrap_or_default();
        let bad = || HttpError::Url(host.into());
        let uri: Uri = url.as_str().parse().map_err(|_| bad())?;
        if uri.host() != Some(host) {
            return Err(bad());
        }
        let mut built =
            http::Request::builder().uri(uri).method(if body.is_some() { Method::POST } else { Method::GET });
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        if let Some((origin, authorization)) = &self.credentials
            && *origin == url.origin()
        {
            built = built.header(header::AUTHORIZATION, authorization);
        }
        let sent = match body {
            Some(mut bytes) => {
                built = built.header(header::CONTENT_LENGTH, bytes.len());
                let body = SendBody::from_reader(&mut bytes);
                let built = built.body(body).map_err(|_| bad())?;
                self.agent.run(self.agent.configure_request(built).timeout_global(total).build())
            }
            None => {
                let built = built.body(()).map_err(|_| bad())?;
                self.agent.run(self.agent.configure_request(built).timeout_global(total).build())
            }
        };
        let (parts, body) = sent.map_err(|error| HttpError::of(host, error))?.into_parts();
        let body = Body::new(host, encoding(&parts.headers)?, body);
        Ok(Response { status: parts.status, headers: parts.headers, url: url.clone(), body })
    }
}

enum Encoding {
    Identity,
    Gzip,
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, HttpError> {
    let mut encoding = Encoding::Identity;
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase();
        encoding = match (value.as_str(), encoding) {
            ("identity" | "", encoding) => encoding,
            ("gzip" | "x-gzip", Encoding::Identity) => Encoding::Gzip,
            _ => return Err(HttpError::Encoding(value)),
        };
    }
    Ok(encoding)
}

/// Where a response redirects to, if it does; `Some(None)` where that is no text.
fn redirect(response: &Response) -> Option<Option<String>> {
    if !matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers.get(header::LOCATION)?;
    Some(std::str::from_utf8(location.as_bytes()).ok().map(Into::into))
}

fn authorization(credentials: &Credentials) -> Result<HeaderValue, EngineError> {
    let value = match &credentials.username {
        Some(user) => format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{}", credentials.secret))),
        None => format!("Bearer {}", credentials.secret),
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| {
        EngineError::new(ErrorKind::InvalidRequest, "the secret cannot be sent as a token")
            .hint("It contains line breaks or other characters that HTTP does not allow: was it copied whole?")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn authorities() -> RootCerts {
    let system = rustls_native_certs::load_native_certs();
    if system.certs.is_empty() {
        return RootCerts::WebPki;
    }
    RootCerts::Specific(Arc::new(system.certs.iter().map(|c| Certificate::from_der(c).to_owned()).collect()))
}
