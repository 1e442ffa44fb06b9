//! Finds the best documents of a segment: block-max MaxScore, a window of documents at a time.
//!
//! Terms are divided again in each window. The *essential* ones are those without which no document
//! of the window can be good enough: the others together, at the most that their blocks of postings
//! allow, do not reach what is needed. All postings of the essential terms are added up. The other
//! terms are looked up only for documents that may still be good enough with them. (Turtle and
//! Flood 1995; Ding and Suel 2011 for bounds of blocks; Lucene's `MaxScoreBulkScorer` for windows.)
//!
//! The windows with the highest bounds are searched first. They are likely to have the best
//! documents, so that most of the others can be passed over afterwards.

use rag_pages::{IndexError, ReadPages, memory::Reserve};

use super::{
    best::{Best, Found, Hit},
    candidates::{CANDIDATES, Candidates},
    checked::SegmentCondition,
    cursor::TermCursor,
    lengths::Lengths,
    whole::WholeList,
};
use crate::{
    score::TermScores,
    segment::{
        SegmentReader,
        layout::DOCUMENTS_PER_PAGE,
        reader::{ListBlocks, PostingsList},
    },
};

/// Number of documents of a window. Their sums fit into the first-level cache, and bounds of blocks
/// are tight.
pub const WINDOW: usize = 1792;
/// A window is within one page of documents.
const _: () = assert!(DOCUMENTS_PER_PAGE.is_multiple_of(WINDOW));
/// All postings of a term are added, instead of looking up documents, if there are less than so
/// many for each document.
const DENSE: usize = 4;
/// Number of windows that are searched first.
const FIRST_WINDOWS: usize = 8;
/// A list of at most so many blocks is read as a whole before the search.
const WHOLE_BLOCKS: usize = 12;

/// Memory that searches of several segments use in turn.
pub struct Windows {
    units: [u32; WINDOW],
    /// A bit for each document with units.
    touched: [u64; WINDOW / 64],
    lengths: Lengths,
    /// For each window the bound of each term, and their sums.
    bounds: Vec<u32>,
    totals: Vec<u32>,
    /// The terms of a window from the lowest bound on: bound, and place among the cursors.
    order: Vec<(u32, usize)>,
    /// Sums of the bounds up to each term of `order`.
    sums: Vec<u32>,
    /// Places of documents in the window that may be good enough, the first `candidate_count`.
    candidates: [u16; CANDIDATES],
    candidate_count: usize,
    /// What the best document of a term gets in each window.
    best_units: Vec<u32>,
}

/// The postings of a term during a search.
enum TermList<'s> {
    Whole(WholeList),
    /// Blocks are read when they are needed.
    Blocks(TermCursor<'s>),
}

impl TermList<'_> {
    fn restart(&mut self) {
        match self {
            Self::Whole(list) => list.restart(),
            Self::Blocks(cursor) => cursor.restart(),
        }
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            units: [0; WINDOW],
            touched: [0; WINDOW / 64],
            lengths: Lengths::default(),
            bounds: vec![],
            totals: vec![],
            order: vec![],
            sums: vec![],
            candidates: [0; CANDIDATES],
            candidate_count: 0,
            best_units: vec![],
        }
    }
}

/// A search of one segment.
pub struct SegmentSearch<'s, P> {
    pub pages: &'s P,
    pub segment: &'s SegmentReader,
    /// Number of its documents that are deleted.
    pub dead: u32,
    /// The number of the segment in [`Found`].
    pub part: u32,
}

impl<P: ReadPages> SegmentSearch<'_, P> {
    fn found(&self, document: u32) -> Found {
        Found {
            part: self.part,
            document,
        }
    }
}

impl Windows {
    /// Offers all documents of a segment that may be among the best. `terms` are those of the query
    /// that the segment has, `condition` is what documents must satisfy.
    pub fn search<'t, P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        terms: impl Iterator<Item = (&'t PostingsList, TermScores<'t>)>,
        mut condition: Option<&mut SegmentCondition<'_>>,
        best: &mut Best,
    ) -> Result<(), IndexError> {
        self.lengths.restart();
        let mut lists = vec![];
        for (list, scores) in terms {
            let is_whole = match &list.blocks {
                ListBlocks::Union(_) => true,
                blocks => blocks.len() <= WHOLE_BLOCKS,
            };
            lists.push(if is_whole {
                let lengths = &mut self.lengths;
                TermList::Whole(WholeList::read(search, list, scores, lengths)?)
            } else {
                TermList::Blocks(TermCursor::new(list, scores).map_err(IndexError::of_memory)?)
            });
        }
        if lists.is_empty() {
            return Ok(());
        }
        let count = (search.segment.documents() as usize).div_ceil(WINDOW);
        self.compute_bounds(count, &lists)?;
        self.expect(search, &lists, best)?;
        let first = self.highest();
        for &number in &first {
            self.search_window(search, &mut lists, number, condition.as_deref_mut(), best)?;
        }
        for list in &mut lists {
            list.restart();
        }
        if let Some(condition) = &mut condition {
            condition.restart();
        }
        for number in 0..count {
            let needed = best.needed(search.found((number * WINDOW) as u32));
            if self.totals[number] >= needed && first.binary_search(&number).is_err() {
                self.search_window(search, &mut lists, number, condition.as_deref_mut(), best)?;
            }
        }
        Ok(())
    }

    fn compute_bounds(&mut self, count: usize, lists: &[TermList<'_>]) -> Result<(), IndexError> {
        let terms = lists.len();
        let make_room = |vec: &mut Vec<u32>, len: usize| {
            vec.clear();
            vec.make_room(len).map_err(IndexError::of_memory)?;
            vec.resize(len, 0);
            Ok(())
        };
        make_room(&mut self.bounds, count * terms)?;
        make_room(&mut self.totals, count)?;
        for (term, list) in lists.iter().enumerate() {
            let raise = |window: usize, bound: u32| {
                if let Some(known) = self.bounds.get_mut(window * terms + term) {
                    *known = bound.max(*known);
                }
            };
            match list {
                TermList::Whole(list) => list.each_bound(raise),
                TermList::Blocks(cursor) => cursor.each_bound(raise),
            }
        }
        for (total, bounds) in self.totals.iter_mut().zip(self.bounds.chunks_exact(terms)) {
            *total = bounds
                .iter()
                .fold(0, |sum, bound| sum.saturating_add(*bound));
        }
        Ok(())
    }

    /// Finds out what the best documents have at least. The bound of a list that was read as a
    /// whole is what a document of the window gets, and documents of several windows are different.
    fn expect<P>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        lists: &[TermList<'_>],
        best: &mut Best,
    ) -> Result<(), IndexError> {
        let Some(wanted) = best.wanted() else {
            return Ok(());
        };
        // so many are enough if all that are deleted are among them
        let place = wanted.saturating_add(search.dead as usize) - 1;
        if place >= self.totals.len() {
            return Ok(());
        }
        for (term, list) in lists.iter().enumerate() {
            if let TermList::Whole(_) = list {
                let units = &mut self.best_units;
                units.clear();
                units
                    .make_room(self.totals.len())
                    .map_err(IndexError::of_memory)?;
                units.extend(self.bounds.iter().skip(term).step_by(lists.len()));
                let (_, units, _) = units.select_nth_unstable_by(place, |a, b| b.cmp(a));
                best.expect(*units);
            }
        }
        Ok(())
    }

    /// Returns the windows with the highest bounds, in ascending order.
    fn highest(&self) -> Vec<usize> {
        let mut highest: Vec<usize> = vec![];
        for (number, total) in self.totals.iter().enumerate() {
            let worst = highest.last().map_or(0, |last| self.totals[*last]);
            if highest.len() == FIRST_WINDOWS && *total <= worst {
                continue;
            }
            highest.truncate(FIRST_WINDOWS - 1);
            let place = highest.partition_point(|known| self.totals[*known] >= *total);
            highest.insert(place, number);
        }
        highest.sort_unstable();
        highest
    }

    fn search_window<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        lists: &mut [TermList<'_>],
        number: usize,
        mut condition: Option<&mut SegmentCondition<'_>>,
        best: &mut Best,
    ) -> Result<(), IndexError> {
        let start = (number * WINDOW) as u32;
        let needed = best.needed(search.found(start));
        let essential = self.divide(number, lists.len(), needed);
        if essential == lists.len() {
            return Ok(());
        }
        search.pages.check_interrupts();
        if essential + 1 == lists.len() {
            self.choose_from_one(search, lists, start, needed)?;
        } else {
            self.add_essential(search, lists, essential, start)?;
            self.choose(essential, needed);
        }
        self.look_up(search, lists, essential, start, needed)?;
        for place in &self.candidates[..self.candidate_count] {
            let place = usize::from(*place);
            let units = std::mem::take(&mut self.units[place]);
            let document = start + place as u32;
            if units >= needed && !self.lengths.is_dead(search, document)? {
                let found = search.found(document);
                if let Some(condition) = &mut condition
                    && (units < best.needed(found) || !condition.holds(search, document)?)
                {
                    continue;
                }
                best.offer(Hit { units, found })
                    .map_err(IndexError::of_memory)?;
            }
        }
        Ok(())
    }

    /// Orders the terms by their bounds in a window. Returns the number of those that are not
    /// essential.
    fn divide(&mut self, number: usize, terms: usize, needed: u32) -> usize {
        let bounds = &self.bounds[number * terms..(number + 1) * terms];
        self.order.clear();
        self.order.extend(bounds.iter().copied().zip(0..));
        self.order.sort_unstable();
        self.sums.clear();
        let mut sum = 0_u32;
        for (bound, _) in &self.order {
            sum = sum.saturating_add(*bound);
            self.sums.push(sum);
        }
        self.sums.partition_point(|sum| *sum < needed)
    }

    /// Chooses the documents of the only essential term that may be good enough with all others.
    fn choose_from_one<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        lists: &mut [TermList<'_>],
        start: u32,
        needed: u32,
    ) -> Result<(), IndexError> {
        self.candidate_count = 0;
        let Some((_, number)) = self.order.last() else {
            return Ok(());
        };
        let least = needed.saturating_sub(self.bound_of_first(self.order.len() - 1));
        let (units, candidates) = (&mut self.units, &mut self.candidates);
        let mut count = 0;
        let mut choose = |documents: &[u32], added: &[u32]| {
            for (document, added) in documents.iter().zip(added) {
                let place = place_in::<WINDOW>(*document, start);
                let is_enough = *added >= least;
                units[place] = if is_enough { *added } else { 0 };
                candidates[count % CANDIDATES] = place as u16;
                count += usize::from(is_enough);
            }
        };
        match &mut lists[*number] {
            TermList::Whole(list) => {
                let (documents, units) = list.within(start..start + WINDOW as u32);
                choose(documents, units);
            }
            TermList::Blocks(cursor) => {
                let norms = norms_of_window(&mut self.lengths, search, start)?;
                cursor.each_units(search, start, norms, least, choose)?;
            }
        }
        // a corrupted list may have a document twice
        self.candidate_count = count.min(WINDOW);
        Ok(())
    }

    /// Adds up the postings of the essential terms.
    fn add_essential<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        lists: &mut [TermList<'_>],
        essential: usize,
        start: u32,
    ) -> Result<(), IndexError> {
        let norms = norms_of_window(&mut self.lengths, search, start)?;
        let (units, touched) = (&mut self.units, &mut self.touched);
        let mut add = |documents: &[u32], added: &[u32]| {
            for (added, document) in added.iter().zip(documents) {
                let place = place_in::<WINDOW>(*document, start);
                units[place] = units[place].saturating_add(*added);
                touched[place / 64] |= 1 << (place % 64);
            }
        };
        for &(bound, number) in &self.order[essential..] {
            if bound == 0 {
                continue;
            }
            match &mut lists[number] {
                TermList::Whole(list) => {
                    let (documents, units) = list.within(start..start + WINDOW as u32);
                    add(documents, units);
                }
                TermList::Blocks(cursor) => {
                    cursor.each_units(search, start, norms, 0, &mut add)?;
                }
            }
        }
        Ok(())
    }

    /// Returns what the first terms of `order` add at most.
    fn bound_of_first(&self, terms: usize) -> u32 {
        terms.checked_sub(1).map_or(0, |last| self.sums[last])
    }

    /// Chooses the documents that may be good enough with all other terms.
    fn choose(&mut self, essential: usize, needed: u32) {
        let least = needed.saturating_sub(self.bound_of_first(essential));
        let mut count = 0;
        for (word, touched) in self.touched.iter_mut().enumerate() {
            let mut bits = std::mem::take(touched);
            while bits != 0 {
                let place = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                // Half of them are good enough, so a branch would often be predicted wrong.
                let units = &mut self.units[place];
                let is_enough = *units >= least;
                *units = if is_enough { *units } else { 0 };
                self.candidates[count % CANDIDATES] = place as u16;
                count += usize::from(is_enough);
            }
        }
        self.candidate_count = count;
    }

    /// Completes the sums of the candidates, and drops those that cannot be good enough.
    fn look_up<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        lists: &mut [TermList<'_>],
        essential: usize,
        start: u32,
        needed: u32,
    ) -> Result<(), IndexError> {
        for left in (0..essential).rev() {
            if self.candidate_count == 0 {
                return Ok(());
            }
            let mut candidates = Candidates {
                units: &mut self.units,
                places: &mut self.candidates,
                count: &mut self.candidate_count,
                start,
            };
            let (bound, number) = self.order[left];
            if bound == 0 {
                return Ok(()); // so is that of the others
            }
            let others = left.checked_sub(1).map_or(0, |last| self.sums[last]);
            let least = needed.saturating_sub(others);
            match &mut lists[number] {
                TermList::Whole(list) => {
                    candidates.add(least, |document, _, _| Ok(list.units(document)))
                }
                TermList::Blocks(cursor) => {
                    let norms = norms_of_window(&mut self.lengths, search, start)?;
                    let scores = cursor.scores;
                    let in_window = cursor.documents() / self.totals.len();
                    if in_window < DENSE * *candidates.count {
                        cursor.each_units(search, start, norms, 0, |documents, added| {
                            candidates.add_all(documents, added);
                        })?;
                        candidates.keep(least)?;
                        continue;
                    }
                    candidates.add(least, |document, place, missing| {
                        let frequency = cursor.frequency(search, document, missing)?;
                        Ok(match frequency {
                            0 => 0,
                            _ => scores.units(frequency, norms[place]),
                        })
                    })
                }
            }?;
        }
        Ok(())
    }
}

/// Returns the place of a document among `COUNT` documents from `start` on. Those of a corrupted
/// list may be outside.
#[inline]
pub fn place_in<const COUNT: usize>(document: u32, start: u32) -> usize {
    (document.wrapping_sub(start) as usize).min(COUNT - 1)
}

/// Returns the lengths of the documents of a window.
#[inline]
pub fn norms_of_window<'l, P: ReadPages>(
    lengths: &'l mut Lengths,
    search: &'l SegmentSearch<'_, P>,
    start: u32,
) -> Result<&'l [u8; WINDOW], IndexError> {
    let page = lengths.of_page(search, start as usize / DOCUMENTS_PER_PAGE)?;
    Ok(&page.as_chunks().0[start as usize % DOCUMENTS_PER_PAGE / WINDOW])
}
