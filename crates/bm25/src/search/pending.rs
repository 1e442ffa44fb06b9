//! The pending documents that a query is about.

use std::{cell::Cell, collections::BTreeSet, ops::Range};

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{self, OutOfMemory, append, push},
};

use super::best::{Best, Found, Hit};
use crate::{
    meta::Meta,
    norm,
    pending::{self, Record},
    query::{Condition, NumberedPhrase, Pattern, PatternMatcher, QueryRef, count_of, stored_count},
    score::{Scorer, Statistics},
};

/// The pending documents that have a term of a query.
#[derive(Default)]
pub struct PendingMatches {
    documents: Vec<(Tid, u8)>,
    /// Number of a document, number of a term or pattern, and how often it occurs.
    postings: Vec<(u32, u32, u32)>,
    /// Number of a document, number of a term, and which of the positions it has there. A long
    /// document may have several parts of them. Only known for queries that need them.
    positions_of: Vec<(u32, u32, usize, usize)>,
    positions: Vec<u32>,
    has_positions: bool,
}

/// The patterns of a query that are no terms, during one pass over the records.
struct RecordPatterns<'q> {
    /// With their numbers.
    matchers: Vec<(usize, PatternMatcher<'q>)>,
    /// Documents of several records that have a pattern.
    counted: BTreeSet<(Tid, usize)>,
    /// Of one record: for each pattern, its frequency that can be added up.
    found: Vec<u32>,
}

impl<'q> RecordPatterns<'q> {
    fn of(query: QueryRef<'q>) -> Self {
        let patterns = (query.terms.len()..).zip(query.patterns);
        let matchers = patterns
            .filter(|(_, counted)| !matches!(counted.pattern, Pattern::Exact(_)))
            .map(|(number, counted)| (number, PatternMatcher::new(&counted.pattern)));
        let matchers: Vec<_> = matchers.collect();
        Self {
            found: vec![0; matchers.len()],
            matchers,
            counted: BTreeSet::new(),
        }
    }

    /// Finds the patterns in a record, and counts its document in the statistics.
    fn find(&mut self, record: &Record<'_>, has_parts: bool, statistics: &mut Statistics) {
        if self.matchers.is_empty() {
            return;
        }
        self.found.fill(0);
        for (term, frequency) in record.terms() {
            for ((_, matcher), found) in self.matchers.iter_mut().zip(&mut self.found) {
                if matcher.matches(term, 0) {
                    *found = found.saturating_add(count_of(frequency, has_parts));
                }
            }
        }
        let tid = record.tid();
        let is_alone = !record.continues() && !record.is_continuation();
        for ((number, _), found) in self.matchers.iter().zip(&self.found) {
            if !is_alone && !record.is_continuation() {
                self.counted.remove(&(tid, *number));
            }
            if *found > 0 && (is_alone || self.counted.insert((tid, *number))) {
                statistics.frequencies[*number] += 1;
            }
        }
    }

    /// Returns the patterns that the record has.
    fn found(&self) -> impl Iterator<Item = (usize, u32)> {
        let all = self.matchers.iter().zip(&self.found);
        all.filter(|(_, found)| **found > 0)
            .map(|((number, _), found)| (*number, *found))
    }
}

impl PendingMatches {
    /// Reads the pending documents, and adds them to the statistics.
    pub fn read(
        pages: &impl ReadPages,
        meta: &Meta,
        query: QueryRef<'_>,
        statistics: &mut Statistics,
    ) -> Result<Self, IndexError> {
        let mut matches = Self {
            has_positions: meta.has_positions,
            ..Self::default()
        };
        let needs_positions = query.needs_positions();
        let exact = (query.terms.len()..).zip(query.patterns);
        let exact = exact.filter_map(|(number, counted)| match &counted.pattern {
            Pattern::Exact(term) => Some((number, term.as_slice())),
            _ => None,
        });
        let terms: Vec<_> = (query.terms.iter().map(|(term, _)| term).enumerate())
            .chain(exact)
            .map(|(number, term)| (number, pending::hash(term), term))
            .collect();
        let has_parts = meta.parameters.has_parts;
        let mut patterns = RecordPatterns::of(query);
        // as `postings`, with frequencies that can be added up
        let mut parts: Vec<(u32, u32, u32)> = vec![];
        for list in meta.lists() {
            pending::each_record(pages, list, &mut |record| {
                if !record.is_continuation() {
                    statistics.documents += 1;
                    statistics.length += u64::from(norm::decode(record.norm()));
                }
                let mut document = None;
                patterns.find(record, has_parts, statistics);
                for (number, found) in patterns.found() {
                    if record.is_dead() {
                        break;
                    }
                    let document = match document {
                        Some(document) => document,
                        None => *document.insert(matches.number_of(record)?),
                    };
                    push(&mut parts, (document, number as u32, found))
                        .map_err(IndexError::of_memory)?;
                }
                for (number, hash, term) in &terms {
                    let frequency = record.find(*hash, term);
                    statistics.frequencies[*number] += u64::from(frequency.is_some());
                    if record.is_dead() {
                        continue;
                    }
                    let start = matches.positions.len();
                    if needs_positions {
                        let found = &mut matches.positions;
                        let read = record.find_positions(*hash, term, found);
                        read.map_err(IndexError::of_memory)?;
                    }
                    let end = matches.positions.len();
                    if frequency.is_none() && start == end {
                        continue;
                    }
                    let document = match document {
                        Some(document) => document,
                        None => *document.insert(matches.number_of(record)?),
                    };
                    matches
                        .add(document, *number as u32, frequency, start..end)
                        .map_err(IndexError::of_memory)?;
                }
                Ok(())
            })?;
        }
        parts.sort_unstable();
        for of in parts.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let sum = of
                .iter()
                .fold(0_u32, |sum, part| sum.saturating_add(part.2));
            let posting = (of[0].0, of[0].1, stored_count(sum, has_parts));
            push(&mut matches.postings, posting).map_err(IndexError::of_memory)?;
        }
        matches.positions_of.sort_unstable();
        Ok(matches)
    }

    /// Adds a term of a document, whose frequency another record may have.
    fn add(
        &mut self,
        document: u32,
        term: u32,
        frequency: Option<u32>,
        positions: Range<usize>,
    ) -> Result<(), OutOfMemory> {
        if let Some(frequency) = frequency {
            push(&mut self.postings, (document, term, frequency))?;
        }
        if positions.is_empty() {
            return Ok(());
        }
        let of_term = (document, term, positions.start, positions.end);
        push(&mut self.positions_of, of_term)
    }

    /// Appends the positions of a term in a document, in ascending order: none if the index has no
    /// positions, or if the query does not need them.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn positions(
        &self,
        document: u32,
        term: usize,
        found: &mut Vec<u32>,
    ) -> Result<(), IndexError> {
        let wanted = (document, term as u32);
        let from = self
            .positions_of
            .partition_point(|of| (of.0, of.1) < wanted);
        let of_term = self.positions_of[from..].iter();
        of_term
            .take_while(|of| (of.0, of.1) == wanted)
            .try_for_each(|(.., start, end)| append(found, &self.positions[*start..*end]))
            .map_err(IndexError::of_memory)
    }

    /// Returns the number of a record's document. A document may have several records.
    fn number_of(&mut self, record: &Record<'_>) -> Result<u32, IndexError> {
        let tid = record.tid();
        if record.is_continuation() {
            let known = self.documents.iter().rposition(|(known, _)| *known == tid);
            if let Some(known) = known {
                return Ok(known as u32);
            }
        }
        push(&mut self.documents, (tid, record.norm())).map_err(IndexError::of_memory)?;
        Ok(self.documents.len() as u32 - 1)
    }

    pub fn row(&self, document: u32) -> Tid {
        self.documents[document as usize].0
    }

    /// Returns the numbers of the terms that a row has.
    pub fn terms_of(&self, row: Tid) -> impl Iterator<Item = u32> {
        let of_row = move |(document, _, _): &&(u32, u32, u32)| self.row(*document) == row;
        self.postings
            .iter()
            .filter(of_row)
            .map(|(_, term, _)| *term)
    }

    /// Returns the units of each document, 0 if it does not match.
    pub fn units(&self, pages: &impl ReadPages, scorer: &Scorer) -> Result<Vec<u32>, IndexError> {
        let mut units: Vec<u32> =
            memory::filled(self.documents.len(), 0).map_err(IndexError::of_memory)?;
        for (document, number, frequency) in &self.postings {
            let place = *document as usize;
            let (number, norm) = (*number as usize, self.documents[place].1);
            if scorer.counts(number) {
                let added = scorer.term(number).units(*frequency, norm);
                units[place] = units[place].saturating_add(added);
            }
        }
        if let Some(condition) = scorer.condition() {
            let holds = self.holds(pages, condition)?;
            for (units, holds) in units.iter_mut().zip(holds) {
                *units = if holds { *units } else { 0 };
            }
        }
        Ok(units)
    }

    /// Returns which documents may satisfy a condition.
    pub fn holds(
        &self,
        pages: &impl ReadPages,
        condition: &Condition,
    ) -> Result<Vec<bool>, IndexError> {
        let mut found = vec![];
        for (document, number, _) in &self.postings {
            push(&mut found, (*document, *number)).map_err(IndexError::of_memory)?;
        }
        found.sort_unstable();
        let mut holds = vec![];
        for document in 0..self.documents.len() as u32 {
            let has = |number: u32| found.binary_search(&(document, number)).is_ok();
            let is_held = match self.has_positions {
                true => self.certainly_holds(pages, document, condition, &has)?,
                false => condition.may_hold(&has),
            };
            push(&mut holds, is_held).map_err(IndexError::of_memory)?;
        }
        Ok(holds)
    }

    /// Returns true if a document, whose positions are known, satisfies a condition.
    fn certainly_holds(
        &self,
        pages: &impl ReadPages,
        document: u32,
        condition: &Condition,
        has: &dyn Fn(u32) -> bool,
    ) -> Result<bool, IndexError> {
        let failure = Cell::new(None);
        let has_phrase = |numbered: &NumberedPhrase| {
            let positions = |term: usize, positions: &mut Vec<u32>| {
                self.positions(document, numbered.numbers[term] as usize, positions)
            };
            let check = || pages.check_interrupts();
            let found = numbered.phrase.matches_positions(positions, check);
            found.unwrap_or_else(|error| {
                failure.set(Some(error));
                false
            })
        };
        let holds = condition.holds(has, &has_phrase);
        failure.into_inner().map_or(Ok(holds), Err)
    }

    /// Returns the rows of all documents.
    pub fn rows(&self) -> impl Iterator<Item = Tid> {
        self.documents.iter().map(|(row, _)| *row)
    }

    /// Offers all documents that match, and for which `is_offered` returns true.
    pub fn offer(
        &self,
        pages: &impl ReadPages,
        scorer: &Scorer,
        is_offered: impl Fn(u32) -> bool,
        best: &mut Best,
    ) -> Result<(), IndexError> {
        for (document, units) in (0..).zip(self.units(pages, scorer)?) {
            if units == 0 || !is_offered(document) {
                continue;
            }
            let found = Found { part: 0, document };
            best.offer(Hit { units, found })
                .map_err(IndexError::of_memory)?;
        }
        Ok(())
    }

    /// Returns the rows that match with their units.
    pub fn scored(
        &self,
        pages: &impl ReadPages,
        scorer: &Scorer,
    ) -> Result<impl Iterator<Item = (Tid, u32)>, IndexError> {
        let all = self.rows().zip(self.units(pages, scorer)?);
        Ok(all.filter(|(_, units)| *units > 0))
    }
}
