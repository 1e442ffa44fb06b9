//! How texts become terms.

use std::ops::Range;

use pgrx::pg_sys;
use rag_pages::memory::OutOfMemory;
use rag_words::{Analysis, Purpose, Splitter, Weight, fold_accents};

use super::{dictionaries::has_default_parser, text_search::each_lexeme, words::Words};

/// How texts become terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Analyzer {
    /// The text search configuration, whose dictionaries are asked.
    pub config: pg_sys::Oid,
    pub analysis: Analysis,
    pub folds_accents: bool,
    /// Positions are wanted. They are the same in all ways to read a text.
    pub counts_positions: bool,
}

/// A term of a text, and where it is.
#[derive(Debug, Clone, Copy)]
pub struct Occurrence<'a> {
    /// Empty for a word that is not in the index, such as a stop word.
    pub term: &'a [u8],
    pub weight: Weight,
    /// Which word of the text it is, from 0 on: see [`rag_words::Token::position`]. The analysis
    /// `exact` counts words as `to_tsvector` does. `None` for the compounds of a text in which
    /// PostgreSQL's parser counts.
    pub position: Option<u32>,
    /// Number of words that it consists of.
    pub places: u32,
    /// See [`rag_words::Token::is_needed`].
    pub is_needed: bool,
    /// Where it begins and ends in the text, in bytes. Only [`Words::each_place`] tells that.
    pub start: usize,
    pub end: usize,
}

impl<'a> Occurrence<'a> {
    /// Returns a lexeme of PostgreSQL's parser.
    pub fn of_parser(term: &'a [u8], position: u32, place: Range<usize>) -> Self {
        Self {
            term,
            weight: Weight::Whole,
            position: Some(position),
            places: 1,
            is_needed: true,
            start: place.start,
            end: place.end,
        }
    }
}

impl Analyzer {
    /// Returns this with or without positions.
    pub fn with_positions(self, counts_positions: bool) -> Self {
        Self {
            counts_positions,
            ..self
        }
    }

    /// Returns this with another configuration.
    pub fn with_config(self, config: pg_sys::Oid) -> Self {
        Self { config, ..self }
    }

    /// Returns true if terms have weights, because some are parts of compounds.
    pub fn has_parts(self) -> bool {
        self.analysis != Analysis::Exact
    }

    /// Returns true if [`Words`] finds the words itself, without PostgreSQL's parser.
    pub fn is_split(self) -> bool {
        self.has_parts() && has_default_parser(self.config)
    }

    /// Returns a word as it is written in the index before dictionaries make a lexeme of it, or
    /// `None` for a text that is not one word.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn plain_word(self, text: &str) -> Result<Option<String>, OutOfMemory> {
        let fold = |word: String| match self.folds_accents {
            true => fold_accents(&word).into_owned(),
            false => word,
        };
        if !self.is_split() {
            return Ok(Some(fold(text.to_lowercase())));
        }
        let mut splitter = Splitter::default();
        splitter.split(text, self.analysis, Purpose::Text)?;
        let mut needed = splitter.iter().filter(|token| token.is_needed);
        let word = needed.next().map(|token| fold(token.text.to_lowercase()));
        Ok(word.filter(|_| needed.next().is_none()))
    }

    /// Calls `f` with each term of a text, in the order of the text. Stop words are left out.
    ///
    /// # Errors
    /// Those of `f`, or memory runs out.
    pub fn each_term(
        self,
        text: &[u8],
        purpose: Purpose,
        mut f: impl FnMut(&[u8], Weight) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        self.each_occurrence(text, purpose, |found| match found.term {
            [] => Ok(()),
            term => f(term, found.weight),
        })
    }

    /// Calls `f` with each term of a text and its position, and with stop words.
    ///
    /// # Errors
    /// Those of `f`, or memory runs out.
    pub fn each_occurrence(
        self,
        text: &[u8],
        purpose: Purpose,
        mut f: impl FnMut(Occurrence<'_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        if self.has_parts() || self.folds_accents || self.counts_positions {
            return Words::new(self).each_occurrence(text, purpose, f);
        }
        let each = |term: &[u8], position| f(Occurrence::of_parser(term, position, 0..0));
        each_lexeme(self.config, text, each).map(drop)
    }
}
