//! Names of collections and sources.

use std::fmt;

use crate::error::Error;

/// Lower-case letters, digits and inner hyphens, 1 to 56 of them: `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

/// With its prefix `rag_kb_` a partition's name just fits the 63 bytes of an identifier.
const MAX_LENGTH: usize = 56;

impl Name {
    /// # Errors
    /// `text` is no name; `what` says of what.
    pub fn parse(what: &str, text: &str) -> Result<Self, Error> {
        let letter = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let inner = |b: &u8| letter(b) || *b == b'-';
        let bytes = text.as_bytes();
        let matches = bytes.first().is_some_and(letter) && bytes.last().is_some_and(letter) && bytes.iter().all(inner);
        if matches && bytes.len() <= MAX_LENGTH {
            return Ok(Self(text.to_string()));
        }
        let shown: String = text.chars().take(80).collect();
        Err(Error::new(pgrx::PgSqlErrorCode::ERRCODE_INVALID_NAME, format!("invalid name of a {what}: \"{shown}\""))
            .detail(format!("A name matches ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$ and has at most {MAX_LENGTH} characters."))
            .hint("Use lower-case letters, digits and hyphens, with a letter or digit at both ends."))
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
