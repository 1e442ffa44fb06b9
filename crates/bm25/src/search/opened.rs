//! The parts of an index that a query reads, as at one moment.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use rag_pages::{
    IndexError, ReadPages,
    memory::{self, push},
};

use super::{cursor::TermCursor, pending::PendingMatches, union, window::SegmentSearch};
use crate::{
    meta::Meta,
    query::{Query, QueryRef},
    score::{Parameters, Scorer, Statistics},
    segment::{
        SegmentReader,
        reader::{ListBlocks, PostingsList},
    },
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
    query: Query,
    lists: Vec<(u64, Rc<Lists>)>,
}

/// The number of each term and pattern of the query, and its postings.
pub type Lists = Vec<(usize, PostingsList)>;

/// The maximum number of blocks of all lists that are kept.
const MAX_KEPT_BLOCKS: usize = 1 << 14;
/// A block of several terms together, which has its postings, counts as so many.
const UNION_BLOCKS: usize = 4;

impl SegmentCache {
    /// Opens the segments of an index.
    pub fn open(
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

    fn keep(&self, query: QueryRef<'_>, lists: Vec<(u64, Rc<Lists>)>) {
        let of_segments = lists.iter().flat_map(|(_, lists)| lists.iter());
        let blocks = of_segments.map(|(_, list)| match &list.blocks {
            ListBlocks::Union(union) => UNION_BLOCKS * union.skips.len(),
            blocks => blocks.len(),
        });
        let last = (blocks.sum::<usize>() <= MAX_KEPT_BLOCKS).then(|| LastQuery {
            query: query.to_owned(),
            lists,
        });
        self.last.replace(last);
    }
}

/// What a query reads of an index.
pub struct OpenedQuery {
    pub parameters: Parameters,
    /// The index knows where words are.
    pub has_positions: bool,
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
    /// Numbers below this one are terms, which count. Patterns may not.
    terms: usize,
    /// The patterns that do not count.
    uncounted: Rc<Vec<usize>>,
}

impl OpenedSegment {
    /// Returns what a search of this segment reads, which is a part of an index.
    pub fn search<'s, P>(&'s self, pages: &'s P, part: u32) -> SegmentSearch<'s, P> {
        SegmentSearch {
            pages,
            segment: &self.reader,
            dead: self.dead,
            part,
        }
    }

    /// Returns a cursor over the postings of a term or pattern, if the segment has some.
    pub fn cursor<'s>(
        &'s self,
        number: usize,
        scorer: &'s Scorer,
    ) -> Result<Option<TermCursor<'s>>, IndexError> {
        let list = self.lists.iter().find(|(known, _)| *known == number);
        list.map(|(_, list)| TermCursor::new(list, scorer.term(number)))
            .transpose()
            .map_err(IndexError::of_memory)
    }

    /// Returns the lists of the terms and patterns that count.
    pub fn counted(&self) -> impl Iterator<Item = &(usize, PostingsList)> {
        let counts = |number: usize| number < self.terms || !self.uncounted.contains(&number);
        self.lists.iter().filter(move |(number, _)| counts(*number))
    }
}

impl OpenedQuery {
    pub fn read(
        pages: &impl ReadPages,
        cache: &SegmentCache,
        query: QueryRef<'_>,
    ) -> Result<Self, IndexError> {
        let meta = Meta::read(pages)?;
        let mut statistics = Statistics {
            documents: 0,
            length: 0,
            frequencies: memory::filled(query.count(), 0).map_err(IndexError::of_memory)?,
        };
        let pending = PendingMatches::read(pages, &meta, query, &mut statistics)?;
        let mut segments = vec![];
        let readers = cache.open(pages, &meta)?;
        let last = cache.last.take().filter(|last| query.is(&last.query));
        let uncounted = (0..query.count()).filter(|number| !query.counts(*number));
        let uncounted = Rc::new(uncounted.collect::<Vec<_>>());
        let mut found = vec![];
        for (entry, reader) in meta.segments.iter().zip(readers) {
            pages.check_interrupts();
            statistics.documents += u64::from(reader.documents());
            statistics.length += reader.total_length();
            let known = last.iter().flat_map(|last| &last.lists);
            let known = known.into_iter().find(|(id, _)| *id == entry.id);
            let lists = match known {
                Some((_, lists)) => Rc::clone(lists),
                None => Rc::new(find_lists(pages, &reader, query, meta.parameters)?),
            };
            for (number, list) in lists.iter() {
                statistics.frequencies[*number] += u64::from(list.documents);
            }
            found.push((entry.id, Rc::clone(&lists)));
            segments.push(OpenedSegment {
                reader,
                dead: entry.dead,
                lists,
                terms: query.terms.len(),
                uncounted: Rc::clone(&uncounted),
            });
        }
        cache.keep(query, found);
        Ok(Self {
            parameters: meta.parameters,
            has_positions: meta.has_positions,
            statistics,
            pending,
            segments,
        })
    }
}

fn find_lists(
    pages: &impl ReadPages,
    reader: &SegmentReader,
    query: QueryRef<'_>,
    parameters: Parameters,
) -> Result<Lists, IndexError> {
    let mut lists = vec![];
    let mut add = |number, list| match list {
        Some(list) => push(&mut lists, (number, list)).map_err(IndexError::of_memory),
        None => Ok(()),
    };
    for (number, (term, _)) in query.terms.iter().enumerate() {
        add(number, reader.find(pages, term)?)?;
    }
    for (number, counted) in (query.terms.len()..).zip(query.patterns) {
        let list = union::read(pages, reader, &counted.pattern, parameters.has_parts)?;
        add(number, list)?;
    }
    Ok(lists)
}
