//! The text of a page, as far as it tells whether another page has the same.
//!
//! Attributes, scripts, tags and blanks do not count: they often differ between two requests for
//! the same page. A text is kept as its hash.

use std::borrow::Cow;

use blake3::Hasher;
use serde::{Deserialize, Serialize};

/// BLAKE3 of a text, as hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TextHash(String);

impl TextHash {
    /// Returns that of a file of any type: its bytes.
    pub fn of_file(media_type: &str, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher
            .update(media_type.as_bytes())
            .update(&[0])
            .update(bytes);
        Self(hasher.finalize().to_hex().to_string())
    }
}

/// Returns the text of a page's bytes for a reader of tags. The charset of a page that is not in
/// UTF-8 is of no concern: a character stands for each byte, so other bytes are another text.
pub fn decoded(html: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(html) {
        Ok(text) => text.into(),
        Err(_) => html.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// A text that is read piece by piece.
#[derive(Default)]
pub struct Text {
    hasher: Hasher,
    /// Blanks or tags have been read since the last word.
    is_apart: bool,
    has_words: bool,
}

impl Text {
    /// Ends the word that is being read.
    pub fn part(&mut self) {
        self.is_apart = true;
    }

    pub fn add(&mut self, text: &str) {
        for (number, word) in text.split(char::is_whitespace).enumerate() {
            self.is_apart |= number > 0;
            if word.is_empty() {
                continue;
            }
            if self.is_apart && self.has_words {
                self.hasher.update(b" ");
            }
            self.hasher.update(word.as_bytes());
            (self.is_apart, self.has_words) = (false, true);
        }
    }

    /// Returns `None` if there was no word.
    pub fn finish(self) -> Option<TextHash> {
        self.has_words
            .then(|| TextHash(self.hasher.finalize().to_hex().to_string()))
    }
}
