//! Errors of the extension: one type, and the one mapping from what went wrong to SQLSTATE, DETAIL
//! and HINT.

use std::time::Duration;

use pgrx::{PgSqlErrorCode as Code, pg_sys::panic::ErrorReport, prelude::PgLogLevel};
use rag_ann::memory;
use rag_protocol::{EngineError, ErrorKind, frame::FrameError, spec::Problem};

/// What a user is told: a message (lower case, no final stop) with SQLSTATE, and where it helps
/// DETAIL and HINT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// The other side asked to be left alone, for so long; zero where it did not say how long.
    pub retry_after: Option<Duration>,
    /// What a source names cannot be found or read: its folder, file, repository or server.
    pub source_gone: bool,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            retry_after: None,
            source_gone: false,
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

    /// An error of reading a source, as the engine tells it.
    pub fn of_source(error: EngineError) -> Self {
        let source_gone = matches!(
            error.kind,
            ErrorKind::FileNotFound
                | ErrorKind::PermissionDenied
                | ErrorKind::WrongFileType
                | ErrorKind::SourceUnavailable
        );
        Self {
            source_gone,
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

    /// Memory was refused while what `doing` says was done.
    pub fn out_of_memory(doing: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_OUT_OF_MEMORY, "out of memory").detail(doing)
    }

    /// # Errors
    /// There is less memory than `bytes`, which is about what follows takes. Half-way a refusal
    /// would end the session.
    pub fn unless_there_is_memory(bytes: usize, doing: &str) -> Result<(), Self> {
        memory::probe(bytes).map_err(|_| Self::out_of_memory(doing))
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

    /// The engine cannot be reached, or went away in the middle.
    pub fn engine_unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_CONNECTION_FAILURE, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_INTERNAL_ERROR, message)
    }

    /// A user's spec with all that is wrong with it in the DETAIL, a line each.
    pub fn invalid_spec(what: &str, problems: &[Problem]) -> Self {
        Self::invalid(format!("invalid definition of {what}"), problems)
    }

    /// The same with another message.
    pub fn invalid(message: impl Into<String>, problems: &[Problem]) -> Self {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let mut hints: Vec<&str> = vec![];
        for hint in problems.iter().filter_map(|p| p.hint.as_deref()) {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        let error = Self::invalid_parameter(message).detail(lines.join("\n"));
        if hints.is_empty() {
            error
        } else {
            error.hint(hints.join("\n"))
        }
    }

    /// Raises it as a Postgres ERROR; the transaction aborts.
    pub fn raise(self) -> ! {
        ErrorReport::from(self).report(PgLogLevel::ERROR);
        unreachable!("an ERROR does not return")
    }
}

/// Keeps backtraces of Rust out of the DETAIL of errors, whatever `RUST_BACKTRACE` says. pgrx
/// captures one in its panic hook and appends it. The standard library reads the environment for
/// the first backtrace only and remembers what it said, for this library alone: so the first one is
/// captured here, under a variable that goes before `RUST_BACKTRACE`.
#[allow(unsafe_code)]
pub fn without_backtraces() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(VARIABLE);
    // SAFETY: called while the library is being loaded, by a process with one thread.
    unsafe {
        std::env::set_var(VARIABLE, "0");
        drop(std::backtrace::Backtrace::capture());
        match before {
            Some(value) => std::env::set_var(VARIABLE, value),
            None => std::env::remove_var(VARIABLE),
        }
    }
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> Self {
        let mut report = Self::new(error.code, error.message, "rag");
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
            // of the class of connection_failure, and yet to be told from it: the server can be
            // reached, and refuses
            ErrorKind::Throttled => Code::ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION,
            ErrorKind::InvalidRequest => Code::ERRCODE_INVALID_PARAMETER_VALUE,
            ErrorKind::LimitExceeded => Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            ErrorKind::Io => Code::ERRCODE_IO_ERROR,
            ErrorKind::Unsupported => Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            ErrorKind::Internal => Code::ERRCODE_INTERNAL_ERROR,
        };
        let asked = Duration::from_secs(error.retry_after_seconds.unwrap_or(0));
        let retry_after = (error.kind == ErrorKind::Throttled).then_some(asked);
        let (message, detail, hint) = (error.message, error.detail, error.hint);
        Self {
            code,
            message,
            detail,
            hint,
            retry_after,
            source_gone: false,
        }
    }
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLarge(_) => Self::limit(error.to_string()),
            _ => Self::new(Code::ERRCODE_PROTOCOL_VIOLATION, "rag-engine answered something that is not understood")
                .detail(error.to_string())
                .hint("rag.so and rag-engine must be of the same version; install both again and restart the server."),
        }
    }
}

impl From<pgrx::spi::Error> for Error {
    fn from(error: pgrx::spi::Error) -> Self {
        Self::internal(format!("a statement on the catalog failed: {error}"))
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
            source_gone: false,
        }
    }
}
