//! A query: terms that count, patterns of terms, and what documents must satisfy.
//!
//! | file | contents |
//! |---|---|
//! | [`pattern`] | several terms that are searched for as one |
//! | [`typo`] | terms that are spelled almost like a word |
//! | [`condition`] | what documents must have, and must not |
//! | [`wanted`] | which words of a text are words of a query |

mod condition;
mod pattern;
mod typo;
mod wanted;

pub use condition::{Condition, Match, NumberedPhrase};
pub use pattern::{Pattern, PatternMatcher, count_of, stored_count};
pub use typo::{Typo, TypoMatcher, auto_edits};
pub use wanted::{FoundWord, Sought, TextTerm, WantedWords, WordFinder};

use crate::terms::Terms;

/// A pattern of a query, and how much it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedPattern {
    pub pattern: Pattern,
    /// As the frequency of a term of the query. 0 for one that is only part of the condition.
    pub weight: u32,
}

/// A query. Its terms and patterns have numbers: first the terms in their order, then the patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pub terms: Terms,
    pub patterns: Vec<CountedPattern>,
    pub condition: Option<Condition>,
}

impl From<Terms> for Query {
    fn from(terms: Terms) -> Self {
        Self {
            terms,
            ..Self::default()
        }
    }
}

impl Query {
    pub fn as_ref(&self) -> QueryRef<'_> {
        self.into()
    }

    /// Returns the numbers of a term: as a term that counts, and as a pattern of the condition.
    pub fn numbers_of<'q>(&'q self, term: &'q [u8]) -> impl Iterator<Item = usize> + 'q {
        let is_same = move |counted: &CountedPattern| match &counted.pattern {
            Pattern::Exact(exact) => exact == term,
            _ => false,
        };
        let patterns = (self.terms.len()..).zip(&self.patterns);
        let patterns = patterns.filter(move |(_, counted)| is_same(counted));
        let number = self.terms.number(term);
        number.into_iter().chain(patterns.map(|(number, _)| number))
    }

    /// Returns true if nothing counts, so that no document can match.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.patterns.iter().all(|counted| counted.weight == 0)
    }
}

/// A query, or terms that are one.
#[derive(Debug, Clone, Copy)]
pub struct QueryRef<'q> {
    pub terms: &'q Terms,
    pub patterns: &'q [CountedPattern],
    pub condition: Option<&'q Condition>,
}

impl<'q> From<&'q Terms> for QueryRef<'q> {
    fn from(terms: &'q Terms) -> Self {
        Self {
            terms,
            patterns: &[],
            condition: None,
        }
    }
}

impl<'q> From<&'q Query> for QueryRef<'q> {
    fn from(query: &'q Query) -> Self {
        Self {
            terms: &query.terms,
            patterns: &query.patterns,
            condition: query.condition.as_ref(),
        }
    }
}

impl QueryRef<'_> {
    pub fn to_owned(self) -> Query {
        Query {
            terms: self.terms.clone(),
            patterns: self.patterns.to_vec(),
            condition: self.condition.cloned(),
        }
    }

    /// Returns true if a query is this one.
    pub fn is(self, query: &Query) -> bool {
        *self.terms == query.terms
            && *self.patterns == query.patterns
            && self.condition == query.condition.as_ref()
    }

    /// Returns the number of terms and patterns.
    pub fn count(self) -> usize {
        self.terms.len() + self.patterns.len()
    }

    /// Returns true if it must be known where words are.
    pub fn needs_positions(self) -> bool {
        self.terms.has_positions() || self.condition.is_some_and(Condition::has_phrase)
    }

    /// Returns true if a term or pattern, by its number, counts.
    pub fn counts(self, number: usize) -> bool {
        let pattern = number.checked_sub(self.terms.len());
        pattern.is_none_or(|pattern| {
            self.patterns
                .get(pattern)
                .is_some_and(|counted| counted.weight > 0)
        })
    }

    /// Returns how often each term and pattern is in a document, as an index stores it.
    pub fn frequencies_in(self, document: &Terms, has_parts: bool) -> Vec<u32> {
        let terms = self.terms.iter();
        let mut found: Vec<u32> = terms.map(|(term, _)| document.frequency(term)).collect();
        let patterns = self.patterns.iter();
        found.extend(patterns.map(|counted| counted.pattern.frequency_in(document, has_parts)));
        found
    }
}
