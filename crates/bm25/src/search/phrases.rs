//! Documents with a phrase.

use rag_pages::{IndexError, ReadPages};

use super::{cursor::TermCursor, window::SegmentSearch};
use crate::phrase::Phrase;

/// A cursor over the documents of a segment with a phrase.
pub struct PhraseCursor<'s> {
    phrase: &'s Phrase,
    /// Of each term of the phrase, if the segment has it.
    cursors: Vec<Option<TermCursor<'s>>>,
    /// The places of the phrase, the rarest first.
    order: Vec<usize>,
}

impl<'s> PhraseCursor<'s> {
    /// `cursors` are those of the phrase's terms, by their numbers, if the segment has them.
    pub fn new(phrase: &'s Phrase, cursors: Vec<Option<TermCursor<'s>>>) -> Self {
        let mut cursor = Self {
            phrase,
            cursors,
            order: (0..phrase.places().len()).collect(),
        };
        let mut order = std::mem::take(&mut cursor.order);
        order.sort_by_key(|place| cursor.documents_of(*place));
        Self { order, ..cursor }
    }

    /// Returns the number of documents with a word of a place, at most.
    fn documents_of(&self, place: usize) -> usize {
        let alternatives = self.phrase.places()[place].alternatives.iter();
        let cursors = alternatives.filter_map(|known| self.cursors[known.term].as_ref());
        cursors.map(TermCursor::documents).sum()
    }

    /// Returns the number of documents, at most.
    pub fn documents(&self) -> usize {
        self.order
            .first()
            .map_or(0, |place| self.documents_of(*place))
    }

    /// Moves back to the first document.
    pub fn restart(&mut self) {
        self.cursors
            .iter_mut()
            .flatten()
            .for_each(TermCursor::restart);
    }

    /// Returns true if a document has the phrase. Documents are asked for in ascending order.
    pub fn has<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<bool, IndexError> {
        'places: for place in &self.order {
            for known in &self.phrase.places()[*place].alternatives {
                if let Some(cursor) = &mut self.cursors[known.term]
                    && cursor.frequency(search, document, 0)? > 0
                {
                    continue 'places;
                }
            }
            return Ok(false);
        }
        self.has_phrase(search, document)
    }

    /// Returns the first document with the phrase from `document` on. It may be deleted.
    pub fn next_from<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<Option<u32>, IndexError> {
        let mut document = document;
        while let Some(next) = self.next_with_words(search, document)? {
            search.pages.check_interrupts();
            if self.has_phrase(search, next)? {
                return Ok(Some(next));
            }
            let Some(after) = next.checked_add(1) else {
                break;
            };
            document = after;
        }
        Ok(None)
    }

    /// Returns the first document from `document` on that has a word of each place.
    fn next_with_words<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<Option<u32>, IndexError> {
        let (mut document, mut agreed, mut place) = (document, 0, 0);
        while agreed < self.order.len() {
            let mut next = None;
            for known in &self.phrase.places()[self.order[place]].alternatives {
                if let Some(cursor) = &mut self.cursors[known.term] {
                    let found = cursor.next_from(search, document)?;
                    next = next.into_iter().chain(found).min();
                }
            }
            let Some(next) = next else {
                return Ok(None);
            };
            if next > document {
                // the rarest place tells best which one may be next
                (document, agreed, place) =
                    (next, usize::from(place == 0), usize::from(place == 0));
            } else {
                (agreed, place) = (agreed + 1, place + 1);
            }
        }
        Ok((!self.order.is_empty()).then_some(document))
    }

    /// Returns true if a document, which has a word of each place, has the phrase.
    fn has_phrase<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<bool, IndexError> {
        let cursors = &mut self.cursors;
        let positions = |term: usize, positions: &mut Vec<u32>| {
            let Some(cursor) = &mut cursors[term] else {
                return Ok(());
            };
            match cursor.next_from(search, document)? {
                Some(found) if found == document => cursor.positions(search, positions),
                _ => Ok(()),
            }
        };
        let check = || search.pages.check_interrupts();
        self.phrase.matches_positions(positions, check)
    }
}
