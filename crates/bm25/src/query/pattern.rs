//! Several terms that are searched for as if they were one: its frequency in a document is the sum
//! of theirs, and the documents that have one of them have it.

use super::typo::{Typo, TypoMatcher};
use crate::terms::{Terms, halves_of, stored_of};

/// Which terms are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    Exact(Vec<u8>),
    /// All that begin so.
    Prefix(Vec<u8>),
    /// All that are spelled almost so.
    Typo(Typo),
    /// Those of each of some patterns.
    Any(Vec<Pattern>),
}

impl Pattern {
    /// Returns how often the terms are in a document, as an index stores it.
    pub fn frequency_in(&self, document: &Terms, has_parts: bool) -> u32 {
        if let Self::Exact(term) = self {
            return document.frequency(term);
        }
        let mut matcher = PatternMatcher::new(self);
        let mut sum = FrequencySum::new(has_parts);
        for (term, frequency) in document.iter() {
            if matcher.matches(term, 0) {
                sum.add(frequency);
            }
        }
        sum.stored()
    }
}

/// The sum of stored frequencies of one document.
#[derive(Debug, Clone, Copy)]
pub struct FrequencySum {
    has_parts: bool,
    /// In halves, if there are parts.
    sum: u32,
}

impl FrequencySum {
    pub fn new(has_parts: bool) -> Self {
        Self { has_parts, sum: 0 }
    }

    pub fn add(&mut self, frequency: u32) {
        let added = count_of(frequency, self.has_parts);
        self.sum = self.sum.saturating_add(added);
    }

    pub fn stored(self) -> u32 {
        stored_count(self.sum, self.has_parts)
    }
}

/// Returns a number that can be added up for a stored frequency.
#[inline]
pub fn count_of(frequency: u32, has_parts: bool) -> u32 {
    if has_parts {
        halves_of(frequency)
    } else {
        frequency
    }
}

/// Returns the stored frequency of a sum of [`count_of`].
#[inline]
pub fn stored_count(sum: u32, has_parts: bool) -> u32 {
    if has_parts { stored_of(sum) } else { sum }
}

/// Finds out which terms a pattern means, of terms that come one after the other.
pub enum PatternMatcher<'p> {
    Exact(&'p [u8]),
    Prefix(&'p [u8]),
    Typo(TypoMatcher<'p>),
    Any(Vec<PatternMatcher<'p>>),
}

impl<'p> PatternMatcher<'p> {
    pub fn new(pattern: &'p Pattern) -> Self {
        match pattern {
            Pattern::Exact(term) => Self::Exact(term),
            Pattern::Prefix(prefix) => Self::Prefix(prefix),
            Pattern::Typo(typo) => Self::Typo(TypoMatcher::new(typo)),
            Pattern::Any(patterns) => Self::Any(patterns.iter().map(Self::new).collect()),
        }
    }

    /// Returns true if a term is meant. It has `shared` bytes in common with the term before.
    #[inline]
    pub fn matches(&mut self, term: &[u8], shared: usize) -> bool {
        match self {
            Self::Exact(exact) => term == *exact,
            Self::Prefix(prefix) => term.starts_with(prefix),
            Self::Typo(typo) => typo.edits(term, shared).is_some(),
            Self::Any(patterns) => {
                let mut is_one = false;
                for pattern in patterns {
                    is_one |= pattern.matches(term, shared); // each has to see each term
                }
                is_one
            }
        }
    }
}
