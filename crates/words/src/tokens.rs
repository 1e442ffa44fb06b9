//! What a text was split into.

use rag_pages::memory::{OutOfMemory, append, push};

use crate::MAX_WORD_BYTES;

/// What a word is made of. It decides which dictionaries are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// ASCII letters.
    Ascii,
    /// Letters.
    Letters,
    /// Letters and digits, perhaps with signs.
    Mixed,
    /// Digits.
    Integer,
    /// Digits with one dot.
    Decimal,
    /// Digits with more dots.
    Version,
    /// A term as it is. No dictionary is asked.
    Term,
}

/// How much a word counts, in halves.
///
/// A part counts half of what a word counts that stands alone. So a text in which `commit` is part
/// of `session.commit` does not outrank a text of the same length with the word itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Weight {
    Part = 1,
    Whole = 2,
}

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    pub kind: Kind,
    pub weight: Weight,
    /// It belongs to a compound, or to a script without blanks.
    pub is_compound: bool,
    /// Only what dictionaries make of it counts, if that is not the token before.
    pub is_stem: bool,
    /// The text is made up of these: a text that has all of them has the words of this one. The
    /// others are parts of them, or other divisions of the same letters.
    pub is_needed: bool,
    /// Where it begins and ends in the normalized text, in bytes.
    pub at: usize,
    pub end: usize,
    /// Which word of the text it is, from 0 on, where each part of a compound that is not divided
    /// any more, and each character of a script without blanks, is a word.
    pub position: u32,
    /// Number of such words that it consists of.
    pub places: u32,
}

/// A token in the bytes of [`Tokens`].
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    stop: u32,
    at: u32,
    end: u32,
    position: u32,
    places: u32,
    kind: Kind,
    weight: Weight,
    is_compound: bool,
    is_stem: bool,
    is_needed: bool,
}

/// The tokens of a text, in its order.
#[derive(Debug, Default)]
pub struct Tokens {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Number of words so far.
    positions: u32,
}

impl Tokens {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.positions = 0;
    }

    /// Counts some words. Returns the position of the first.
    pub fn take_positions(&mut self, words: u32) -> u32 {
        let first = self.positions;
        self.positions += words;
        first
    }

    /// Returns the number of words.
    pub fn positions(&self) -> u32 {
        self.positions
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a token. Words that are too long are left out.
    pub fn push(&mut self, token: Token<'_>) -> Result<(), OutOfMemory> {
        if token.text.is_empty() || token.text.len() > MAX_WORD_BYTES {
            return Ok(());
        }
        let start = self.bytes.len() as u32;
        append(&mut self.bytes, token.text.as_bytes())?;
        let entry = Entry {
            start,
            stop: self.bytes.len() as u32,
            at: token.at as u32,
            end: token.end as u32,
            position: token.position,
            places: token.places,
            kind: token.kind,
            weight: token.weight,
            is_compound: token.is_compound,
            is_stem: token.is_stem,
            is_needed: token.is_needed,
        };
        push(&mut self.entries, entry)
    }

    pub fn get(&self, number: usize) -> Token<'_> {
        let entry = &self.entries[number];
        let bytes = &self.bytes[entry.start as usize..entry.stop as usize];
        Token {
            text: std::str::from_utf8(bytes).unwrap_or_default(),
            kind: entry.kind,
            weight: entry.weight,
            is_compound: entry.is_compound,
            is_stem: entry.is_stem,
            is_needed: entry.is_needed,
            at: entry.at as usize,
            end: entry.end as usize,
            position: entry.position,
            places: entry.places,
        }
    }
}
