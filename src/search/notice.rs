//! What the caller of a search should know besides its results: a NOTICE in SQL, a member of
//! `warnings` in the answers of requests in JSON, whose clients see no NOTICE.

use pgrx::{PgLogLevel, PgSqlErrorCode};

use crate::error::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice(Error);

impl Notice {
    pub fn new(message: impl Into<String>) -> Self {
        Self(Error::new(
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            message,
        ))
    }

    /// Returns the notice of an error, with its SQLSTATE and another message.
    pub fn of_error(error: &Error, message: &str) -> Self {
        Self(error.like(message))
    }

    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self(self.0.detail(detail))
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self(self.0.hint(hint))
    }

    /// Raises it as a NOTICE.
    pub fn raise(self) {
        self.0.report(PgLogLevel::NOTICE);
    }

    /// Returns it as one line.
    pub fn into_line(self) -> String {
        let Error {
            message,
            detail,
            hint,
            ..
        } = self.0;
        let more = [detail, hint].into_iter().flatten();
        more.fold(message, |line, part| {
            if line.ends_with('.') {
                format!("{line} {part}")
            } else {
                format!("{line}. {part}")
            }
        })
    }
}
