//! One request, and which failures are tried again.

use std::{
    thread,
    time::{Duration, Instant},
};

use rag_protocol::{EngineError, call::Call};
use rag_source::http::{HttpClient, HttpError, HttpRequest, HttpResponse, Redirects};
use url::Url;

use crate::failure;

/// The maximum number of requests for one answer.
const MAX_ATTEMPTS: u32 = 4;
/// The wait before the second request, which doubles with each.
const FIRST_DELAY: Duration = Duration::from_millis(500);

pub struct Attempts<'a> {
    pub call: &'a Call,
    pub client: &'a HttpClient,
    pub url: &'a Url,
    /// The end of the time of the call.
    pub until: Instant,
    /// Set when a server may be at work on an answer.
    pub was_sent: &'a mut bool,
}

impl Attempts<'_> {
    /// Sends a request until the server accepts it.
    ///
    /// # Errors
    /// The server refuses it, cannot be reached, or does not answer in time.
    pub fn send(&mut self, body: &[u8]) -> Result<HttpResponse, EngineError> {
        let mut delay = FIRST_DELAY;
        for attempt in 1.. {
            let (error, asked) = match self.send_once(body) {
                Ok(response) if response.status.is_success() => return Ok(response),
                Ok(response) => {
                    let asked = response.retry_after();
                    let may_repeat = failure::is_temporary(response.status.as_u16());
                    let error = failure::of_status(self.call, response);
                    if !may_repeat {
                        return Err(error);
                    }
                    (error, asked)
                }
                Err(error) => {
                    // after any other error the server may be at work on the answer
                    let may_repeat = error.is_transient()
                        && matches!(
                            error,
                            HttpError::Connect { .. } | HttpError::UnknownHost { .. }
                        );
                    let error = failure::of_http(self.call, &error);
                    if !may_repeat {
                        return Err(error);
                    }
                    (error, None)
                }
            };
            let wait = asked.map_or(delay, |asked| asked.max(delay));
            if attempt == MAX_ATTEMPTS || wait >= self.left() {
                return Err(error);
            }
            thread::sleep(wait);
            delay *= 2;
        }
        unreachable!("the loop returns")
    }

    fn send_once(&mut self, body: &[u8]) -> Result<HttpResponse, HttpError> {
        let left = self.left();
        let request = HttpRequest {
            body: Some(body),
            redirects: Redirects::SameOrigin,
            total: Some(left),
            silence: Some(left),
            ..HttpRequest::get(self.url.clone())
        }
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
        let answered = self.client.send(&request);
        *self.was_sent |= match &answered {
            Ok(response) => response.status.is_success(),
            Err(error) => !matches!(
                error,
                HttpError::Refused(_)
                    | HttpError::Url(_)
                    | HttpError::Connect { .. }
                    | HttpError::UnknownHost { .. }
                    | HttpError::Tls { .. }
            ),
        };
        answered
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}
