//! Parts of a text with their positions.

/// Maximum number of characters of a user's text in an error.
const QUOTED: usize = 30;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub text: &'a str,
    /// The number of its first character, from 1.
    pub position: usize,
}

impl<'a> Part<'a> {
    /// Returns the text without surrounding white space.
    pub fn trimmed(text: &'a str) -> Self {
        Part { text, position: 1 }.trim()
    }

    pub fn trim(self) -> Self {
        let text = self.text.trim_start();
        let blanks = self.text[..self.text.len() - text.len()].chars().count();
        Part {
            text: text.trim_end(),
            position: self.position + blanks,
        }
    }

    /// Returns the position after the end.
    pub fn end(self) -> usize {
        self.position + self.text.chars().count()
    }

    /// Splits at the byte `at`.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let (before, after) = self.text.split_at(at);
        let before = Part {
            text: before,
            position: self.position,
        };
        (
            before,
            Part {
                text: after,
                position: before.end(),
            },
        )
    }

    /// Returns the first word and the rest without leading white space.
    pub fn word(self) -> (Self, Self) {
        let (word, rest) = self.split_at(
            self.text
                .find(char::is_whitespace)
                .unwrap_or(self.text.len()),
        );
        (word, rest.trim())
    }

    pub fn words(self) -> Vec<Self> {
        let mut words = Vec::new();
        let mut rest = self.trim();
        while !rest.text.is_empty() {
            let (word, after) = rest.word();
            words.push(word);
            rest = after;
        }
        words
    }

    /// Splits at the first separator.
    pub fn cut(self, separator: char) -> (Self, Option<Self>) {
        let mut parts = self.text.splitn(2, separator);
        let first = Part {
            text: parts.next().unwrap_or_default(),
            position: self.position,
        };
        (
            first,
            parts.next().map(|text| Part {
                text,
                position: first.end() + 1,
            }),
        )
    }

    pub fn split(self, separator: char) -> Vec<Self> {
        let mut position = self.position;
        let place = |text: &'a str| {
            let part = Part { text, position };
            position = part.end() + 1;
            part
        };
        self.text.split(separator).map(place).collect()
    }

    /// Returns the text for an error: quoted, escaped and truncated.
    pub fn quoted(self) -> String {
        match self.text.char_indices().nth(QUOTED) {
            Some((end, _)) => format!("{:?}...", &self.text[..end]),
            None => format!("{:?}", self.text),
        }
    }
}
