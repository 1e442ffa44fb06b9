//! Errors of the extension: one type, and the mapping from all other errors to it.

use std::time::Duration;

use pgrx::{PgSqlErrorCode as Code, pg_sys::panic::ErrorReport, prelude::PgLogLevel};
use rag_pages::memory;
use rag_protocol::{EngineError, ErrorKind, frame::FrameError, spec::FieldProblem};

/// An error as PostgreSQL reports it: a message in lower case without a full stop, an SQLSTATE, and
/// optionally a DETAIL and a HINT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// The time after which a server that limits requests may be asked again. Zero if the server
    /// did not name a time.
    pub retry_after: Option<Duration>,
    /// The folder, file, repository or server of a source could not be found or read.
    pub source_unavailable: bool,
    /// A source or a collection may not store more.
    pub is_quota: bool,
    /// The embeddings of a collection are from another model than the current one.
    pub is_other_model: bool,
    /// A definition is invalid. Its statement may have a credential in the wrong place, so the log
    /// must not show it.
    pub is_definition: bool,
}

/// The name of the function that reports an error of a definition: the log hides the statement.
pub const DEFINITION: &str = "rag_definition";

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            retry_after: None,
            source_unavailable: false,
            is_quota: false,
            is_other_model: false,
            is_definition: false,
        }
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

    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Returns the error for an engine that could not read a source.
    pub fn from_source(error: EngineError) -> Self {
        let source_unavailable = matches!(
            error.kind,
            ErrorKind::FileNotFound
                | ErrorKind::PermissionDenied
                | ErrorKind::WrongFileType
                | ErrorKind::SourceUnavailable
        );
        Self {
            source_unavailable,
            ..Self::from(error)
        }
    }

    pub fn data_exception(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_DATA_EXCEPTION, message)
    }

    pub fn invalid_parameter(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, message)
    }

    pub fn invalid_text(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_INVALID_TEXT_REPRESENTATION, message)
    }

    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, message)
    }

    pub fn null_not_allowed(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, message)
    }

    /// Returns the error for an allocation that failed. `detail` says what it was for.
    pub fn out_of_memory(detail: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_OUT_OF_MEMORY, "out of memory").detail(detail)
    }

    /// Checks that about `bytes` of memory can be allocated. An allocation that fails later would
    /// end the session.
    ///
    /// # Errors
    /// Less memory is available.
    pub fn check_memory(bytes: usize, detail: &str) -> Result<(), Self> {
        memory::probe(bytes).map_err(|_| Self::out_of_memory(detail))
    }

    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED, message)
    }

    pub fn undefined(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_UNDEFINED_OBJECT, message)
    }

    pub fn duplicate(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_DUPLICATE_OBJECT, message)
    }

    pub fn in_use(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_OBJECT_IN_USE, message)
    }

    pub fn permission_denied(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_INSUFFICIENT_PRIVILEGE, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_FEATURE_NOT_SUPPORTED, message)
    }

    /// Returns the error for an engine that could not be reached, or ended while it worked.
    pub fn engine_unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_CONNECTION_FAILURE, message)
    }

    /// Returns true if the engine, or the server of a model, cannot answer at all: it is not
    /// installed, does not start, has ended, or refuses for now.
    pub fn is_engine_unavailable(&self) -> bool {
        matches!(
            self.code,
            Code::ERRCODE_CONNECTION_FAILURE
                | Code::ERRCODE_UNDEFINED_FILE
                | Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED
                | Code::ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION
        )
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_INTERNAL_ERROR, message)
    }

    /// Returns the error for an invalid spec. Its DETAIL lists the problems, one on each line.
    pub fn invalid_spec(what: &str, problems: &[FieldProblem]) -> Self {
        Self::invalid(format!("invalid definition of {what}"), problems)
    }

    /// An error with such problems and another message.
    pub fn invalid(message: impl Into<String>, problems: &[FieldProblem]) -> Self {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let mut hints: Vec<&str> = vec![];
        for hint in problems.iter().filter_map(|p| p.hint.as_deref()) {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        let error = Self::invalid_parameter(message).detail(lines.join("\n"));
        let error = error.of_definition();
        if hints.is_empty() {
            error
        } else {
            error.hint(hints.join("\n"))
        }
    }

    /// Returns the error with the log not showing its statement.
    #[must_use]
    pub fn of_definition(mut self) -> Self {
        self.is_definition = true;
        self
    }

    /// Raises the error as a PostgreSQL ERROR, which aborts the transaction.
    pub fn raise(self) -> ! {
        ErrorReport::from(self).report(PgLogLevel::ERROR);
        unreachable!("an ERROR does not return")
    }
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> Self {
        let function = if error.is_definition {
            DEFINITION
        } else {
            "rag"
        };
        let mut report = Self::new(error.code, error.message, function);
        if let Some(detail) = error.detail {
            report = report.set_detail(detail);
        }
        if let Some(hint) = error.hint {
            report = report.set_hint(hint);
        }
        report
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        let code = match error.kind {
            ErrorKind::FileNotFound => Code::ERRCODE_UNDEFINED_FILE,
            ErrorKind::PermissionDenied | ErrorKind::OutOfReach => {
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE
            }
            ErrorKind::WrongFileType => Code::ERRCODE_WRONG_OBJECT_TYPE,
            ErrorKind::InvalidModel => Code::ERRCODE_CONFIG_FILE_ERROR,
            ErrorKind::SourceUnavailable => Code::ERRCODE_CONNECTION_FAILURE,
            // of the same class as connection_failure: the server was reached, and refused
            ErrorKind::Throttled => Code::ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION,
            ErrorKind::Unauthorized => Code::ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
            ErrorKind::InvalidAnswer => Code::ERRCODE_PROTOCOL_VIOLATION,
            ErrorKind::Refused | ErrorKind::InvalidRequest => Code::ERRCODE_INVALID_PARAMETER_VALUE,
            ErrorKind::LimitExceeded => Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            ErrorKind::Io => Code::ERRCODE_IO_ERROR,
            ErrorKind::Unsupported => Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            ErrorKind::Internal => Code::ERRCODE_INTERNAL_ERROR,
        };
        let wait = Duration::from_secs(error.retry_after_seconds.unwrap_or(0));
        let retry_after = (error.kind == ErrorKind::Throttled).then_some(wait);
        let (message, detail, hint) = (error.message, error.detail, error.hint);
        Self {
            code,
            message,
            detail,
            hint,
            retry_after,
            source_unavailable: false,
            is_quota: false,
            is_other_model: false,
            is_definition: false,
        }
    }
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLarge(_) => Self::limit(error.to_string()),
            _ => Self::new(
                Code::ERRCODE_PROTOCOL_VIOLATION,
                "invalid response from rag-engine",
            )
            .detail(error.to_string())
            .hint(
                "rag.so and rag-engine must have the same version. Install both again and restart \
                 the server.",
            ),
        }
    }
}

impl From<pgrx::spi::Error> for Error {
    fn from(error: pgrx::spi::Error) -> Self {
        Self::internal(format!(
            "a statement on the tables of the extension failed: {error}"
        ))
    }
}

impl From<pgrx::pg_sys::panic::CaughtError> for Error {
    fn from(error: pgrx::pg_sys::panic::CaughtError) -> Self {
        use pgrx::pg_sys::panic::CaughtError::{ErrorReport, PostgresError, RustPanic};
        let (PostgresError(report)
        | ErrorReport(report)
        | RustPanic {
            ereport: report, ..
        }) = error;
        Self {
            code: report.sql_error_code(),
            message: report.message().to_string(),
            detail: report.detail().map(String::from),
            hint: report.hint().map(String::from),
            retry_after: None,
            source_unavailable: false,
            is_quota: false,
            is_other_model: false,
            is_definition: false,
        }
    }
}
