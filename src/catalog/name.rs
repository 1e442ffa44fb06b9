//! Names of collections and sources.

use std::fmt;

use rag_protocol::name::{self, HINT, MAX_LENGTH, PATTERN};

use crate::error::Error;

/// Lower-case letters, digits and inner hyphens, 1 to 56 of them: see [`rag_protocol::name`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

impl Name {
    /// # Errors
    /// `text` is no name; `what` says of what.
    pub fn parse(what: &str, text: &str) -> Result<Self, Error> {
        if name::check(text).is_ok() {
            return Ok(Self(text.to_string()));
        }
        let shown: String = text.chars().take(80).collect();
        Err(Error::new(pgrx::PgSqlErrorCode::ERRCODE_INVALID_NAME, format!("invalid name of a {what}: \"{shown}\""))
            .detail(format!("A name matches {PATTERN} and has at most {MAX_LENGTH} characters."))
            .hint(HINT))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
