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
//! * Redirects are followed here, hop by hop, so that each goes through the
//!   [`Guard`](crate::guard), and so that credentials are shown only to the origin (scheme, host
//!   and port) they were made for.
//! * Nothing waits forever: [`CONNECT`] for a connection, [`SILENCE`] for the headers and then for
//!   the next bytes, and a request's own `total`, which is looked at between reads: where it is
//!   longer than [`SILENCE`], a silent server may stretch it by that.
//! * Bodies are streams. Who reads one says how many bytes it may have, counted after
//!   decompression.
//! * No proxy is taken from the environment. Through the one of [`Network`], https is tunnelled
//!   (`CONNECT`), and requests over http are handed to the proxy as they are, with their headers
//!   (`GET http://host/path`).
//! * A resolver is asked for names without ports, but exceptions of the guard may have one. Hence
//!   one set of connections, with a thread that drives them, for each port that an exception names,
//!   and one for all others.
//! * Certificates are verified against the system's authorities, or Mozilla's where the system has
//!   none.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt,
    io::{self, Read},
    iter,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::read::MultiGzDecoder;
use hyper::Uri;
use hyper_util::client::legacy::connect::HttpInfo;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Network},
};
use reqwest::{
    Method, Proxy, StatusCode, blocking,
    header::{self, HeaderMap, HeaderValue},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use url::{Origin, Url};

use crate::guard::{Guard, GuardedResolver, Refusal, Unresolved};

/// Longest wait for a connection, from its name to TLS.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest wait for the headers of a response, the connection included, and then for the next
/// bytes.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest time a connection is kept for the next request to its host. There may be many hosts, and
/// each holds a descriptor.
const KEPT: Duration = Duration::from_secs(10);
/// Most redirects of a request.
const MAX_REDIRECTS: usize = 8;
/// Longest time that a server may ask for before the next try, and get. One that asks for more is
/// given up for this run: the next run comes after that time, and this one holds a worker, a
/// process and a place among the runs.
pub const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// What a server asks for is cut to this: it is no reason never to come back.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const USER_AGENT: &str = concat!(
    "rag/",
    env!("CARGO_PKG_VERSION"),
    " (+PostgreSQL extension rag)"
);

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
    /// It was not sent to the server of this URL, which asked to be left alone for so much longer.
    #[error("{} asked to be left alone", .url.origin().ascii_serialization())]
    LeftAlone { url: Url, wait: Duration },
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
            Self::Tls { .. } => {
                "The server's certificate must be valid for its name and of a known authority."
            }
            Self::TooLarge(_) => "Raise the limit on the size of files (rag.max_file_size).",
            Self::OffOrigin(_) => "Write the URL that it redirects to.",
            _ => return None,
        })
    }

    /// What an error is that came while a body was read.
    fn of_io(host: &str, error: io::Error) -> Self {
        error
            .downcast::<Self>()
            .unwrap_or_else(|error| Self::of(host, false, "body", &error))
    }

    /// What an error of reqwest is. Those of the layers below it, which know more, are among its
    /// causes.
    fn of(host: &str, proxied: bool, during: &str, error: &(dyn Error + 'static)) -> Self {
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
            reason: "it ended before the response was complete".into(),
        };

        if let Some(unresolved) = cause::<Unresolved>(error) {
            return match unresolved {
                Unresolved::Refused(refusal) => Self::Refused(refusal.clone()),
                Unresolved::Unknown(_) if proxied => Self::Connect {
                    host,
                    reason: named(reason),
                },
                Unresolved::Unknown(_) => Self::UnknownHost { host, reason },
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
        // the innermost, and none that only carries an error of another kind
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

/// An error, what caused it, what caused that.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>() {
            // its source is the source of what it carries
            Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// What an error comes down to. The outer ones name URLs, which may hold credentials.
fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
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
    /// With a body it is a POST. One that is redirected is sent again only for the statuses that
    /// ask for it (307, 308).
    pub body: Option<&'a [u8]>,
    pub redirects: Redirects,
    /// Longest time for everything, the body included.
    pub total: Option<Duration>,
}

impl Request<'_> {
    pub fn get(url: Url) -> Self {
        Self {
            url,
            headers: vec![],
            body: None,
            redirects: Redirects::default(),
            total: None,
        }
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

    /// Whether it says nothing of the resource, but that the server asks to be left alone for a
    /// while: 429, or 503 with a time. A 503 without is a server that is out of order.
    pub fn is_throttling(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
            || (self.status == StatusCode::SERVICE_UNAVAILABLE && self.retry_after().is_some())
    }

    /// How long the server asks to wait (RFC 9110, 10.2.3): seconds, or a date, which is one of the
    /// server's clock.
    pub fn retry_after(&self) -> Option<Duration> {
        let date = |name| {
            self.header(name)
                .and_then(|value| httpdate::parse_http_date(value.trim()).ok())
        };
        let value = self.header("retry-after")?.trim();
        let asked = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
            // what does not fit is more than the limit
            value
                .parse()
                .map_or(LONGEST_RETRY_AFTER, Duration::from_secs)
        } else {
            let now = date("date").unwrap_or_else(SystemTime::now);
            date("retry-after")?.duration_since(now).unwrap_or_default()
        };
        Some(asked.min(LONGEST_RETRY_AFTER))
    }

    /// The whole body.
    ///
    /// # Errors
    /// It has more than `most` bytes, decompressed, or does not arrive whole.
    pub fn bytes(self, most: u64) -> Result<Vec<u8>, HttpError> {
        let host = self.body.host.clone();
        let mut bytes = vec![];
        let read = self
            .body
            .take(most.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(|error| HttpError::of_io(&host, error))?;
        if bytes.len() as u64 > most {
            Err(HttpError::TooLarge(most))
        } else {
            Ok(bytes)
        }
    }
}

/// A body as it arrives, decompressed. Its errors carry an [`HttpError`].
pub struct Body {
    host: String,
    reader: Box<dyn Read + Send>,
}

impl Body {
    fn new(
        host: &str,
        encoding: Encoding,
        until: Option<Instant>,
        reader: blocking::Response,
    ) -> Self {
        let host = host.to_owned();
        let arriving = Arriving {
            host: host.clone(),
            until,
            reader,
        };
        let reader: Box<dyn Read + Send> = match encoding {
            Encoding::Identity => Box::new(arriving),
            Encoding::Gzip => Box::new(Gunzip(MultiGzDecoder::new(arriving))),
        };
        Self { host, reader }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("host", &self.host)
            .finish_non_exhaustive()
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
    /// When the time of the request is over.
    until: Option<Instant>,
    reader: R,
}

impl<R: Read> Read for Arriving<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            let error = HttpError::Timeout {
                host: self.host.clone(),
                during: "body".into(),
            };
            return Err(io::Error::new(io::ErrorKind::TimedOut, error));
        }
        self.reader
            .read(buffer)
            .map_err(|error| io::Error::new(error.kind(), HttpError::of_io(&self.host, error)))
    }
}

/// Tells what is wrong with the compression from what is wrong with the connection.
struct Gunzip<R>(MultiGzDecoder<R>);

impl<R: Read> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let kind = error.kind();
            let error = error
                .downcast::<HttpError>()
                .unwrap_or_else(|error| match kind {
                    io::ErrorKind::UnexpectedEof => {
                        HttpError::Compression("it ends too early".into())
                    }
                    _ => HttpError::Compression(error.to_string()),
                });
            io::Error::new(kind, error)
        })
    }
}

/// Keeps connections open between requests; may be used by several threads at once.
pub struct Client {
    guard: Arc<Guard>,
    proxy: Option<Proxy>,
    tls: ClientConfig,
    /// By the [scope](Guard::scope) of their ports.
    connections: Mutex<BTreeMap<u16, blocking::Client>>,
    credentials: Option<(Origin, HeaderValue)>,
    /// Servers that asked to be left alone, and until when.
    left_alone: Mutex<HashMap<Origin, Instant>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // the proxy may have a password, and the authorities fill pages
        f.debug_struct("Client")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// `credentials` are shown to the origin of the URL beside them, and only over https or to an
    /// exception of the guard.
    ///
    /// # Errors
    /// `InvalidRequest` where the network settings cannot be understood or credentials would travel
    /// in the clear.
    pub fn new(
        network: &Network,
        credentials: Option<(&Credentials, &Url)>,
    ) -> Result<Self, EngineError> {
        let guard = Arc::new(Guard::new(network)?);
        let credentials = credentials
            .map(|(credentials, url)| {
                if url.scheme() == "https" || guard.is_exception(url) {
                    Ok((url.origin(), authorization(credentials)?))
                } else {
                    Err(EngineError::new(
                        ErrorKind::InvalidRequest,
                        "credentials are not sent over http",
                    )
                    .hint("Write the URL with https."))
                }
            })
            .transpose()?;
        let proxy = network
            .proxy
            .as_deref()
            .map(Proxy::all)
            .transpose()
            .map_err(|_| {
                EngineError::new(
                    ErrorKind::InvalidRequest,
                    "rag.http_proxy is not the URL of a proxy",
                )
                .hint("Write http://host:port.")
            })?;
        let tls = tls().map_err(|error| {
            EngineError::new(
                ErrorKind::Internal,
                format!("TLS cannot be set up: {error}"),
            )
        })?;
        Ok(Self {
            guard,
            proxy,
            tls,
            connections: Mutex::default(),
            credentials,
            left_alone: Mutex::default(),
        })
    }

    /// The connections to a port.
    fn connections(&self, port: u16) -> reqwest::Result<blocking::Client> {
        let scope = self.guard.scope(port);
        let mut connections = self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = connections.get(&scope) {
            return Ok(client.clone());
        }
        let mut builder = blocking::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT)
            .timeout(SILENCE)
            .pool_idle_timeout(KEPT)
            .tls_backend_preconfigured(self.tls.clone())
            .dns_resolver(Arc::new(GuardedResolver::new(
                Arc::clone(&self.guard),
                scope,
            )));
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy.clone());
        }
        let client = builder.build()?;
        connections.insert(scope, client.clone());
        Ok(client)
    }

    /// Notes that the server of a URL asked to be left alone for so long.
    pub fn leave_alone(&self, url: &Url, wait: Duration) {
        if let Some(until) = Instant::now().checked_add(wait) {
            self.left_alone
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(url.origin(), until);
        }
    }

    /// For how much longer the server of a URL asked to be left alone, if it did.
    pub fn is_left_alone(&self, url: &Url) -> Option<Duration> {
        let left_alone = self
            .left_alone
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let left = left_alone
            .get(&url.origin())?
            .saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Sends a request and follows its redirects. Statuses are not errors.
    ///
    /// # Errors
    /// The guard refuses a hop, its server asked to be left alone, or there is no answer.
    pub fn send(&self, request: &Request<'_>) -> Result<Response, HttpError> {
        let until = request
            .total
            .and_then(|total| Instant::now().checked_add(total));
        let mut url = request.url.clone();
        url.set_fragment(None);
        let mut body = request.body;
        for _ in 0..=MAX_REDIRECTS {
            if let Some(wait) = self.is_left_alone(&url) {
                return Err(HttpError::LeftAlone { url, wait });
            }
            let response = self.send_once(&url, request, body, until)?;
            let Some(location) = redirect(&response) else {
                return Ok(response);
            };
            let next = location
                .and_then(|location| url.join(&location).ok())
                .ok_or(HttpError::BadRedirect)?;
            self.guard.check(&next)?;
            if request.redirects == Redirects::SameOrigin && next.origin() != request.url.origin() {
                return Err(HttpError::OffOrigin(
                    next.host_str().unwrap_or_default().into(),
                ));
            }
            if !matches!(
                response.status,
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            ) {
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
        until: Option<Instant>,
    ) -> Result<Response, HttpError> {
        self.guard.check(url)?;
        let host = url.host_str().unwrap_or_default();
        let bad = || HttpError::Url(host.into());
        // what connects must understand the same as the guard did
        let uri: Uri = url.as_str().parse().map_err(|_| bad())?;
        if uri.host() != Some(host) {
            return Err(bad());
        }
        let failed = |error: reqwest::Error| {
            if error.is_builder() {
                bad()
            } else {
                HttpError::of(host, self.proxy.is_some(), "response", &error)
            }
        };
        let connections = self.connections(url.port_or_known_default().unwrap_or_default());
        let connections = connections.map_err(|error| HttpError::Connect {
            host: host.into(),
            reason: innermost(&error),
        })?;
        let method = if body.is_some() {
            Method::POST
        } else {
            Method::GET
        };
        let mut built = connections
            .request(method, url.clone())
            .header(header::ACCEPT_ENCODING, "gzip");
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        if let Some((origin, authorization)) = &self.credentials
            && *origin == url.origin()
        {
            built = built.header(header::AUTHORIZATION, authorization);
        }
        if let Some(body) = body {
            built = built.body(body.to_vec());
        }
        // reqwest waits either for the whole or for the next bytes
        if let Some(left) = until.map(|until| until.saturating_duration_since(Instant::now()))
            && left < SILENCE
        {
            built = built.timeout(left);
        }
        let mut response = built.send().map_err(failed)?;
        if let Some(connection) = response.extensions().get::<HttpInfo>() {
            self.guard.check_connection(
                url,
                connection.local_addr().ip(),
                connection.remote_addr().ip(),
            )?;
        }
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = Body::new(host, encoding(&headers)?, until, response);
        Ok(Response {
            status,
            headers,
            url: url.clone(),
            body,
        })
    }
}

enum Encoding {
    Identity,
    Gzip,
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, HttpError> {
    let mut encoding = Encoding::Identity;
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes())
            .trim()
            .to_ascii_lowercase();
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
    Some(
        std::str::from_utf8(location.as_bytes())
            .ok()
            .map(Into::into),
    )
}

fn authorization(credentials: &Credentials) -> Result<HeaderValue, EngineError> {
    let value = match &credentials.username {
        Some(user) => format!(
            "Basic {}",
            BASE64_STANDARD.encode(format!("{user}:{}", credentials.secret))
        ),
        None => format!("Bearer {}", credentials.secret),
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| {
        EngineError::new(ErrorKind::InvalidRequest, "the secret cannot be sent as a token")
            .hint("It contains line breaks or other characters that HTTP does not allow: was it copied whole?")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

pub(crate) fn tls() -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder
        .with_root_certificates(authorities())
        .with_no_client_auth())
}

fn authorities() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}
