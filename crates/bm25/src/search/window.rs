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
    cursor::TermCursor,
};
use crate::segment::{
    SegmentReader,
    layout::{BLOCK, DOCUMENTS_PER_PAGE},
    reader::DocumentWindow,
};

/// Number of documents of a window. Their sums fit into the first-level cache, and bounds of blocks
/// are tight.
pub const WINDOW: usize = 1792;
/// A window is within one page of documents.
const _: () = assert!(DOCUMENTS_PER_PAGE.is_multiple_of(WINDOW));
/// Number of windows that are searched first.
const FIRST_WINDOWS: usize = 8;

/// Memory that searches of several segments use in turn.
pub struct Windows {
    units: [u32; WINDOW],
    /// A bit for each document with units.
    touched: [u64; WINDOW / 64],
    page: Box<DocumentWindow>,
    page_number: Option<usize>,
    /// For each window the bound of each term, and their sums.
    bounds: Vec<u32>,
    totals: Vec<u32>,
    /// The terms of a window from the lowest bound on: bound, and place among the cursors.
    order: Vec<(u32, usize)>,
    /// Sums of the bounds up to each term of `order`.
    sums: Vec<u32>,
    /// Places of documents in the window that may be good enough.
    candidates: Vec<u16>,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            units: [0; WINDOW],
            touched: [0; WINDOW / 64],
            page: Box::default(),
            page_number: None,
            bounds: vec![],
            totals: vec![],
            order: vec![],
            sums: vec![],
            candidates: vec![],
        }
    }
}

/// A search of one segment.
pub struct SegmentSearch<'s, P> {
    pub pages: &'s P,
    pub segment: &'s SegmentReader,
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
    /// Offers all documents of a segment that may be among the best.
    pub fn search<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        cursors: &mut [TermCursor<'_>],
        best: &mut Best,
    ) -> Result<(), IndexError> {
        self.page_number = None;
        let count = (search.segment.documents() as usize).div_ceil(WINDOW);
        self.compute_bounds(count, cursors)?;
        let first = self.highest();
        for &number in &first {
            self.search_window(search, cursors, number, best)?;
        }
        for cursor in cursors.iter_mut() {
            cursor.restart();
        }
        for number in 0..count {
            let needed = best.needed(search.found((number * WINDOW) as u32));
            if self.totals[number] >= needed && first.binary_search(&number).is_err() {
                self.search_window(search, cursors, number, best)?;
            }
        }
        Ok(())
    }

    fn compute_bounds(
        &mut self,
        count: usize,
        cursors: &[TermCursor<'_>],
    ) -> Result<(), IndexError> {
        let terms = cursors.len();
        let make_room = |vec: &mut Vec<u32>, len: usize| {
            vec.clear();
            vec.make_room(len).map_err(IndexError::of_memory)?;
            vec.resize(len, 0);
            Ok(())
        };
        make_room(&mut self.bounds, count * terms)?;
        make_room(&mut self.totals, count)?;
        for (term, cursor) in cursors.iter().enumerate() {
            cursor.each_bound(|window, bound| {
                if let Some(known) = self.bounds.get_mut(window * terms + term) {
                    *known = bound.max(*known);
                }
            });
        }
        for (total, bounds) in self.totals.iter_mut().zip(self.bounds.chunks_exact(terms)) {
            *total = bounds
                .iter()
                .fold(0, |sum, bound| sum.saturating_add(*bound));
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
        cursors: &mut [TermCursor<'_>],
        number: usize,
        best: &mut Best,
    ) -> Result<(), IndexError> {
        let start = (number * WINDOW) as u32;
        let needed = best.needed(search.found(start));
        let essential = self.divide(number, cursors.len(), needed);
        if essential == cursors.len() {
            return Ok(());
        }
        self.read_page(search, start)?;
        if essential + 1 == cursors.len() {
            self.choose_from_one(search, cursors, start, needed)?;
        } else {
            self.add_essential(search, cursors, essential, start)?;
            self.choose(essential, needed);
        }
        self.look_up(search, cursors, essential, start, needed)?;
        let in_page = start as usize % DOCUMENTS_PER_PAGE;
        for place in self.candidates.drain(..) {
            let place = usize::from(place);
            let units = std::mem::take(&mut self.units[place]);
            if units >= needed && !self.page.is_dead(in_page + place) {
                let found = search.found(start + place as u32);
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

    fn read_page<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        start: u32,
    ) -> Result<(), IndexError> {
        let number = start as usize / DOCUMENTS_PER_PAGE;
        if self.page_number != Some(number) {
            search.pages.check_interrupts();
            search
                .segment
                .read_window(search.pages, number, &mut self.page)?;
            self.page_number = Some(number);
        }
        Ok(())
    }

    /// Chooses the documents of the only essential term that may be good enough with all others.
    fn choose_from_one<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        cursors: &mut [TermCursor<'_>],
        start: u32,
        needed: u32,
    ) -> Result<(), IndexError> {
        let in_page = start as usize % DOCUMENTS_PER_PAGE;
        let norms = &self.page.norms[in_page..in_page + WINDOW];
        let Some(((_, number), others)) = self.order.split_last() else {
            return Ok(());
        };
        let others = others
            .len()
            .checked_sub(1)
            .map_or(0, |last| self.sums[last]);
        let least = needed.saturating_sub(others);
        let cursor = &mut cursors[*number];
        let scores = cursor.scores;
        let (units, candidates) = (&mut self.units, &mut self.candidates);
        candidates.clear();
        let range = start..start + WINDOW as u32;
        cursor.each(search, range, least, |documents, frequencies| {
            for (document, frequency) in documents.iter().zip(frequencies) {
                let place = document.wrapping_sub(start) as usize % WINDOW;
                let added = scores.units(*frequency, norms[place]);
                if added >= least {
                    units[place] = added;
                    candidates.push(place as u16);
                }
            }
        })
    }

    /// Adds up the postings of the essential terms.
    fn add_essential<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        cursors: &mut [TermCursor<'_>],
        essential: usize,
        start: u32,
    ) -> Result<(), IndexError> {
        let in_page = start as usize % DOCUMENTS_PER_PAGE;
        let norms = &self.page.norms[in_page..in_page + WINDOW];
        let (units, touched) = (&mut self.units, &mut self.touched);
        let mut added = [0_u32; BLOCK];
        for &(bound, number) in &self.order[essential..] {
            if bound == 0 {
                continue;
            }
            let cursor = &mut cursors[number];
            let scores = cursor.scores;
            let range = start..start + WINDOW as u32;
            cursor.each(search, range, 0, |documents, frequencies| {
                for ((added, document), frequency) in
                    added.iter_mut().zip(documents).zip(frequencies)
                {
                    let place = document.wrapping_sub(start) as usize % WINDOW;
                    *added = scores.units(*frequency, norms[place]);
                }
                for (added, document) in added.iter().zip(documents) {
                    let place = document.wrapping_sub(start) as usize % WINDOW;
                    units[place] = units[place].saturating_add(*added);
                    touched[place / 64] |= 1 << (place % 64);
                }
            })?;
        }
        Ok(())
    }

    /// Chooses the documents that may be good enough with all other terms.
    fn choose(&mut self, essential: usize, needed: u32) {
        let others = essential.checked_sub(1).map_or(0, |last| self.sums[last]);
        self.candidates.clear();
        for (word, touched) in self.touched.iter_mut().enumerate() {
            let mut bits = std::mem::take(touched);
            while bits != 0 {
                let place = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if self.units[place].saturating_add(others) >= needed {
                    self.candidates.push(place as u16);
                } else {
                    self.units[place] = 0;
                }
            }
        }
    }

    /// Completes the sums of the candidates, and drops those that cannot be good enough.
    fn look_up<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        cursors: &mut [TermCursor<'_>],
        essential: usize,
        start: u32,
        needed: u32,
    ) -> Result<(), IndexError> {
        let in_page = start as usize % DOCUMENTS_PER_PAGE;
        for left in (0..essential).rev() {
            if self.candidates.is_empty() {
                return Ok(());
            }
            let (bound, number) = self.order[left];
            if bound == 0 {
                return Ok(()); // so is that of the others
            }
            let others = left.checked_sub(1).map_or(0, |last| self.sums[last]);
            let cursor = &mut cursors[number];
            let mut kept = 0;
            for i in 0..self.candidates.len() {
                let place = usize::from(self.candidates[i]);
                let units = &mut self.units[place];
                let missing = needed.saturating_sub(units.saturating_add(others));
                let frequency = cursor.frequency(search, start + place as u32, missing)?;
                if frequency > 0 {
                    let norm = self.page.norms[in_page + place];
                    *units = units.saturating_add(cursor.scores.units(frequency, norm));
                }
                if units.saturating_add(others) >= needed {
                    self.candidates[kept] = place as u16;
                    kept += 1;
                } else {
                    *units = 0;
                }
            }
            self.candidates.truncate(kept);
        }
        Ok(())
    }
}
