//! Limits of what is stored.

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
}
