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

#[path = "phrase_found.rs"]
mod found;

use std::{borrow::Cow, ops::ControlFlow};

use rag_pages::{
    IndexError,
    memory::{self, OutOfMemory, append, push},
};

use crate::terms::Terms;

/// Longer phrases are not meant to be searched for.
pub const MAX_PLACES: usize = 1000;
/// A longer phrase has no slop. Words that repeat could be at so many positions that it takes hours
/// to try them.
const MAX_NEAR: usize = 32;
/// Two words of a longer phrase with a slop may be at one position, for the same reason.
const MAX_DISTINCT: usize = 8;
/// The number of positions that are tried between two checks for interrupts.
const CHECKED: usize = 256;

/// The positions that a word of a place has in a document.
#[derive(Debug, Clone)]
struct WordPositions<'a> {
    /// Where the word is, if the phrase begins at position 0.
    offset: i64,
    /// In ascending order.
    positions: Cow<'a, [u32]>,
}

impl WordPositions<'_> {
    /// Returns how far a position is moved.
    fn moved(&self, number: usize) -> Option<i64> {
        let position = self.positions.get(number)?;
        Some(i64::from(*position) - self.offset)
    }

    fn has(&self, moved: i64) -> bool {
        let position = u32::try_from(moved + self.offset);
        position.is_ok_and(|position| self.positions.binary_search(&position).is_ok())
    }
}

/// The offset of a place in the phrase, and the words that may be there.
type PlaceWords<'p, 'a> = (u32, &'p [WordPositions<'a>]);

/// Calls `f` with each number of positions by which a word of each place is moved. A number may
/// come several times.
fn each_exact(
    places: &[PlaceWords<'_, '_>],
    check: impl Fn(),
    f: impl FnMut(i64) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let positions = |words: &[WordPositions<'_>]| -> usize {
        words.iter().map(|word| word.positions.len()).sum()
    };
    let rarest = places.iter().min_by_key(|(_, words)| positions(words));
    let words = rarest.into_iter().flat_map(|(_, words)| words.iter());
    let moved = words.flat_map(|word| (0..).map_while(|number| word.moved(number)));
    let checked = moved.enumerate().map(|(tried, moved)| {
        if tried.is_multiple_of(CHECKED) {
            check();
        }
        moved
    });
    let has = |(_, words): &PlaceWords<'_, '_>, moved| words.iter().any(|word| word.has(moved));
    let mut found = checked.filter(|moved| places.iter().all(|place| has(place, *moved)));
    found.try_for_each(f)
}

/// Looks for words that are moved by nearly the same.
struct Sloppy<'a> {
    places: &'a [WordPositions<'a>],
    slop: i64,
    /// For each place, the first position that is not moved by less than the least so far.
    first: Vec<usize>,
}

impl<'a> Sloppy<'a> {
    fn new(places: &'a [WordPositions<'a>], slop: u32) -> Self {
        Self {
            places,
            slop: i64::from(slop),
            first: vec![0; places.len()],
        }
    }

    fn any(&mut self, check: impl Fn()) -> bool {
        let mut is_found = false;
        self.each(check, |_, _| {
            is_found = true;
            ControlFlow::Break(())
        });
        is_found
    }

    /// Tries the words of each place as the one that is moved least. Calls `f` where the others are
    /// near enough, with the first of each place and how far words may be moved.
    fn each(&mut self, check: impl Fn(), mut f: impl FnMut(&[usize], i64) -> ControlFlow<()>) {
        if self.places.is_empty() {
            return;
        }
        for tried in 0_usize.. {
            if tried.is_multiple_of(CHECKED) {
                check();
            }
            let (mut least, mut most) = ((i64::MAX, 0), i64::MIN);
            for (number, place) in self.places.iter().enumerate() {
                let Some(moved) = place.moved(self.first[number]) else {
                    return;
                };
                least = least.min((moved, number));
                most = most.max(moved);
            }
            let (least, number) = least;
            let is_near = most - least <= self.slop && self.has_distinct(least + self.slop);
            if is_near && f(&self.first, least + self.slop).is_break() {
                return;
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

    /// Returns true if a document has the phrase. Its terms must have positions. `check` is called
    /// now and then: it checks for interrupts.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn matches(&self, document: &Terms, check: impl Fn()) -> Result<bool, IndexError> {
        let terms = self.terms.iter().map(|(term, _)| document.positions(term));
        let of_terms = memory::collect(terms).map_err(IndexError::of_memory)?;
        let append = |term: usize, positions: &mut Vec<u32>| {
            append(positions, of_terms[term]).map_err(IndexError::of_memory)
        };
        self.matches_positions(append, check)
    }

    /// Returns true if a document has the phrase. `f` appends the positions that a term, by its
    /// number, has in the document. See [`matches`](Self::matches) for `check`.
    ///
    /// # Errors
    /// Those of `f`, or memory runs out.
    pub fn matches_positions(
        &self,
        mut f: impl FnMut(usize, &mut Vec<u32>) -> Result<(), IndexError>,
        check: impl Fn(),
    ) -> Result<bool, IndexError> {
        // a term that repeats is read once
        let mut of_terms = memory::filled(self.terms.len(), None).map_err(IndexError::of_memory)?;
        let mut all = vec![];
        for place in &self.places {
            let mut is_there = false;
            for alternative in &place.alternatives {
                let (start, end) = match of_terms[alternative.term] {
                    Some(known) => known,
                    None => {
                        let start = all.len();
                        f(alternative.term, &mut all)?;
                        (start, all.len())
                    }
                };
                of_terms[alternative.term] = Some((start, end));
                is_there |= start < end;
            }
            if !is_there {
                return Ok(false);
            }
        }
        let positions = |term: usize| {
            let (start, end) = of_terms[term].unwrap_or_default();
            &all[start..end]
        };
        self.with_places(positions, |places| has_places(places, self.slop, check))
            .map_err(IndexError::of_memory)
    }

    /// Calls `f` with the words of all places. `positions` returns those of a term, by its number.
    fn with_places<'a, R>(
        &self,
        positions: impl Fn(usize) -> &'a [u32],
        f: impl FnOnce(&[PlaceWords<'_, 'a>]) -> Result<R, OutOfMemory>,
    ) -> Result<R, OutOfMemory> {
        let (mut words, mut ends) = (vec![], vec![]);
        for place in &self.places {
            for alternative in &place.alternatives {
                let word = WordPositions {
                    offset: i64::from(place.offset) - i64::from(alternative.shift),
                    positions: Cow::Borrowed(positions(alternative.term)),
                };
                push(&mut words, word)?;
            }
            push(&mut ends, words.len())?;
        }
        let mut start = 0;
        let places = self.places.iter().zip(ends).map(|(place, end)| {
            let from = std::mem::replace(&mut start, end);
            (place.offset, &words[from..end])
        });
        f(&memory::collect(places)?)
    }
}

/// Returns true if a document has words of places, which have these offsets.
fn has_places(
    places: &[PlaceWords<'_, '_>],
    slop: u32,
    check: impl Fn(),
) -> Result<bool, OutOfMemory> {
    if slop == 0 || places.len() > MAX_NEAR {
        return Ok(each_exact(places, check, |_| ControlFlow::Break(())).is_break());
    }
    Ok(Sloppy::new(&merged_places(places)?, slop).any(check))
}

/// Returns the words of each place as one word.
fn merged_places<'a>(places: &[PlaceWords<'_, 'a>]) -> Result<Vec<WordPositions<'a>>, OutOfMemory> {
    let merged = places.iter().map(|(offset, words)| merged(words, *offset));
    merged.collect()
}

/// Returns the words of a place as one word, which is at the offset of the place.
fn merged<'a>(words: &[WordPositions<'a>], offset: u32) -> Result<WordPositions<'a>, OutOfMemory> {
    let offset = i64::from(offset);
    if let [word] = words
        && word.offset == offset
    {
        return Ok(word.clone());
    }
    let mut positions = vec![];
    for word in words {
        let shift = offset - word.offset;
        for position in word.positions.iter() {
            let position = u32::try_from(i64::from(*position) + shift).unwrap_or(u32::MAX);
            push(&mut positions, position)?;
        }
    }
    positions.sort_unstable();
    Ok(WordPositions {
        offset,
        positions: positions.into(),
    })
}

#[cfg(test)]
#[path = "phrase_tests.rs"]
mod tests;
