//! Errors that cross the process boundary.

use serde::{Deserialize, Serialize};

/// `rag.so` maps each kind of error to one SQLSTATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// A file or folder does not exist (58P01 undefined_file).
    FileNotFound,
    /// The operating system refused access (42501 insufficient_privilege).
    PermissionDenied,
    /// The sandbox of the engine or the operating system denies access to a model's folder (42501).
    OutOfReach,
    /// A path names a file of the wrong type, such as a file instead of a folder (42809
    /// wrong_object_type).
    WrongFileType,
    /// A model's folder is incomplete, corrupted or inconsistent (F0000 config_file_error).
    InvalidModel,
    /// A repository, branch, commit or server is unavailable (08006 connection_failure).
    SourceUnavailable,
    /// A source's server limits the rate of requests (08004
    /// sqlserver_rejected_establishment_of_sqlconnection).
    Throttled,
    /// A server refuses the key that was sent, or asks for one (28000
    /// invalid_authorization_specification).
    Unauthorized,
    /// A server sent something that is not an answer (08P01 protocol_violation).
    InvalidAnswer,
    /// A server refuses what it was sent, and may accept something else (22023
    /// invalid_parameter_value).
    Refused,
    /// The request is invalid (22023 invalid_parameter_value).
    InvalidRequest,
    /// A limit on size, time or memory was reached (54000 program_limit_exceeded).
    LimitExceeded,
    /// Reading or writing failed (58030 io_error).
    Io,
    /// Not supported (0A000 feature_not_supported).
    Unsupported,
    /// A bug in this project or a library (XX000 internal_error).
    Internal,
}

/// One error with the parts of a Postgres report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    pub kind: ErrorKind,
    /// One sentence in lower case without a full stop.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// For `Throttled`: how long the server asks to wait, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

impl EngineError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            detail: None,
            hint: None,
            retry_after_seconds: None,
        }
    }

    /// The server `who` (`the server of ...`) limits the rate of requests.
    pub fn throttled(who: &str, retry_after_seconds: Option<u64>) -> Self {
        let wait = match retry_after_seconds {
            Some(seconds) if seconds > 0 => format!(" and asks to wait {seconds} s"),
            _ => String::new(),
        };
        let error = Self::new(
            ErrorKind::Throttled,
            format!("{who} limits the rate of requests{wait}"),
        );
        Self {
            retry_after_seconds,
            ..error
        }
        .hint("Sync again later. To avoid this, sync less often or select fewer documents.")
    }

    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
