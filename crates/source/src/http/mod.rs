//! The HTTP client of all sources. Nothing else connects to the network.
//!
//! ```text
//! HttpRequest ─▶ guard.check(url) ─▶ connect (guarded resolver) ─▶ send ─▶ 3xx? ─ yes: next url ─┐
//!                     ▲                                                     │ no                 │
//!                     └─────────────────────────────────────────────────────┼────────────────────┘
//!                                                                           ▼
//!                                HttpResponse { status, headers, url, body: Read, decompressed }
//! ```
//!
//! * Redirects are followed here, one at a time, so that each goes through the
//!   [`Guard`](crate::guard), and credentials are sent only to their own origin (scheme, host and
//!   port).
//! * Every wait is limited: [`CONNECT_TIMEOUT`] for a connection, [`READ_TIMEOUT`] for the headers
//!   and then for the next bytes, and the `total` of a request. `total` is checked between reads,
//!   so a silent server can exceed it by [`READ_TIMEOUT`].
//! * Bodies are streams. The reader limits their size, counted after decompression.
//! * Proxies of the environment are ignored. With the proxy of [`Network`], https is tunnelled
//!   (`CONNECT`), and requests over http are sent to the proxy with their headers
//!   (`GET http://host/path`).
//! * A resolver gets names without ports, but allowed hosts may have one. Hence there is one set of
//!   connections, with its own thread, for each port of an allowed host, and one for all others:
//!   of http and of https.
//! * Certificates are verified against the system's authorities, or Mozilla's if the system has
//!   none. They are read when the first connection needs them, which takes milliseconds.

mod error;
mod response;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::Uri;
use hyper_util::client::legacy::connect::HttpInfo;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Network},
};
pub use reqwest::{Method, header::HeaderName};
use reqwest::{
    Proxy, StatusCode, blocking,
    header::{self, HeaderMap, HeaderValue},
    redirect::Policy,
};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier, crypto::ring};
use url::{Origin, Url};

pub use self::{
    error::HttpError,
    response::{Body, HttpResponse},
};
use self::{error::innermost, response::encoding};
use crate::guard::{Guard, GuardedResolver};

/// Includes name resolution and TLS.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Limits the wait for the headers of a response, the connection included, and then for the next
/// bytes, unless the job has another limit.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// An idle connection is closed after this time. There may be many hosts, and each connection holds
/// a descriptor.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of redirects of one request.
pub const MAX_REDIRECTS: usize = 8;
/// Maximum wait that a server may ask for before a retry. If it asks for more, it gets no more
/// requests in this run: a waiting run would hold a worker, a process and a slot.
pub const MAX_WAIT: Duration = Duration::from_secs(10);
/// Number of requests in a row without an answer after which a server is not asked again in the
/// run.
const MAX_SILENCE: u32 = 3;
const USER_AGENT: &str = concat!(
    "rag/",
    env!("CARGO_PKG_VERSION"),
    " (+PostgreSQL extension rag)"
);

/// Which redirects are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redirects {
    /// To every URL that the guard allows.
    #[default]
    Anywhere,
    /// To the same scheme, host and port.
    SameOrigin,
    /// To nothing: the redirect is the response.
    Never,
}

#[derive(Debug)]
pub struct HttpRequest<'a> {
    pub url: Url,
    pub headers: Vec<(&'static str, String)>,
    /// Headers that are sent to the origin of `url` alone. They may have secrets.
    pub own_headers: HeaderMap,
    /// None: POST for a request with a body, else GET.
    pub method: Option<Method>,
    /// After a redirect the body is sent again only for the statuses 307 and 308.
    pub body: Option<&'a [u8]>,
    pub redirects: Redirects,
    /// Time limit that includes the body.
    pub total: Option<Duration>,
    /// Time limit for the headers, and then for the next bytes. None: [`READ_TIMEOUT`].
    pub silence: Option<Duration>,
}

impl HttpRequest<'_> {
    pub fn get(url: Url) -> Self {
        Self {
            url,
            headers: vec![],
            own_headers: HeaderMap::new(),
            method: None,
            body: None,
            redirects: Redirects::default(),
            total: None,
            silence: None,
        }
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// Keeps connections open between requests; may be used by several threads at once.
pub struct HttpClient {
    guard: Arc<Guard>,
    proxy: Option<Proxy>,
    tls: ConfigBuilder<ClientConfig, WantsVerifier>,
    authorities: OnceLock<RootCertStore>,
    /// By the [scope](Guard::scope) of their ports, and whether they know no authority.
    connections: Mutex<BTreeMap<(u16, bool), blocking::Client>>,
    credentials: Option<(Origin, HeaderName, HeaderValue)>,
    /// Servers that limit the rate of requests, and when the next request may be sent.
    rate_limited: Mutex<HashMap<Origin, Instant>>,
    /// How often each server has limited the rate of requests.
    throttled: Mutex<HashMap<Origin, u32>>,
    /// Limits the wait for the headers of a response, and then for the next bytes.
    read_timeout: Duration,
    /// Servers that have not answered, and the number of requests without an answer.
    silent: Mutex<HashMap<Origin, u32>>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // the proxy may have a password, and the authorities fill pages
        f.debug_struct("HttpClient")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

impl HttpClient {
    /// `credentials` are sent to the origin of the URL beside them, and only over https or to an
    /// allowed host.
    ///
    /// # Errors
    /// `InvalidRequest`: the network settings are invalid, or credentials would be sent
    /// unencrypted.
    pub fn new(
        network: &Network,
        credentials: Option<(&Credentials, &Url)>,
    ) -> Result<Self, EngineError> {
        let client = Self::without_credentials(network)?;
        match credentials {
            None => Ok(client),
            Some((credentials, url)) => {
                client.with_secret_header(url, header::AUTHORIZATION, &authorization(credentials))
            }
        }
    }

    /// Sends a secret in a header to the origin of a URL, and only over https or to an allowed
    /// host.
    ///
    /// # Errors
    /// `InvalidRequest`: it would be sent unencrypted, or cannot be in a header.
    pub fn with_secret_header(
        mut self,
        url: &Url,
        name: HeaderName,
        value: &str,
    ) -> Result<Self, EngineError> {
        self.check_secrecy(url)?;
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            EngineError::new(
                ErrorKind::InvalidRequest,
                "the secret cannot be sent in an HTTP header",
            )
            .hint("It contains line breaks or other characters that HTTP does not allow.")
        })?;
        value.set_sensitive(true);
        self.credentials = Some((url.origin(), name, value));
        Ok(self)
    }

    /// Checks that requests with credentials may be sent to a URL: over https, or to an allowed
    /// host.
    ///
    /// # Errors
    /// `InvalidRequest`: they would be sent unencrypted.
    pub fn check_secrecy(&self, url: &Url) -> Result<(), EngineError> {
        if url.scheme() == "https" || self.guard.is_allowed_host(url) {
            return Ok(());
        }
        Err(EngineError::new(
            ErrorKind::InvalidRequest,
            "credentials cannot be sent over http",
        )
        .hint("Write the URL with https://."))
    }

    fn without_credentials(network: &Network) -> Result<Self, EngineError> {
        let guard = Arc::new(Guard::new(network)?);
        let proxy = network
            .proxy
            .as_deref()
            .map(Proxy::all)
            .transpose()
            .map_err(|_| {
                EngineError::new(
                    ErrorKind::InvalidRequest,
                    "rag.http_proxy is not a valid URL",
                )
                .hint("Write http://host:port.")
            })?;
        let tls = tls().map_err(|error| {
            EngineError::new(
                ErrorKind::Internal,
                format!("could not initialize TLS: {error}"),
            )
        })?;
        Ok(Self {
            guard,
            proxy,
            tls,
            authorities: OnceLock::new(),
            connections: Mutex::default(),
            credentials: None,
            rate_limited: Mutex::default(),
            throttled: Mutex::default(),
            read_timeout: network
                .silence_seconds
                .map_or(READ_TIMEOUT, Duration::from_secs),
            silent: Mutex::default(),
        })
    }

    /// Returns the connections for a scheme and port.
    fn connections(&self, url: &Url) -> reqwest::Result<blocking::Client> {
        let scope = self
            .guard
            .scope(url.port_or_known_default().unwrap_or_default());
        // without authorities no certificate would be accepted
        let is_plain = url.scheme() == "http" && self.proxy.is_none();
        let mut connections = locked(&self.connections);
        if let Some(client) = connections.get(&(scope, is_plain)) {
            return Ok(client.clone());
        }
        let authorities = if is_plain {
            RootCertStore::empty()
        } else {
            self.authorities.get_or_init(authorities).clone()
        };
        let tls = self.tls.clone().with_root_certificates(authorities);
        let mut builder = blocking::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(self.read_timeout)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tls_backend_preconfigured(tls.with_no_client_auth())
            .dns_resolver(Arc::new(GuardedResolver::new(
                Arc::clone(&self.guard),
                scope,
            )));
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy.clone());
        }
        let client = builder.build()?;
        connections.insert((scope, is_plain), client.clone());
        Ok(client)
    }

    /// Sends no request to the server of a URL for this time.
    pub fn back_off(&self, url: &Url, wait: Duration) {
        if let Some(until) = Instant::now().checked_add(wait) {
            locked(&self.rate_limited).insert(url.origin(), until);
        }
    }

    /// Counts an answer by which a server limits the rate of requests.
    pub fn note_throttled(&self, url: &Url) {
        let mut throttled = locked(&self.throttled);
        *throttled.entry(url.origin()).or_default() += 1;
    }

    /// Returns how often a server has limited the rate of requests.
    pub fn times_throttled(&self, url: &Url) -> u32 {
        let throttled = locked(&self.throttled);
        throttled.get(&url.origin()).copied().unwrap_or_default()
    }

    /// Counts a request to a server: the ones in a row that it has not answered.
    pub fn note_answer(&self, url: &Url, is_silent: bool) {
        let mut silent = locked(&self.silent);
        if is_silent {
            *silent.entry(url.origin()).or_default() += 1;
        } else {
            silent.remove(&url.origin());
        }
    }

    /// Returns true if a server has not answered several requests in a row.
    pub fn is_silent(&self, url: &Url) -> bool {
        let silent = locked(&self.silent);
        silent.get(&url.origin()).is_some_and(|n| *n >= MAX_SILENCE)
    }

    /// Returns how much longer no request may be sent to the server of a URL.
    pub fn rate_limited_for(&self, url: &Url) -> Option<Duration> {
        let rate_limited = locked(&self.rate_limited);
        let left = rate_limited
            .get(&url.origin())?
            .saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Sends a request and follows its redirects. Statuses are not errors.
    ///
    /// # Errors
    /// The guard refuses a URL, its server limits the rate of requests, or there is no response.
    pub fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpError> {
        let until = request
            .total
            .and_then(|total| Instant::now().checked_add(total));
        let mut url = request.url.clone();
        url.set_fragment(None);
        let mut body = request.body;
        for _ in 0..=MAX_REDIRECTS {
            if let Some(wait) = self.rate_limited_for(&url) {
                return Err(HttpError::RateLimited { url, wait });
            }
            let response = self.send_once(&url, request, body, until)?;
            let Some(location) = redirect(&response) else {
                return Ok(response);
            };
            if request.redirects == Redirects::Never {
                return Ok(response);
            }
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
        request: &HttpRequest<'_>,
        body: Option<&[u8]>,
        until: Option<Instant>,
    ) -> Result<HttpResponse, HttpError> {
        self.guard.check(url)?;
        let host = url.host_str().unwrap_or_default();
        let bad = || HttpError::Url(host.into());
        // the connection must parse the URL as the guard did
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
        let connections = self.connections(url).map_err(|error| HttpError::Connect {
            host: host.into(),
            reason: innermost(&error),
        })?;
        let given = request.method.clone();
        // a redirect that loses the body is followed with GET
        let given = given.filter(|_| body.is_some() == request.body.is_some());
        let method = given.unwrap_or(if body.is_some() {
            Method::POST
        } else {
            Method::GET
        });
        let mut built = connections
            .request(method, url.clone())
            .header(header::ACCEPT_ENCODING, "gzip");
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        if url.origin() == request.url.origin() {
            built = built.headers(request.own_headers.clone());
        }
        if let Some((origin, name, value)) = &self.credentials
            && *origin == url.origin()
        {
            built = built.header(name, value);
        }
        if let Some(body) = body {
            built = built.body(body.to_vec());
        }
        // reqwest's timeout is either for the whole response or for the next bytes
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let silence = request.silence.unwrap_or(self.read_timeout);
        built = built.timeout(left.map_or(silence, |left| left.min(silence)));
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
        Ok(HttpResponse {
            status,
            headers,
            url: url.clone(),
            body,
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the target of a redirect. Returns `Some(None)` if it is not valid UTF-8.
fn redirect(response: &HttpResponse) -> Option<Option<String>> {
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

fn authorization(credentials: &Credentials) -> String {
    match &credentials.username {
        Some(user) => {
            let both = format!("{user}:{}", credentials.secret);
            format!("Basic {}", BASE64_STANDARD.encode(both))
        }
        None => format!("Bearer {}", credentials.secret),
    }
}

pub(crate) fn tls() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
}

fn authorities() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}
