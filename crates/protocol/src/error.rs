//! An error as it crosses the process boundary: what went wrong, and what a user can do about it.

use serde::{Deserialize, Serialize};

/// What kind of thing went wrong; `rag.so` maps each kind to one SQLSTATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// A file or folder that was named is not there (58P01 undefined_file).
    FileNotFound,
    /// The operating system refused access (42501 insufficient_privilege).
    PermissionDenied,
    /// The sandbox of the engine's process refuses a model's folder, or the operating system does
    /// (42501).
    OutOfReach,
    /// A path names the wrong kind of thing, such as a file where a folder is meant (42809
    /// wrong_object_type).
    WrongFileType,
    /// A model's folder is incomplete, damaged or contradicts itself (F0000 config_file_error).
    InvalidModel,
    /// A repository, branch or commit cannot be had (08001 / connection_failure).
    SourceUnavailable,
    /// A source's server asks to be left alone for a while (08004
    /// sqlserver_rejected_establishment_of_sqlconnection).
    Throttled,
    /// The request itself makes no sense (22023 invalid_parameter_value).
    InvalidRequest,
    /// A limit on size, time or memory was reached (54000 program_limit_exceeded).
    LimitExceeded,
    /// Reading or writing failed (58030 io_error).
    Io,
    /// Not supported, now or here (0A000 feature_not_supported).
    Unsupported,
    /// A defect of ours or of a library (XX000 internal_error).
    Internal,
}

/// One error with the parts of a Postgres report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    pub kind: ErrorKind,
    /// One sentence, lower case, no final stop.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Of `Throttled`: for how long, where the server says so.
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

    /// `who` (`the server`) asks to be left alone, for so long where it says how long.
    pub fn throttled(who: &str, retry_after_seconds: Option<u64>) -> Self {
        let long = match retry_after_seconds {
            Some(seconds) if seconds > 0 => format!("{seconds} s"),
            _ => "a while".into(),
        };
        let error = Self::new(
            ErrorKind::Throttled,
            format!("{who} asks to be left alone for {long}"),
        );
        Self { retry_after_seconds, ..error }.hint(
            "Sync again after that time. A larger interval between syncs, or fewer documents a sync, may avoid it.",
        )
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
