//! Finds the documents of a segment that satisfy the condition of a query.
//!
//! Those that must have several terms are found by leaps: each term in turn moves on to the
//! document that the others are at, the rarest term first.
//!
//! If the index does not know where words are, a phrase is required to have its words, and one that
//! is excluded excludes nothing. So documents may be found that do not satisfy the condition; those
//! are told apart by their texts.

use rag_pages::{IndexError, ReadPages, memory::push};

use super::{
    cursor::TermCursor, opened::OpenedSegment, phrases::PhraseCursor, window::SegmentSearch,
};
use crate::{
    query::{Condition, Match},
    score::Scorer,
};

/// Documents between two checks whether the search is interrupted.
const CHECKED: u32 = 1 << 12;

/// The condition of a query in a segment. It is asked for documents in ascending order, unless it
/// is restarted.
pub struct SegmentCondition<'s> {
    required: Vec<SegmentMatch<'s>>,
    excluded: Vec<SegmentMatch<'s>>,
}

/// The documents that have what a condition is about.
enum SegmentMatch<'s> {
    Nothing,
    Term(Box<TermCursor<'s>>),
    Phrase(Box<PhraseCursor<'s>>),
    Any(Vec<SegmentMatch<'s>>),
    All(Vec<SegmentMatch<'s>>),
}

/// What is known of phrases.
#[derive(Clone, Copy)]
enum Phrases {
    Known,
    /// A document with the words may have it.
    Possible,
    /// No document is certain to have it.
    Certain,
}

impl<'s> SegmentCondition<'s> {
    pub fn new(
        condition: &'s Condition,
        segment: &'s OpenedSegment,
        scorer: &'s Scorer,
        has_positions: bool,
    ) -> Result<Self, IndexError> {
        let make = |parts: &'s [Match], phrases| -> Result<Vec<_>, IndexError> {
            let phrases = if has_positions {
                Phrases::Known
            } else {
                phrases
            };
            parts
                .iter()
                .map(|part| SegmentMatch::new(part, segment, scorer, phrases))
                .collect()
        };
        let mut required = make(&condition.required, Phrases::Possible)?;
        required.sort_by_key(SegmentMatch::documents);
        Ok(Self {
            required,
            excluded: make(&condition.excluded, Phrases::Certain)?,
        })
    }

    pub fn restart(&mut self) {
        let all = self.required.iter_mut().chain(&mut self.excluded);
        all.for_each(SegmentMatch::restart);
    }

    /// Returns true if a document satisfies the condition.
    pub fn holds<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<bool, IndexError> {
        for part in &mut self.required {
            if !part.has(search, document)? {
                return Ok(false);
            }
        }
        self.is_not_excluded(search, document)
    }

    fn is_not_excluded<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<bool, IndexError> {
        for part in &mut self.excluded {
            if part.has(search, document)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns all documents that satisfy the condition, of which something is required.
    pub fn documents<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
    ) -> Result<Vec<u32>, IndexError> {
        let mut found = vec![];
        let (mut document, mut checked) = (0, 0_u32);
        while let Some(next) = next_of_all(&mut self.required, search, document)? {
            if next >= search.segment.documents() {
                break; // a corrupted list
            }
            if self.is_not_excluded(search, next)? {
                push(&mut found, next).map_err(IndexError::of_memory)?;
            }
            document = next + 1;
            checked += 1;
            if checked.is_multiple_of(CHECKED) {
                search.pages.check_interrupts();
            }
        }
        Ok(found)
    }
}

impl<'s> SegmentMatch<'s> {
    fn new(
        part: &'s Match,
        segment: &'s OpenedSegment,
        scorer: &'s Scorer,
        phrases: Phrases,
    ) -> Result<Self, IndexError> {
        let make = |parts: &'s [Match]| -> Result<Vec<_>, IndexError> {
            let parts = parts.iter();
            parts
                .map(|part| Self::new(part, segment, scorer, phrases))
                .collect()
        };
        let term = |number: u32| -> Result<Self, IndexError> {
            let cursor = segment.cursor(number as usize, scorer)?;
            Ok(cursor.map_or(Self::Nothing, |cursor| Self::Term(Box::new(cursor))))
        };
        Ok(match (part, phrases) {
            (Match::Term(number), _) => term(*number)?,
            (Match::Any(parts), _) => Self::any(make(parts)?),
            (Match::All(parts), _) => Self::all(make(parts)?),
            (Match::Phrase(_), Phrases::Certain) => Self::Nothing,
            (Match::Phrase(numbered), Phrases::Known) => {
                let numbers = numbered.numbers.iter();
                let cursors = numbers.map(|number| segment.cursor(*number as usize, scorer));
                let cursors = cursors.collect::<Result<_, IndexError>>()?;
                Self::Phrase(Box::new(PhraseCursor::new(&numbered.phrase, cursors)))
            }
            (Match::Phrase(numbered), Phrases::Possible) => {
                let places = numbered
                    .places()
                    .map(|place| Ok(Self::any(place.map(term).collect::<Result<_, _>>()?)));
                Self::all(places.collect::<Result<_, IndexError>>()?)
            }
        })
    }

    fn any(mut parts: Vec<Self>) -> Self {
        parts.retain(|part| !matches!(part, Self::Nothing));
        match parts.len() {
            0 => Self::Nothing,
            1 => parts.swap_remove(0),
            _ => Self::Any(parts),
        }
    }

    fn all(mut parts: Vec<Self>) -> Self {
        if parts.iter().any(|part| matches!(part, Self::Nothing)) {
            return Self::Nothing;
        }
        parts.sort_by_key(Self::documents);
        Self::All(parts)
    }

    /// Returns the number of documents, at most.
    fn documents(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Term(cursor) => cursor.documents(),
            Self::Phrase(cursor) => cursor.documents(),
            Self::Any(parts) => parts.iter().map(Self::documents).sum(),
            Self::All(parts) => parts
                .iter()
                .map(Self::documents)
                .min()
                .unwrap_or(usize::MAX),
        }
    }

    fn restart(&mut self) {
        match self {
            Self::Nothing => {}
            Self::Term(cursor) => cursor.restart(),
            Self::Phrase(cursor) => cursor.restart(),
            Self::Any(parts) | Self::All(parts) => parts.iter_mut().for_each(Self::restart),
        }
    }

    fn has<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<bool, IndexError> {
        match self {
            Self::Nothing => Ok(false),
            Self::Term(cursor) => Ok(cursor.frequency(search, document, 0)? > 0),
            Self::Phrase(cursor) => cursor.has(search, document),
            Self::Any(parts) => {
                for part in parts {
                    if part.has(search, document)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::All(parts) => {
                for part in parts {
                    if !part.has(search, document)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Returns the first document from `document` on.
    fn next_from<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<Option<u32>, IndexError> {
        match self {
            Self::Nothing => Ok(None),
            Self::Term(cursor) => cursor.next_from(search, document),
            Self::Phrase(cursor) => cursor.next_from(search, document),
            Self::Any(parts) => {
                let mut next = None;
                for part in parts {
                    let first = part.next_from(search, document)?;
                    next = next.into_iter().chain(first).min();
                }
                Ok(next)
            }
            Self::All(parts) => next_of_all(parts, search, document),
        }
    }
}

/// Returns the first document from `document` on that all parts have.
fn next_of_all<P: ReadPages>(
    parts: &mut [SegmentMatch<'_>],
    search: &SegmentSearch<'_, P>,
    mut document: u32,
) -> Result<Option<u32>, IndexError> {
    'next: loop {
        for part in &mut *parts {
            match part.next_from(search, document)? {
                None => return Ok(None),
                // a corrupted list may go back
                Some(next) if next <= document => {}
                Some(next) => {
                    document = next;
                    continue 'next;
                }
            }
        }
        return Ok(Some(document));
    }
}
