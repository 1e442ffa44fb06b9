//! Phrases: words at fixed distances, and nearness.
//!
//! A phrase has places, counted as the positions of a text are. A document has the phrase if it has
//! a word of each place, and all these words are moved by the same number of positions. With a
//! *slop* they may be moved by different numbers, which differ by at most as much. So a slop of 1
//! allows a word between two others, and one of 2 allows them in the other order. No two words of
//! a phrase are at one position. This is what Lucene documents for its `PhraseQuery`. With
//! a slop, words of a phrase of more than 8 words may be at one position, and a phrase of more than
//! 32 words has no slop.
//!
//! A place has several words if any of them will do: the stems of a word in several languages, or a
//! compound beside its part. The whole of a compound covers several places. A document that has the
//! whole has all of them, so the whole counts at each, from its first position on.

use rag_pages::{
    IndexError,
    memory::{self, OutOfMemory, append, push},
};

use crate::terms::Terms;

/// Longer phrases are not meant to be searched for.
pub const MAX_PLACES: usize = 1000;
/// A longer phrase has no slop. Words that repeat could be at so many positions that it takes hours
/// to try them, and nothing can cancel that.
const MAX_NEAR: usize = 32;
/// Two words of a longer phrase with a slop may be at one position, for the same reason.
const MAX_DISTINCT: usize = 8;

/// The positions that the words of a place have in a document.
#[derive(Debug, Clone, Copy)]
pub struct PlacePositions<'a> {
    /// The place in the phrase.
    pub offset: u32,
    /// In ascending order.
    pub positions: &'a [u32],
}

impl PlacePositions<'_> {
    /// Returns how far a position is moved.
    fn moved(&self, number: usize) -> Option<i64> {
        let position = self.positions.get(number)?;
        Some(i64::from(*position) - i64::from(self.offset))
    }

    fn has(&self, moved: i64) -> bool {
        let position = u32::try_from(moved + i64::from(self.offset));
        position.is_ok_and(|position| self.positions.binary_search(&position).is_ok())
    }
}

/// Returns true if a document has a phrase with these places, of which there must be one at least.
/// See the module for `slop`.
pub fn matches_phrase(places: &[PlacePositions<'_>], slop: u32) -> bool {
    let Some(rarest) = places.iter().min_by_key(|place| place.positions.len()) else {
        return false;
    };
    if slop > 0 && places.len() <= MAX_NEAR {
        return Sloppy::new(places, slop).any();
    }
    let mut moved = (0..rarest.positions.len()).filter_map(|number| rarest.moved(number));
    moved.any(|moved| places.iter().all(|place| place.has(moved)))
}

/// Looks for words that are moved by nearly the same.
struct Sloppy<'a> {
    places: &'a [PlacePositions<'a>],
    slop: i64,
    /// For each place, the first position that is not moved by less than the least so far.
    first: Vec<usize>,
}

impl<'a> Sloppy<'a> {
    fn new(places: &'a [PlacePositions<'a>], slop: u32) -> Self {
        Self {
            places,
            slop: i64::from(slop),
            first: vec![0; places.len()],
        }
    }

    /// Tries the words of each place as the one that is moved least.
    fn any(&mut self) -> bool {
        loop {
            let (mut least, mut most) = ((i64::MAX, 0), i64::MIN);
            for (number, place) in self.places.iter().enumerate() {
                let Some(moved) = place.moved(self.first[number]) else {
                    return false;
                };
                least = least.min((moved, number));
                most = most.max(moved);
            }
            let (least, number) = least;
            if most - least <= self.slop && self.has_distinct(least + self.slop) {
                return true;
            }
            self.first[number] += 1;
        }
    }

    /// Returns true if the places can have different positions, which are moved by `most` at most.
    fn has_distinct(&self, most: i64) -> bool {
        if self.places.len() > MAX_DISTINCT {
            return true;
        }
        let first = |number: usize| self.places[number].positions.get(self.first[number]);
        let mut chosen: Vec<_> = (0..self.places.len()).map(first).collect();
        chosen.sort_unstable();
        if chosen.windows(2).all(|pair| pair[0] != pair[1]) {
            return true;
        }
        // who has which position: augmenting paths
        let mut taken: Vec<(u32, usize)> = vec![];
        (0..self.places.len()).all(|number| self.choose(number, most, &mut taken, &mut vec![]))
    }

    fn choose(
        &self,
        number: usize,
        most: i64,
        taken: &mut Vec<(u32, usize)>,
        tried: &mut Vec<u32>,
    ) -> bool {
        let place = &self.places[number];
        for candidate in self.first[number]..place.positions.len() {
            if place.moved(candidate).is_none_or(|moved| moved > most) {
                break;
            }
            let position = place.positions[candidate];
            if tried.contains(&position) {
                continue;
            }
            tried.push(position);
            match taken.iter().position(|(known, _)| *known == position) {
                None => {
                    taken.push((position, number));
                    return true;
                }
                Some(at) => {
                    if self.choose(taken[at].1, most, taken, tried) {
                        taken[at].1 = number;
                        return true;
                    }
                }
            }
        }
        false
    }
}

/// A word that may be at a place of a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alternative {
    /// The number of the term.
    pub term: usize,
    /// The place, counted from the first that the term covers.
    pub shift: u32,
}

/// A place of a phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub offset: u32,
    /// The words that may be there.
    pub alternatives: Vec<Alternative>,
}

/// A phrase. Add words, then call [`finish`](Self::finish).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Phrase {
    terms: Terms,
    slop: u32,
    /// Places with a word that is in no document, such as a stop word.
    gaps: Vec<u32>,
    /// Where each word begins, how many places it covers, and where its bytes are.
    words: Vec<(u32, u32, usize, usize)>,
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl Phrase {
    /// `slop` is the number of positions by which words may be moved: see the module.
    pub fn new(slop: u32) -> Self {
        Self {
            terms: Terms::with_positions(),
            slop,
            ..Self::default()
        }
    }

    /// Adds a word that covers some places from `offset` on. An empty word stands for one that is
    /// in no document: these places may have anything, unless they are all of a word that covers
    /// several.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add(&mut self, term: &[u8], offset: u32, places: u32) -> Result<(), OutOfMemory> {
        if term.is_empty() {
            return (0..places).try_for_each(|shift| push(&mut self.gaps, offset + shift));
        }
        let start = self.bytes.len();
        append(&mut self.bytes, term)?;
        self.terms.add(term)?;
        push(&mut self.words, (offset, places, start, self.bytes.len()))
    }

    /// Puts the words in order.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn finish(&mut self) -> Result<(), OutOfMemory> {
        self.terms.finish();
        self.fill_gaps();
        let mut found = vec![];
        for &(offset, places, start, end) in &self.words {
            let Some(term) = self.terms.number(&self.bytes[start..end]) else {
                continue;
            };
            for shift in 0..places {
                let offset = offset.saturating_add(shift);
                if self.gaps.binary_search(&offset).is_err() {
                    push(&mut found, (offset, Alternative { term, shift }))?;
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        self.places.clear();
        for of_place in found.chunk_by(|a, b| a.0 == b.0) {
            let alternatives = of_place.iter().map(|(_, alternative)| *alternative);
            let place = Place {
                offset: of_place[0].0,
                alternatives: alternatives.collect(),
            };
            push(&mut self.places, place)?;
        }
        Ok(())
    }

    /// Removes the gaps that are all places of a word.
    fn fill_gaps(&mut self) {
        self.gaps.sort_unstable();
        self.gaps.dedup();
        let Self { gaps, words, .. } = self;
        let of_word = |&(offset, places, ..): &(u32, u32, usize, usize)| {
            let from = gaps.partition_point(|gap| *gap < offset);
            let end = offset.saturating_add(places);
            let to = gaps.partition_point(|gap| *gap < end);
            (places > 1 && to - from == places as usize).then_some(from..to)
        };
        let mut is_filled = vec![false; gaps.len()];
        for filled in words.iter().filter_map(of_word) {
            is_filled[filled].fill(true);
        }
        let mut is_filled = is_filled.into_iter();
        gaps.retain(|_| is_filled.next() == Some(false));
    }

    /// Returns the terms, by whose numbers places know them. They have positions, so that a query
    /// of them reads those of pending documents.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    pub fn slop(&self) -> u32 {
        self.slop
    }

    /// Returns the places in ascending order. There is none if no word is in any document.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Returns true if a document has the phrase. Its terms must have positions.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn matches(&self, document: &Terms) -> Result<bool, IndexError> {
        let terms = self.terms.iter().map(|(term, _)| document.positions(term));
        let of_terms = memory::collect(terms).map_err(IndexError::of_memory)?;
        self.matches_positions(|term, positions| {
            append(positions, of_terms[term]).map_err(IndexError::of_memory)
        })
    }

    /// Returns true if a document has the phrase. `f` appends the positions that a term, by its
    /// number, has in the document.
    ///
    /// # Errors
    /// Those of `f`, or memory runs out.
    pub fn matches_positions(
        &self,
        mut f: impl FnMut(usize, &mut Vec<u32>) -> Result<(), IndexError>,
    ) -> Result<bool, IndexError> {
        let (mut all, mut ends) = (vec![], vec![]);
        for place in &self.places {
            let start = all.len();
            for alternative in &place.alternatives {
                let from = all.len();
                f(alternative.term, &mut all)?;
                for position in &mut all[from..] {
                    *position = position.saturating_add(alternative.shift);
                }
            }
            if all.len() == start {
                return Ok(false);
            }
            if place.alternatives.len() > 1 {
                all[start..].sort_unstable();
            }
            push(&mut ends, all.len()).map_err(IndexError::of_memory)?;
        }
        let mut start = 0;
        let mut places = vec![];
        for (place, end) in self.places.iter().zip(ends) {
            let positions = PlacePositions {
                offset: place.offset,
                positions: &all[start..end],
            };
            push(&mut places, positions).map_err(IndexError::of_memory)?;
            start = end;
        }
        Ok(matches_phrase(&places, self.slop))
    }
}

#[cfg(test)]
#[path = "phrase_tests.rs"]
mod tests;
