//! Which words of a text are words of a query: what a result shows of why it was found.
//!
//! A term or pattern is found wherever it is, and the words of a phrase only where the phrase is.
//! What a query excludes is never found, whatever else it is.

use std::{collections::HashMap, ops::Range};

use rag_pages::{
    IndexError,
    memory::{OutOfMemory, Reserve, push, with_room},
};

use super::pattern::{Pattern, PatternMatcher};
use crate::{phrase::Phrase, terms::Terms};

/// A term of a text.
#[derive(Debug, Clone)]
pub struct TextTerm<'t> {
    pub term: &'t [u8],
    /// See [`crate::Terms::add_at`].
    pub position: Option<u32>,
    /// Where it is in the text, in bytes.
    pub place: Range<usize>,
    /// It is a part of a compound, which counts half.
    pub is_part: bool,
}

/// A word of a text that is one of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundWord {
    /// Where it is in the text, in bytes.
    pub place: Range<usize>,
    /// Which word of the query it is.
    pub number: u32,
    pub is_part: bool,
}

/// What a query looks for, by the numbers of its words.
#[derive(Debug, Default)]
pub struct Sought {
    terms: HashMap<Vec<u8>, u32>,
    patterns: Vec<(Pattern, u32)>,
    phrases: Vec<(Phrase, u32)>,
}

impl Sought {
    /// Adds a term. The first number stays.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add_term(&mut self, term: &[u8], number: u32) -> Result<(), OutOfMemory> {
        if !self.terms.contains_key(term) {
            let mut key = with_room(term.len())?;
            key.extend_from_slice(term);
            self.terms.make_room(1)?;
            self.terms.insert(key, number);
        }
        Ok(())
    }

    /// # Errors
    /// Memory runs out.
    pub fn add_pattern(&mut self, pattern: Pattern, number: u32) -> Result<(), OutOfMemory> {
        push(&mut self.patterns, (pattern, number))
    }

    /// # Errors
    /// Memory runs out.
    pub fn add_phrase(&mut self, phrase: Phrase, number: u32) -> Result<(), OutOfMemory> {
        push(&mut self.phrases, (phrase, number))
    }

    /// Returns true if nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.patterns.is_empty() && self.phrases.is_empty()
    }

    /// Returns the terms and their numbers, in any order.
    pub fn terms(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.terms
            .iter()
            .map(|(term, number)| (term.as_slice(), *number))
    }
}

/// The words of a query that are looked for, and those that it excludes.
#[derive(Debug, Default)]
pub struct WantedWords {
    pub sought: Sought,
    pub excluded: Sought,
}

/// Finds the words of a query in one text.
pub struct WordFinder<'w> {
    sought: Finder<'w>,
    excluded: Finder<'w>,
}

impl<'w> WordFinder<'w> {
    pub fn new(wanted: &'w WantedWords) -> Self {
        Self {
            sought: Finder::new(&wanted.sought),
            excluded: Finder::new(&wanted.excluded),
        }
    }

    /// Returns true if a term must be [added](Self::add), as far as it is in the text.
    pub fn is_wanted(&mut self, term: &[u8]) -> bool {
        self.sought.is_wanted(term) || self.excluded.is_wanted(term)
    }

    /// Looks at a term of the text. They may come in any order.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add(&mut self, term: &TextTerm<'_>) -> Result<(), OutOfMemory> {
        self.sought.add(term)?;
        self.excluded.add(term)
    }

    /// Returns the words that were found, in the order of the text. `check` is called now and then,
    /// and may end the search by unwinding.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn finish(self, check: &dyn Fn()) -> Result<Vec<FoundWord>, IndexError> {
        let mut excluded = self.excluded.finish(check)?;
        let mut found = self.sought.finish(check)?;
        // a compound before the parts that are in it
        excluded.dedup_by(|next, kept| {
            let is_within = next.place.start < kept.place.end;
            kept.place.end = kept
                .place
                .end
                .max(if is_within { next.place.end } else { 0 });
            is_within
        });
        found.retain(|word| {
            let next = excluded.partition_point(|other| other.place.start < word.place.end);
            let before = next.checked_sub(1).map(|before| &excluded[before]);
            before.is_none_or(|before| before.place.end <= word.place.start)
        });
        Ok(found)
    }
}

/// Finds what is sought in one text.
struct Finder<'w> {
    sought: &'w Sought,
    matchers: Vec<(PatternMatcher<'w>, u32)>,
    found: Vec<FoundWord>,
    phrases: Vec<PhraseFinder<'w>>,
}

/// The words of a phrase in a text.
struct PhraseFinder<'w> {
    phrase: &'w Phrase,
    number: u32,
    document: Terms,
    /// The number of the term in the phrase, its position, its place, and true for a part.
    words: Vec<(usize, u32, Range<usize>, bool)>,
}

impl<'w> Finder<'w> {
    fn new(sought: &'w Sought) -> Self {
        let patterns = sought.patterns.iter();
        let phrases = sought.phrases.iter();
        Self {
            sought,
            matchers: patterns
                .map(|(pattern, number)| (PatternMatcher::new(pattern), *number))
                .collect(),
            found: vec![],
            phrases: phrases
                .map(|(phrase, number)| PhraseFinder {
                    phrase,
                    number: *number,
                    document: Terms::with_positions(),
                    words: vec![],
                })
                .collect(),
        }
    }

    fn is_wanted(&mut self, term: &[u8]) -> bool {
        let mut matchers = self.matchers.iter_mut();
        let mut phrases = self.phrases.iter();
        self.sought.terms.contains_key(term)
            || matchers.any(|(matcher, _)| matcher.matches(term, 0))
            || phrases.any(|phrase| phrase.phrase.terms().number(term).is_some())
    }

    fn add(&mut self, term: &TextTerm<'_>) -> Result<(), OutOfMemory> {
        if term.place.is_empty() {
            return Ok(());
        }
        let word = |number| FoundWord {
            place: term.place.clone(),
            number,
            is_part: term.is_part,
        };
        if let Some(number) = self.sought.terms.get(term.term) {
            push(&mut self.found, word(*number))?;
        }
        for (matcher, number) in &mut self.matchers {
            if matcher.matches(term.term, 0) {
                push(&mut self.found, word(*number))?;
            }
        }
        let mut phrases = self.phrases.iter_mut();
        phrases.try_for_each(|phrase| phrase.add(term))
    }

    fn finish(self, check: &dyn Fn()) -> Result<Vec<FoundWord>, IndexError> {
        let mut found = self.found;
        for phrase in self.phrases {
            phrase.finish(&mut found, check)?;
        }
        let order = |word: &FoundWord| (word.place.start, word.place.end, word.number);
        found.sort_unstable_by_key(order);
        found.dedup();
        Ok(found)
    }
}

impl PhraseFinder<'_> {
    fn add(&mut self, term: &TextTerm<'_>) -> Result<(), OutOfMemory> {
        let number = self.phrase.terms().number(term.term);
        let (Some(number), Some(position)) = (number, term.position) else {
            return Ok(());
        };
        self.document.add_at(term.term, Some(position))?;
        let word = (number, position, term.place.clone(), term.is_part);
        push(&mut self.words, word)
    }

    /// Adds the words that are where the phrase is.
    fn finish(mut self, found: &mut Vec<FoundWord>, check: &dyn Fn()) -> Result<(), IndexError> {
        self.document.finish();
        let in_phrase = self.phrase.found(&self.document, check)?;
        let terms = self.phrase.terms().iter().map(|(term, _)| term);
        let terms: Vec<&[u8]> = terms.collect();
        for (term, position, place, is_part) in self.words {
            let positions = self.document.positions(terms[term]);
            let number = positions.binary_search(&position);
            if number.is_ok_and(|number| in_phrase[term][number]) {
                let word = FoundWord {
                    place,
                    number: self.number,
                    is_part,
                };
                push(found, word).map_err(IndexError::of_memory)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds words in a text of words between single blanks.
    fn found(wanted: &WantedWords, text: &str) -> String {
        let mut finder = WordFinder::new(wanted);
        let mut at = 0;
        for (position, word) in (0..).zip(text.split(' ')) {
            let term = TextTerm {
                term: word.as_bytes(),
                position: Some(position),
                place: at..at + word.len(),
                is_part: false,
            };
            finder.add(&term).unwrap();
            at += word.len() + 1;
        }
        let found = finder.finish(&|| ()).unwrap();
        let found = found
            .iter()
            .map(|word| format!("{}:{}", word.number, &text[word.place.clone()]));
        found.collect::<Vec<_>>().join(" ")
    }

    fn phrase(words: &[&str]) -> Phrase {
        let mut phrase = Phrase::new(0);
        for (offset, word) in (0..).zip(words) {
            phrase.add(word.as_bytes(), offset, 1).unwrap();
        }
        phrase.finish().unwrap();
        phrase
    }

    #[test]
    fn words_patterns_and_phrases_are_found() {
        let mut wanted = WantedWords::default();
        wanted.sought.add_term(b"log", 0).unwrap();
        wanted
            .sought
            .add_pattern(Pattern::Prefix(b"arch".to_vec()), 1)
            .unwrap();
        wanted
            .sought
            .add_phrase(phrase(&["write", "ahead"]), 2)
            .unwrap();
        assert_eq!(
            found(&wanted, "write the log archive write ahead now ahead"),
            "0:log 1:archive 2:write 2:ahead"
        );
    }

    #[test]
    fn what_is_excluded_is_not_found() {
        let mut wanted = WantedWords::default();
        wanted
            .sought
            .add_pattern(Pattern::Prefix(b"lo".to_vec()), 0)
            .unwrap();
        wanted.excluded.add_term(b"lock", 0).unwrap();
        wanted
            .excluded
            .add_phrase(phrase(&["the", "log"]), 1)
            .unwrap();
        assert_eq!(found(&wanted, "lock log the log loop"), "0:log 0:loop");
        assert!(!wanted.sought.is_empty() && WantedWords::default().sought.is_empty());
    }
}
