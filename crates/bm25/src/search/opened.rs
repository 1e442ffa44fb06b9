//! The parts of an index that a query reads, as at one moment.

use std::{
    cell::{Cell, RefCell},
    ops::Range,
    rc::Rc,
};

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{self, OutOfMemory, append, push},
};

use super::best::{Best, Found, Hit};
use crate::{
    meta::Meta,
    norm, pending,
    score::{Parameters, Scorer, Statistics},
    segment::{SegmentReader, reader::PostingsList},
    terms::Terms,
};

/// The opened segments of an index, which a process keeps from one query to the next. A segment
/// that is no longer part of the index is forgotten.
#[derive(Default)]
pub struct SegmentCache {
    /// What identifies the contents of the file: see [`Meta`].
    identity: Cell<u64>,
    segments: RefCell<Vec<(u64, Rc<SegmentReader>)>>,
    /// What the last query found in the dictionaries: a search reads it, and then the scores of
    /// other rows.
    last: RefCell<Option<LastQuery>>,
}

/// The postings of a query's terms in some segments.
struct LastQuery {
    terms: Terms,
    lists: Vec<(u64, Rc<Lists>)>,
}

/// The number of each term in the query, and its postings.
type Lists = Vec<(usize, PostingsList)>;

/// The maximum number of blocks of all lists that are kept.
const MAX_KEPT_BLOCKS: usize = 1 << 14;

impl SegmentCache {
    /// Opens the segments of an index.
    fn open(
        &self,
        pages: &impl ReadPages,
        meta: &Meta,
    ) -> Result<Vec<Rc<SegmentReader>>, IndexError> {
        let mut known = self.segments.take();
        if self.identity.replace(meta.identity) != meta.identity {
            known.clear();
            self.last.take();
        }
        let mut opened = vec![];
        for entry in &meta.segments {
            let found = known.iter().find(|(id, _)| *id == entry.id);
            let reader = match found {
                Some((_, reader)) => Rc::clone(reader),
                None => Rc::new(SegmentReader::open(pages, entry)?),
            };
            opened.push((entry.id, reader));
        }
        let readers = opened.iter().map(|(_, reader)| Rc::clone(reader)).collect();
        self.segments.replace(opened);
        Ok(readers)
    }

    fn keep(&self, query: &Terms, lists: Vec<(u64, Rc<Lists>)>) {
        let of_segments = lists.iter().flat_map(|(_, lists)| lists.iter());
        let blocks: usize = of_segments.map(|(_, list)| list.blocks.len()).sum();
        let last = (blocks <= MAX_KEPT_BLOCKS).then(|| LastQuery {
            terms: query.clone(),
            lists,
        });
        self.last.replace(last);
    }
}

/// What a query reads of an index.
pub struct OpenedQuery {
    pub parameters: Parameters,
    pub statistics: Statistics,
    pub pending: PendingMatches,
    pub segments: Vec<OpenedSegment>,
}

/// A segment, and those of the query's terms that it has.
pub struct OpenedSegment {
    pub reader: Rc<SegmentReader>,
    /// Number of documents that are deleted.
    pub dead: u32,
    pub lists: Rc<Lists>,
}

impl OpenedQuery {
    pub fn read(
        pages: &impl ReadPages,
        cache: &SegmentCache,
        query: &Terms,
    ) -> Result<Self, IndexError> {
        let meta = Meta::read(pages)?;
        let mut statistics = Statistics {
            documents: 0,
            length: 0,
            frequencies: memory::filled(query.len(), 0).map_err(IndexError::of_memory)?,
        };
        let pending = PendingMatches::read(pages, &meta, query, &mut statistics)?;
        let mut segments = vec![];
        let readers = cache.open(pages, &meta)?;
        let last = cache.last.take().filter(|last| last.terms == *query);
        let mut found = vec![];
        for (entry, reader) in meta.segments.iter().zip(readers) {
            pages.check_interrupts();
            statistics.documents += u64::from(reader.documents());
            statistics.length += reader.total_length();
            let known = last.iter().flat_map(|last| &last.lists);
            let known = known.into_iter().find(|(id, _)| *id == entry.id);
            let lists = match known {
                Some((_, lists)) => Rc::clone(lists),
                None => Rc::new(find_lists(pages, &reader, query)?),
            };
            for (number, list) in lists.iter() {
                statistics.frequencies[*number] += u64::from(list.documents);
            }
            found.push((entry.id, Rc::clone(&lists)));
            segments.push(OpenedSegment {
                reader,
                dead: entry.dead,
                lists,
            });
        }
        cache.keep(query, found);
        Ok(Self {
            parameters: meta.parameters,
            statistics,
            pending,
            segments,
        })
    }
}

fn find_lists(
    pages: &impl ReadPages,
    reader: &SegmentReader,
    query: &Terms,
) -> Result<Lists, IndexError> {
    let mut lists = vec![];
    for (number, (term, _)) in query.iter().enumerate() {
        if let Some(list) = reader.find(pages, term)? {
            push(&mut lists, (number, list)).map_err(IndexError::of_memory)?;
        }
    }
    Ok(lists)
}

/// The pending documents that match a query.
#[derive(Default)]
pub struct PendingMatches {
    documents: Vec<(Tid, u8)>,
    /// Number of a document, number of a term, and how often it occurs.
    postings: Vec<(u32, u32, u32)>,
    /// Number of a document, number of a term, and which of the positions it has there. A long
    /// document may have several parts of them. Only known for queries whose terms have positions.
    positions_of: Vec<(u32, u32, usize, usize)>,
    positions: Vec<u32>,
}

impl PendingMatches {
    /// Reads the pending documents, and adds them to the statistics.
    fn read(
        pages: &impl ReadPages,
        meta: &Meta,
        query: &Terms,
        statistics: &mut Statistics,
    ) -> Result<Self, IndexError> {
        let mut matches = Self::default();
        let terms: Vec<_> = query
            .iter()
            .map(|(term, _)| (pending::hash(term), term))
            .collect();
        for list in meta.lists() {
            pending::each_record(pages, list, &mut |record| {
                if !record.is_continuation() {
                    statistics.documents += 1;
                    statistics.length += u64::from(norm::decode(record.norm()));
                }
                let mut document = None;
                for (number, (hash, term)) in terms.iter().enumerate() {
                    let frequency = record.find(*hash, term);
                    statistics.frequencies[number] += u64::from(frequency.is_some());
                    if record.is_dead() {
                        continue;
                    }
                    let start = matches.positions.len();
                    if query.has_positions() {
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
                    let number = number as u32;
                    matches
                        .add(document, number, frequency, start..end)
                        .map_err(IndexError::of_memory)?;
                }
                Ok(())
            })?;
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
    /// positions, or if the query's terms have none.
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
    fn number_of(&mut self, record: &pending::Record<'_>) -> Result<u32, IndexError> {
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

    fn units(&self, scorer: &Scorer) -> Result<Vec<u32>, IndexError> {
        let mut units = memory::filled(self.documents.len(), 0).map_err(IndexError::of_memory)?;
        for posting in &self.postings {
            let place = posting.0 as usize;
            units[place] = self.add_units(units[place], posting, scorer);
        }
        Ok(units)
    }

    fn add_units(&self, units: u32, posting: &(u32, u32, u32), scorer: &Scorer) -> u32 {
        let (document, term, frequency) = *posting;
        let norm = self.documents[document as usize].1;
        units.saturating_add(scorer.term(term as usize).units(frequency, norm))
    }

    /// Returns the rows of all documents.
    pub fn rows(&self) -> impl Iterator<Item = Tid> {
        self.documents.iter().map(|(row, _)| *row)
    }

    /// Offers all documents for which `is_offered` returns true.
    pub fn offer(
        &self,
        scorer: &Scorer,
        is_offered: impl Fn(u32) -> bool,
        best: &mut Best,
    ) -> Result<(), IndexError> {
        for (document, units) in (0..).zip(self.units(scorer)?) {
            if !is_offered(document) {
                continue;
            }
            let found = Found { part: 0, document };
            best.offer(Hit { units, found })
                .map_err(IndexError::of_memory)?;
        }
        Ok(())
    }

    /// Returns all rows with their units.
    pub fn scored(&self, scorer: &Scorer) -> Result<impl Iterator<Item = (Tid, u32)>, IndexError> {
        Ok(self.rows().zip(self.units(scorer)?))
    }
}
