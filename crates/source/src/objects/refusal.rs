//! Answers of servers that do not do what they were asked for, and what they mean.

use std::time::{Duration, SystemTime};

use rag_protocol::ErrorKind;
use reqwest::StatusCode;

use super::access::Access;
use crate::fetcher::answered;

/// The services accept requests with other times than this.
const MAX_SKEW: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    /// What the service calls the reason, if it is one of its answers.
    pub code: String,
    pub message: String,
    /// The region that the bucket is in, if the answer has it.
    pub region: Option<String>,
    /// Where the answer redirects to.
    pub location: Option<String>,
    /// The time of the server.
    pub date: Option<String>,
}

/// What a refusal means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub kind: ErrorKind,
    /// Without the bucket and the key, which the caller names.
    pub message: String,
    pub hint: Option<String>,
}

/// Explains the refusals of a service.
pub type Explain = Box<dyn Fn(&Refusal, &Access) -> Explanation + Send + Sync>;

impl Explanation {
    pub fn new(kind: ErrorKind, message: impl Into<String>, hint: &str) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// The source, or its definition, is not as it should be.
    pub fn unavailable(message: impl Into<String>, hint: &str) -> Self {
        Self::new(ErrorKind::SourceUnavailable, message, hint)
    }

    /// Something is wrong with the credentials.
    pub fn denied(message: impl Into<String>, hint: &str) -> Self {
        Self::new(ErrorKind::Unauthorized, message, hint)
    }

    pub fn without_hint(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::SourceUnavailable,
            message: message.into(),
            hint: None,
        }
    }
}

impl Refusal {
    /// Returns what the server answered: `the server answered 403 Forbidden, AccessDenied`.
    pub fn shown(&self) -> String {
        let status = answered(self.status);
        if self.code.is_empty() {
            status
        } else {
            format!("{status}, {}", self.code)
        }
    }

    fn is_denial(&self) -> bool {
        matches!(
            self.status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
        )
    }

    /// Explains what refusals of all services have in common. `rights` says what the credentials
    /// need, and `service` what the server should be.
    pub fn explained(&self, access: &Access, rights: &str, service: &str) -> Explanation {
        if self.is_denial() && !access.is_public() && self.skew().is_some_and(|it| it > MAX_SKEW) {
            return self.skewed();
        }
        if self.is_denial() && access.is_public() {
            return Explanation::denied(
                "it is not public",
                "Create a secret and name it in the source's credentials.",
            );
        }
        if self.is_denial() {
            return Explanation::denied("access is denied", rights);
        }
        if self.status.is_redirection() {
            let to = self.location.as_deref().unwrap_or("another address");
            return Explanation::unavailable(
                format!("the server redirects to {to}"),
                "Requests are for one host. Check \"region\" and \"endpoint\".",
            );
        }
        if self.code.is_empty() {
            return Explanation::unavailable(
                format!("the server does not answer as {service} does"),
                "Check that \"endpoint\" is the address of the storage's interface, not that of a \
                 console.",
            );
        }
        Explanation::without_hint(format!("the server refuses the request as {}", self.code))
    }

    /// The clocks differ by more than the service accepts.
    pub fn skewed(&self) -> Explanation {
        let differ = "the clocks of this server and of the storage differ";
        let message = match self.skew() {
            Some(skew) => format!("{differ} by {} s", skew.as_secs()),
            None => differ.into(),
        };
        Explanation::unavailable(message, "Synchronize the clock of the database server.")
    }

    /// Returns the difference between the clocks.
    fn skew(&self) -> Option<Duration> {
        let there = httpdate::parse_http_date(self.date.as_deref()?).ok()?;
        let here = SystemTime::now();
        Some(
            here.duration_since(there)
                .unwrap_or_else(|ahead| ahead.duration()),
        )
    }
}
