//! One resource of the web, fetched patiently: several tries, conditional requests, bounded bodies.

use std::{
    thread,
    time::{Duration, SystemTime},
};

use rag_protocol::{EngineError, ErrorKind, ingest::Failure};
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    fetch_failure,
    http::{Client, HttpError, LONGEST_WAIT, Request, Response},
};

/// Tries of one request.
const TRIES: u32 = 3;
/// Before the second try; the third waits four times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest time for one try.
const TOTAL: Duration = Duration::from_secs(600);
/// `Last-Modified` has a resolution of one second: a file that changed so shortly before the
/// response may change again without it.
const RESOLUTION: Duration = Duration::from_secs(2);

/// What tells a version of a resource from another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Validator {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Validator {
    /// As it is stored with a document.
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

    pub fn of(response: &Response) -> Self {
        let time = |name| {
            response
                .header(name)
                .and_then(|value| httpdate::parse_http_date(value).ok())
        };
        let now = time("date").unwrap_or_else(SystemTime::now);
        let settled = time("last-modified").is_some_and(|modified| {
            now.duration_since(modified)
                .is_ok_and(|age| age >= RESOLUTION)
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

/// A response, with its body if that was wanted.
#[derive(Debug)]
pub struct Resource {
    pub status: StatusCode,
    /// Where it came from, after redirects.
    pub url: Url,
    pub validator: Validator,
    pub media_type: Option<String>,
    pub robots: Vec<String>,
    pub last_modified: Option<String>,
    /// Empty if it was not wanted, and for any status but 200.
    pub bytes: Vec<u8>,
    pub wanted: bool,
}

impl Resource {
    /// Type and subtype, in lower case.
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

/// Why a resource could not be had.
#[derive(Debug)]
pub enum Problem {
    Http(HttpError),
    /// The server is overloaded or broken.
    Unavailable {
        status: StatusCode,
        /// How long it asks to wait.
        wait: Option<Duration>,
        /// It asks to be left alone for a while, rather than being out of order.
        throttled: bool,
        /// Which server, where a redirect to another has led there.
        elsewhere: Option<String>,
    },
}

impl Problem {
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
            } => failure.throttled(wait.map(seconds)),
            _ => failure,
        }
    }

    /// That without the resource of this URL nothing of the source can be had.
    pub fn error(&self, url: &Url) -> EngineError {
        if let Self::Unavailable {
            status,
            wait,
            throttled: true,
            elsewhere,
        } = self
        {
            let who = match elsewhere {
                Some(other) => format!("{other}, where {url} redirects to,"),
                None => format!("the server of {url}"),
            };
            return EngineError::throttled(&who, wait.map(seconds))
                .detail(format!("It answered {}.", named(*status)));
        }
        let error = EngineError::new(
            ErrorKind::SourceUnavailable,
            format!("{url} cannot be had: {}", self.message()),
        );
        match self.hint() {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// Whole seconds, and never too few.
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

/// What to get, and how much of it.
pub struct Wish<'a> {
    pub url: &'a Url,
    /// The version that is there: where it is the present one, the status is 304.
    pub known: Option<&'a Validator>,
    /// Most bytes of the body.
    pub most: u64,
    /// Whether the body is wanted, by the head.
    pub wants: &'a dyn Fn(&Response) -> bool,
}

/// Gets a resource; waits and tries again where that may help.
///
/// A server that asks for more than [`LONGEST_WAIT`] is not asked again; with a 429, not for
/// anything else either, until that time is over.
///
/// # Errors
/// There is no whole answer, or after all tries still one that speaks of a passing trouble (429,
/// 5xx).
pub fn get(client: &Client, wish: &Wish<'_>) -> Result<Resource, Problem> {
    let mut pause = FIRST_PAUSE;
    let mut tries = 1;
    loop {
        let (problem, asked) = match once(client, wish) {
            Ok(resource) => return Ok(resource),
            Err(Problem::Http(error)) if !error.is_transient() => return Err(Problem::Http(error)),
            Err(Problem::Http(error)) => (Problem::Http(error), None),
            Err(problem @ Problem::Unavailable { wait, .. }) => (problem, wait),
        };
        let wait = asked.map_or(pause, |asked| asked.max(pause));
        if tries == TRIES || wait > LONGEST_WAIT {
            return Err(problem);
        }
        thread::sleep(wait);
        pause *= 4;
        tries += 1;
    }
}

fn once(client: &Client, wish: &Wish<'_>) -> Result<Resource, Problem> {
    let mut request = Request::get(wish.url.clone());
    request.total = Some(TOTAL);
    if let Some(known) = wish.known {
        if let Some(etag) = &known.etag {
            request = request.header("if-none-match", etag);
        }
        if let Some(time) = &known.last_modified {
            request = request.header("if-modified-since", time);
        }
    }
    let elsewhere =
        |url: &Url| (url.origin() != wish.url.origin()).then(|| url.origin().ascii_serialization());
    let response = client.send(&request).map_err(|error| match error {
        HttpError::LeftAlone { url, wait } => Problem::Unavailable {
            status: StatusCode::TOO_MANY_REQUESTS,
            wait: Some(wait),
            throttled: true,
            elsewhere: elsewhere(&url),
        },
        error => Problem::Http(error),
    })?;
    let status = response.status;
    if status == StatusCode::TOO_MANY_REQUESTS
        || (status.is_server_error() && status.as_u16() != 501)
    {
        let (wait, throttled) = (response.retry_after(), response.is_throttling());
        // 503 may be about this one resource, 429 is about who asks
        if let Some(wait) =
            wait.filter(|wait| status == StatusCode::TOO_MANY_REQUESTS && *wait > LONGEST_WAIT)
        {
            client.leave_alone(&response.url, wait);
        }
        return Err(Problem::Unavailable {
            status,
            wait,
            throttled,
            elsewhere: elsewhere(&response.url),
        });
    }
    let wanted = status == StatusCode::OK && (wish.wants)(&response);
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
        wanted,
    };
    if wanted {
        resource.bytes = response.bytes(wish.most).map_err(Problem::Http)?;
    }
    Ok(resource)
}
