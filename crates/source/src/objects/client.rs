//! Requests for lists and objects, and what their answers mean.

use std::io::Read;

use rag_protocol::{EngineError, ErrorKind, ingest::Failure};
use reqwest::{StatusCode, header::HeaderMap};
use url::Url;

use super::{
    Bucket,
    access::Access,
    refusal::{Explain, Explanation, Refusal},
    text, xml,
};
use crate::{
    fetch_failure,
    fetcher::{ATTEMPT_TIMEOUT, FetchError, retried},
    http::{HttpClient, HttpError, HttpRequest, MAX_WAIT, Redirects},
    item_failure,
};

/// Maximum size of an answer that says why a request is refused.
const MAX_REFUSAL: u64 = 64 << 10;
/// What services call a limit on the rate of requests.
const THROTTLING: [&str; 6] = [
    "SlowDown",
    "ServerBusy",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TooManyRequests",
];

/// Sends authorized requests to one server.
pub struct ObjectClient {
    http: HttpClient,
    access: Access,
    explain: Explain,
}

pub struct ObjectAnswer {
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub enum ObjectError {
    /// There is no complete answer, or the server has failed.
    Fetch(FetchError),
    /// The request could not be authorized.
    Access(EngineError),
    Refused(Refusal, Explanation),
    /// The answer is not what it should be. Says why.
    Invalid(String),
}

impl ObjectClient {
    /// # Errors
    /// `InvalidRequest`: credentials would be sent unencrypted.
    pub fn new(
        http: HttpClient,
        access: Access,
        server: &Url,
        explain: Explain,
    ) -> Result<Self, EngineError> {
        if !access.is_public() {
            http.check_secrecy(server)?;
        }
        Ok(Self {
            http,
            access,
            explain,
        })
    }

    /// Gets something, with retries. No redirect is followed: a signature is for one host.
    ///
    /// # Errors
    /// There is no complete answer with the status 200.
    pub fn get(&self, url: &Url, max_bytes: u64) -> Result<ObjectAnswer, ObjectError> {
        let attempt = || self.attempt(url, max_bytes);
        retried(&self.http, url, attempt).map_err(ObjectError::Fetch)?
    }

    fn attempt(
        &self,
        url: &Url,
        max_bytes: u64,
    ) -> Result<Result<ObjectAnswer, ObjectError>, FetchError> {
        let (url, headers) = match self.access.authorize(url) {
            Ok(authorized) => authorized,
            Err(error) => return Ok(Err(ObjectError::Access(error))),
        };
        let request = HttpRequest {
            headers,
            redirects: Redirects::Never,
            total: Some(ATTEMPT_TIMEOUT),
            ..HttpRequest::get(url)
        };
        let mut response = self.http.send(&request).map_err(|error| match error {
            HttpError::RateLimited { wait, .. } => FetchError::Unavailable {
                status: StatusCode::TOO_MANY_REQUESTS,
                wait: Some(wait),
                throttled: true,
                elsewhere: None,
            },
            error => FetchError::Http(error),
        })?;
        let status = response.status;
        if status == StatusCode::OK {
            let headers = std::mem::take(&mut response.headers);
            let bytes = response.bytes(max_bytes).map_err(FetchError::Http)?;
            return Ok(Ok(ObjectAnswer { headers, bytes }));
        }
        let (wait, is_throttling) = (response.retry_after(), response.is_throttling());
        let mut body = vec![];
        // what has come explains as much as it can
        let _ = response.body.take(MAX_REFUSAL).read_to_end(&mut body);
        let own = |name| text(&response.headers, name).map(String::from);
        let found = xml::refusal(&body);
        let refusal = Refusal {
            status,
            location: own("location").or(found.location),
            region: own("x-amz-bucket-region").or(found.region),
            date: own("date"),
            ..found
        };
        let is_throttling = is_throttling || THROTTLING.contains(&&*refusal.code);
        // 503 may concern this object only, 429 concerns the client
        if let Some(wait) =
            wait.filter(|wait| status == StatusCode::TOO_MANY_REQUESTS && *wait > MAX_WAIT)
        {
            self.http.back_off(&request.url, wait);
        }
        if is_throttling || (status.is_server_error() && status.as_u16() != 501) {
            return Err(FetchError::Unavailable {
                status,
                wait,
                throttled: is_throttling,
                elsewhere: None,
            });
        }
        let explanation = (self.explain)(&refusal, &self.access);
        Ok(Err(ObjectError::Refused(refusal, explanation)))
    }
}

impl ObjectError {
    /// Returns the error of a source whose bucket could not be listed.
    pub fn of_list(self, bucket: &Bucket) -> EngineError {
        let (name, server) = (&bucket.name, &bucket.url);
        let failed = |kind, message: &str| {
            EngineError::new(kind, format!("could not list {name}: {message}"))
        };
        match self {
            Self::Fetch(FetchError::Http(HttpError::TooLarge(bytes))) => {
                let why = format!("it has more than {} MB", bytes >> 20);
                Self::Invalid(why).of_list(bucket)
            }
            Self::Fetch(error) => {
                let found = error.error(server);
                match found.kind {
                    ErrorKind::Throttled => found,
                    kind => EngineError {
                        kind,
                        message: format!("could not list {name}: {}", error.message()),
                        ..found
                    },
                }
            }
            Self::Access(error) => error,
            Self::Refused(refusal, explanation) => {
                let error = failed(explanation.kind, &explanation.message);
                let said = match refusal.message.as_str() {
                    "" => String::new(),
                    message => format!(": {message}"),
                };
                let detail = format!("{}{said}", refusal.shown());
                let error = error.detail(sentence(&detail));
                explanation.hint.into_iter().fold(error, EngineError::hint)
            }
            Self::Invalid(why) => {
                let detail = sentence(&why);
                failed(
                    ErrorKind::InvalidAnswer,
                    "the answer is not a list of objects",
                )
                .detail(detail)
                .hint("Check that \"endpoint\" is the address of the storage's interface.")
            }
        }
    }

    /// Returns the failure of an object that could not be fetched.
    pub fn of_object(self, uri: &str) -> Failure {
        match self {
            Self::Fetch(error) => error.failure(uri),
            Self::Access(error) => item_failure(uri, error),
            Self::Refused(refusal, explanation) => {
                let message = format!("{} ({})", explanation.message, refusal.shown());
                fetch_failure(uri, message, explanation.hint.as_deref())
            }
            Self::Invalid(why) => fetch_failure(uri, why, None),
        }
    }
}

/// Returns a text as a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    format!("{}{}.", first.collect::<String>(), chars.as_str())
}
