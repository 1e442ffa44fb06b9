//! Limits of what is stored.

use crate::FieldProblem;

/// The most that a source or a collection may store. None: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    pub max_documents: Option<i64>,
    /// The size of all extracted texts, in bytes of UTF-8.
    pub max_bytes: Option<i64>,
}

impl Quota {
    pub fn is_unlimited(self) -> bool {
        self == Self::default()
    }

    /// Returns the quota with other limits. None keeps a limit, and 0 removes it.
    ///
    /// # Errors
    /// A limit is negative.
    pub fn changed(
        self,
        max_documents: Option<i64>,
        max_bytes: Option<i64>,
    ) -> Result<Self, FieldProblem> {
        Ok(Self {
            max_documents: limit("max_documents", max_documents.or(self.max_documents))?,
            max_bytes: limit("max_bytes", max_bytes.or(self.max_bytes))?,
        })
    }
}

/// Returns a limit as it is stored: 0 means no limit.
pub(crate) fn limit(name: &str, limit: Option<i64>) -> Result<Option<i64>, FieldProblem> {
    match limit {
        Some(n @ ..0) => {
            let wrong = format!("{name} must not be negative: {n}");
            Err(FieldProblem::new(name, wrong).hint("0 means no limit."))
        }
        limit => Ok(limit.filter(|n| *n != 0)),
    }
}
