//! Requests to a server, which failures are tried again, and errors in words. Each error names the
//! address of the server.

use std::{
    thread,
    time::{Duration, Instant},
};

use rag_protocol::{
    EngineError, ErrorKind,
    storage::{StorageCall, StorageRequest},
};
use rag_source::http::{
    HeaderName, HttpClient, HttpError, HttpRequest, HttpResponse, Method, Redirects,
};
use serde_json::Value;
use url::Url;

use crate::failure::{is_temporary, words_of};

/// The maximum number of requests for one answer to a write.
const MAX_ATTEMPTS: u32 = 4;
/// The wait before the second request, which doubles with each.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// The maximum size of an answer, in bytes.
const MAX_BODY: u64 = 64 << 20;
/// The maximum size of an error that is read, in bytes.
const MAX_ERROR: u64 = 64 << 10;

pub struct StorageClient<'a> {
    call: &'a StorageCall,
    http: HttpClient,
    base: Url,
    until: Instant,
}

/// The body of a request.
pub enum Body<'a> {
    None,
    Json(&'a Value),
    /// Lines of JSON.
    Lines(&'a str),
}

impl<'a> StorageClient<'a> {
    /// `secret` is the header that has the secret.
    pub fn new(
        call: &'a StorageCall,
        secret: Option<(&'static str, String)>,
        until: Instant,
    ) -> Result<Self, EngineError> {
        let base = Url::parse(call.url.trim_end_matches('/')).map_err(|_| {
            EngineError::new(
                ErrorKind::InvalidRequest,
                format!("url of retriever \"{}\" is not a URL", call.retriever),
            )
        })?;
        let mut http = HttpClient::new(&call.network, None)?;
        if let Some((name, value)) = secret {
            let name = HeaderName::from_static(name);
            http = http.with_secret_header(&base, name, &value)?;
        }
        Ok(Self {
            call,
            http,
            base,
            until,
        })
    }

    /// Returns the kind of server and its address.
    pub fn name(&self) -> String {
        name(self.call)
    }

    /// Sends a request. Returns the answer, or None for a status 404.
    ///
    /// # Errors
    /// The server refuses it, cannot be reached, or does not answer in time.
    pub fn find(
        &self,
        method: Method,
        path: &[&str],
        query: &str,
        body: &Body<'_>,
    ) -> Result<Option<Value>, EngineError> {
        let response = self.send(method, path, query, body)?;
        if response.status.as_u16() == 404 {
            return Ok(None);
        }
        let bytes = response
            .bytes(MAX_BODY)
            .map_err(|error| self.of_http(&error))?;
        let answer = serde_json::from_slice(&bytes);
        answer
            .map(Some)
            .map_err(|_| self.no_answer("It is not JSON."))
    }

    /// Sends a request to what must exist.
    ///
    /// # Errors
    /// The request fails ([`StorageClient::find`]), or the status is 404.
    pub fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &str,
        body: &Body<'_>,
    ) -> Result<Value, EngineError> {
        let answer = self.find(method, path, query, body)?;
        answer.ok_or_else(|| {
            EngineError::new(
                ErrorKind::InvalidRequest,
                format!("{} does not know the path /{}", self.name(), path.join("/")),
            )
            .hint("Check url and type of the retriever's storageConfig.")
        })
    }

    fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &str,
        body: &Body<'_>,
    ) -> Result<HttpResponse, EngineError> {
        let attempts = match self.call.request {
            // something else can answer
            StorageRequest::Search { .. } | StorageRequest::Describe => 1,
            _ => MAX_ATTEMPTS,
        };
        let mut delay = FIRST_DELAY;
        for attempt in 1.. {
            let (error, asked) = match self.send_once(method.clone(), path, query, body) {
                Ok(response) if response.status.is_success() => return Ok(response),
                Ok(response) if response.status.as_u16() == 404 => return Ok(response),
                Ok(response) => {
                    let asked = response.retry_after();
                    let may_repeat = is_temporary(response.status.as_u16());
                    let error = self.of_status(response);
                    if !may_repeat {
                        return Err(error);
                    }
                    (error, asked)
                }
                Err(error) if error.is_transient() => (self.of_http(&error), None),
                Err(error) => return Err(self.of_http(&error)),
            };
            let wait = asked.map_or(delay, |asked| asked.max(delay));
            if attempt >= attempts || wait >= self.left() {
                return Err(error);
            }
            thread::sleep(wait);
            delay *= 2;
        }
        unreachable!("the loop returns")
    }

    fn send_once(
        &self,
        method: Method,
        path: &[&str],
        query: &str,
        body: &Body<'_>,
    ) -> Result<HttpResponse, HttpError> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url.set_query((!query.is_empty()).then_some(query));
        let json;
        let (body, kind) = match body {
            Body::None => (None, None),
            Body::Json(value) => {
                json = value.to_string();
                (Some(json.as_bytes()), Some("application/json"))
            }
            Body::Lines(lines) => (Some(lines.as_bytes()), Some("application/x-ndjson")),
        };
        let left = self.left();
        let mut request = HttpRequest {
            method: Some(method),
            body,
            redirects: Redirects::SameOrigin,
            total: Some(left),
            silence: Some(left),
            ..HttpRequest::get(url)
        }
        .header("accept", "application/json");
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        self.http.send(&request)
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn of_status(&self, response: HttpResponse) -> EngineError {
        let name = self.name();
        let status = response.status.as_u16();
        let wait = response.retry_after().map(|wait| wait.as_secs());
        let reason = response.status.canonical_reason().unwrap_or_default();
        let answered = format!("The server answered {status} {reason}");
        let words = response.bytes(MAX_ERROR).ok();
        let words = words.and_then(|body| words_of(&body));
        let detail = match words {
            Some(words) => format!("{}: {words}", answered.trim_end()),
            None => format!("{}.", answered.trim_end()),
        };
        let error = |kind, message: String| EngineError::new(kind, message).detail(detail.clone());
        match status {
            401 | 403 => error(
                ErrorKind::Unauthorized,
                format!("{name} refuses the credentials"),
            )
            .hint(
                "Check the secrets that usernameRef, passwordRef or apiKeyRef of the \
                     retriever name.",
            ),
            429 => EngineError {
                retry_after_seconds: wait,
                ..error(
                    ErrorKind::Throttled,
                    format!("{name} limits the rate of requests"),
                )
            }
            .hint("What is not written yet is tried again."),
            _ if is_temporary(status) => EngineError {
                retry_after_seconds: wait,
                ..error(ErrorKind::SourceUnavailable, format!("{name} has failed"))
            }
            .hint("What is not written yet is tried again."),
            _ => error(
                ErrorKind::InvalidRequest,
                format!("{name} refuses the request"),
            )
            .hint("Check url and type of the retriever's storageConfig."),
        }
    }

    fn of_http(&self, error: &HttpError) -> EngineError {
        let name = self.name();
        if matches!(error, HttpError::Timeout { .. }) {
            return timeout(self.call);
        }
        let kind = match error {
            HttpError::OffOrigin(_) | HttpError::BadRedirect | HttpError::TooManyRedirects => {
                ErrorKind::InvalidRequest
            }
            _ => ErrorKind::SourceUnavailable,
        };
        let hint = match error {
            HttpError::Refused(_) => {
                "Servers are called at public addresses only. A superuser can allow others in \
                 rag.allowed_private_hosts."
            }
            _ => error
                .hint()
                .unwrap_or("Check that the server runs, and url of the retriever."),
        };
        EngineError::new(kind, format!("could not reach {name}: {error}")).hint(hint)
    }

    /// Returns the error for a response that is not an answer.
    pub fn no_answer(&self, detail: impl Into<String>) -> EngineError {
        EngineError::new(
            ErrorKind::InvalidAnswer,
            format!("{} sent an invalid answer", self.name()),
        )
        .detail(detail)
        .hint("Check url and type of the retriever's storageConfig.")
    }
}

fn name(call: &StorageCall) -> String {
    let address = call.url.trim_end_matches('/');
    format!("{} at {address}", call.server.title())
}

/// Returns the error for a call that has taken too long.
pub fn timeout(call: &StorageCall) -> EngineError {
    let seconds = call.timeout_ms as f64 / 1e3;
    EngineError::new(
        ErrorKind::SourceUnavailable,
        format!("{} did not answer within {seconds} s", name(call)),
    )
    .hint("Check that the server runs, and url of the retriever.")
}
