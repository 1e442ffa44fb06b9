//! What went wrong with a request, and how each contract says it.
//!
//! A message never quotes SQL, and never tells of something that the role of the request cannot
//! see.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio_postgres::error::DbError;

/// The shape of a contract's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contract {
    /// RFC 9457.
    Problem,
    /// `{"error": {"message", "type", "param", "code"}}`.
    OpenAi,
    /// `{"error_code", "error_msg"}`.
    Dify,
    /// `{"detail"}`, as FastAPI has it.
    Detail,
}

impl Contract {
    pub fn name(self) -> &'static str {
        match self {
            Self::Problem => "Problem",
            Self::OpenAi => "OpenAiError",
            Self::Dify => "DifyError",
            Self::Detail => "Detail",
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Problem => "application/problem+json",
            _ => "application/json",
        }
    }
}

/// An error of a request.
#[derive(Debug, Clone)]
pub struct Problem {
    pub status: StatusCode,
    /// A sentence for the caller, as PostgreSQL writes messages: lower case, without a full stop.
    pub detail: String,
    pub hint: Option<String>,
    /// The SQLSTATE, if the database refused the request.
    pub sqlstate: Option<String>,
    /// Seconds after which the request may be repeated.
    pub retry_after: Option<u64>,
    /// The header `WWW-Authenticate`.
    pub challenge: Option<String>,
    /// The number that Dify's contract has for the error, if not the status.
    pub dify: Option<u32>,
}

/// Seconds after which a request may be repeated that met a server or engine that is away.
const RETRY_AFTER: u64 = 5;

impl Problem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            hint: None,
            sqlstate: None,
            retry_after: None,
            challenge: None,
            dify: None,
        }
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self {
            retry_after: Some(RETRY_AFTER),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        }
    }

    pub fn timeout() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "the request took too long")
    }

    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed")
    }

    /// An error of a statement, in words for the caller.
    pub fn of_database(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(error) => Self::of_sqlstate(error),
            None => Self::unavailable("the database does not answer"),
        }
    }

    fn of_sqlstate(error: &DbError) -> Self {
        let code = error.code();
        let problem = match code.code() {
            "42501" => Self::new(StatusCode::FORBIDDEN, "the role of the key may not do this"),
            "57014" => Self::timeout(),
            "42883" | "3F000" => {
                Self::unavailable("the database does not have this version of the extension rag")
            }
            "25006" => Self::new(StatusCode::SERVICE_UNAVAILABLE, "the database is a standby"),
            "55P03" | "40001" | "40P01" => Self {
                retry_after: Some(1),
                ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "the database is busy")
            },
            "42704" => Self::new(StatusCode::NOT_FOUND, error.message()),
            "42710" | "2BP01" | "55006" | "23505" | "55000" => {
                Self::new(StatusCode::CONFLICT, error.message())
            }
            "0A000" | "54000" | "42602" | "42809" => Self::bad_request(error.message()),
            "08006" => Self::unavailable(error.message()),
            "53400" => Self::new(StatusCode::CONFLICT, error.message()),
            other => Self::of_class(other, error),
        };
        let shows_hint = problem.detail == error.message() && code.code().starts_with("22");
        Self {
            sqlstate: Some(code.code().to_string()),
            hint: error.hint().filter(|_| shows_hint).map(str::to_owned),
            ..problem
        }
    }

    fn of_class(code: &str, error: &DbError) -> Self {
        match code.get(..2) {
            Some("22") => {
                let mut text = error.message().to_string();
                if let Some(detail) = error.detail() {
                    text = format!("{text}: {}", detail.replace('\n', "; "));
                }
                Self::bad_request(text)
            }
            Some("08" | "53" | "57" | "58") => Self::unavailable("the database is unavailable"),
            Some("28") => Self::unauthorized(error.message()),
            _ => Self::internal(),
        }
    }

    /// The request has no key, or a wrong one.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self {
            dify: Some(1002),
            ..Self::new(StatusCode::UNAUTHORIZED, detail)
        }
    }

    fn body(&self, contract: Contract, request_id: &str) -> Value {
        let status = self.status.as_u16();
        match contract {
            Contract::Problem => {
                let mut body = json!({
                    "type": "about:blank",
                    "title": self.status.canonical_reason().unwrap_or("Error"),
                    "status": status,
                    "detail": self.detail,
                    "request_id": request_id,
                });
                if let Some(hint) = &self.hint {
                    body["hint"] = json!(hint);
                }
                if let Some(sqlstate) = &self.sqlstate {
                    body["sqlstate"] = json!(sqlstate);
                }
                body
            }
            Contract::OpenAi => json!({"error": {
                "message": self.detail,
                "type": match status {
                    400..=499 => "invalid_request_error",
                    _ => "server_error",
                },
                "param": self.parameter(),
                "code": match status {
                    401 => "invalid_api_key",
                    403 => "permission_denied",
                    404 => "not_found",
                    429 => "rate_limit_exceeded",
                    _ => "error",
                },
            }}),
            Contract::Dify => json!({
                "error_code": self.dify.unwrap_or(u32::from(status)),
                "error_msg": self.detail,
            }),
            Contract::Detail => json!({"detail": self.detail}),
        }
    }

    /// The field that the detail names, as in `top_k: must be an integer`.
    fn parameter(&self) -> Option<&str> {
        let (field, _) = self.detail.split_once(": ")?;
        (!field.contains(' ')).then_some(field)
    }

    /// Returns the response of a contract.
    pub fn response(&self, contract: Contract, request_id: &str) -> Response {
        let mut response =
            (self.status, self.body(contract, request_id).to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(contract.media_type()),
        );
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            // the rest of the body is not read, so no other request can follow it
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let challenge = self.challenge.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(challenge)) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
