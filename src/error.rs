//! Errors of the extension: one type, and the mapping from all other errors to it.
//!
//! # What an error means
//!
//! An SQLSTATE tells a client what went wrong. The extension asks other questions. Would the next
//! document of a run meet the same error? Can a search go on without vectors? Was a lock busy? It
//! asks the [`Cause`] of an error, and never its SQLSTATE, which no other module can read.
//!
//! ```text
//! constructor of Error ─────────────────────────┐
//! error of rag-engine, by its kind ─────────────┼──▶ Cause ──▶ what follows
//! SQLSTATE of an ERROR that PostgreSQL raised ──┘
//! ```
//!
//! **Where a cause comes from.** An SQLSTATE has one: an exact SQLSTATE or its class stands in a
//! table in `cause.rs`. For an ERROR of PostgreSQL, or of a user's trigger, nothing else is known.
//! An error of the extension begins with the same cause. Where the SQLSTATE says too little, the
//! code that creates the error names the cause: [`Error::because`]. A quota and a missing
//! background worker have the same SQLSTATE, for example, and only one of them may vanish by
//! itself.
//!
//! **What follows from it** is a second table in `cause.rs`, with a row for each cause:
//!
//! * Is a run that fails with it tried again?
//! * Does it end a run, or does only one document fail?
//! * What is the reason in the condition of the source?
//! * Does the log show the message although the statement has a secret?
//!
//! Some places ask for a single cause: `error.is(Cause::Locked)`. [`Cause`] also has names for
//! groups: [`Cause::is_in_input`], [`Cause::is_in_named`], [`Cause::is_unavailable`].
//!
//! **A decision is not an error.** Code that has to undo its work and tell its caller why returns a
//! value: `pg::transaction::subtransaction_kept_if` rolls back with it. An error that is made up to
//! be caught could not be told from one that PostgreSQL raises with the same SQLSTATE.
//!
//! **To add a cause,** add a variant, and its row in the table: the compiler asks for it. Then name
//! it where the error is created, or in the table of SQLSTATEs.

mod cause;
pub mod definition;

use std::time::Duration;

use pgrx::{
    PgLogLevel, PgSqlErrorCode as Code,
    pg_sys::panic::{CaughtError, ErrorReport},
};
use rag_definition::FieldProblem;
use rag_pages::memory;
use rag_protocol::{EngineError, ErrorKind, frame::FrameError};

use self::cause::code_of;
pub use self::cause::{Cause, is_shown_in_log, sqlstate};

/// An error as PostgreSQL reports it: a message in lower case without a full stop, an SQLSTATE, and
/// optionally a DETAIL and a HINT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    code: Code,
    cause: Cause,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

/// The name of the function that reports an error of a definition: the log hides the statement.
pub const DEFINITION: &str = "rag_definition";

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            cause: Cause::of_state(code),
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    /// Returns the error with another cause than that of its SQLSTATE.
    #[must_use]
    pub const fn because(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }

    /// Returns an error with the SQLSTATE and the cause of this one, and another message.
    pub fn like(&self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            detail: None,
            hint: None,
            ..*self
        }
    }

    /// Returns an error that was stored. `throttled` is how long the server asked to wait.
    pub fn stored(state: &str, message: impl Into<String>, throttled: Option<Duration>) -> Self {
        let error = Self::new(code_of(state), message);
        match throttled {
            Some(wait) => error.because(Cause::Throttled(wait)),
            None => error,
        }
    }

    pub const fn cause(&self) -> Cause {
        self.cause
    }

    pub fn is(&self, cause: Cause) -> bool {
        self.cause == cause
    }

    /// Returns the time after which a server, or a model's limit, allows another attempt. Zero if
    /// the server did not name a time, `None` for other errors.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.cause {
            Cause::Throttled(wait) | Cause::Budget(wait) => Some(wait),
            _ => None,
        }
    }

    /// Returns the SQLSTATE as its five characters.
    pub fn sqlstate(&self) -> String {
        sqlstate(self.code)
    }

    /// Returns the error with the SQLSTATE of others, if they have the same one.
    #[must_use]
    pub fn with_state_of(mut self, others: &[&Self]) -> Self {
        if let Some((first, rest)) = others.split_first()
            && rest.iter().all(|other| other.code == first.code)
        {
            self.code = first.code;
        }
        self
    }

    /// Returns the error with another message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub fn maybe_hint(self, hint: Option<String>) -> Self {
        hint.into_iter().fold(self, Self::hint)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error for an engine that could not read a source.
    pub fn from_source(error: EngineError) -> Self {
        let is_missing = matches!(
            error.kind,
            ErrorKind::FileNotFound
                | ErrorKind::PermissionDenied
                | ErrorKind::WrongFileType
                | ErrorKind::SourceUnavailable
        );
        let error = Self::from(error);
        if is_missing {
            error.because(Cause::Object)
        } else {
            error
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

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::ERRCODE_INTERNAL_ERROR, message)
    }

    /// Returns the error for a problem whose message is that of an error.
    pub fn of_problem(problem: FieldProblem) -> Self {
        Self::invalid_parameter(problem.message).maybe_hint(problem.hint)
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
        let error = Self::invalid_parameter(message)
            .because(Cause::Definition)
            .detail(lines.join("\n"));
        if hints.is_empty() {
            error
        } else {
            error.hint(hints.join("\n"))
        }
    }

    /// Raises the error as a PostgreSQL ERROR, which aborts the transaction.
    pub fn raise(self) -> ! {
        self.report(PgLogLevel::ERROR);
        unreachable!("an ERROR does not return")
    }

    /// Reports it as a NOTICE, a WARNING or the like.
    pub fn report(self, level: PgLogLevel) {
        ErrorReport::from(self).report(level);
    }
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> Self {
        let function = match error.cause {
            Cause::Definition => DEFINITION,
            _ => "rag",
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
        let cause = match error.kind {
            ErrorKind::Throttled => Cause::Throttled(wait),
            ErrorKind::Refused | ErrorKind::InvalidRequest | ErrorKind::LimitExceeded => {
                Cause::Document
            }
            ErrorKind::Unsupported => Cause::Setup,
            _ => Cause::of_state(code),
        };
        Self {
            code,
            cause,
            message: error.message,
            detail: error.detail,
            hint: error.hint,
        }
    }
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLarge(_) => Self::limit(error.to_string()).because(Cause::Document),
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

impl From<CaughtError> for Error {
    fn from(error: CaughtError) -> Self {
        let (CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic {
            ereport: report, ..
        }) = error;
        let code = report.sql_error_code();
        Self {
            code,
            cause: Cause::of_state(code),
            message: report.message().to_string(),
            detail: report.detail().map(String::from),
            hint: report.hint().map(String::from),
        }
    }
}
