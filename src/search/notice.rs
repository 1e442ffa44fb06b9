//! What the caller of a search should know besides its results: a NOTICE in SQL, a member of
//! `warnings` in the answers of requests in JSON, whose clients see no NOTICE.

use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys::panic::ErrorReport};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    code: PgSqlErrorCode,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
}

impl Notice {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    #[must_use]
    pub fn code(self, code: PgSqlErrorCode) -> Self {
        Self { code, ..self }
    }

    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Raises it as a NOTICE.
    pub fn raise(self) {
        let mut report = ErrorReport::new(self.code, self.message, "rag");
        if let Some(detail) = self.detail {
            report = report.set_detail(detail);
        }
        if let Some(hint) = self.hint {
            report = report.set_hint(hint);
        }
        report.report(PgLogLevel::NOTICE);
    }

    /// Returns it as one line.
    pub fn into_line(self) -> String {
        let Self {
            message,
            detail,
            hint,
            ..
        } = self;
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
