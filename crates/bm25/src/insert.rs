//! Adding documents: they are collected in memory, and written together.

use rag_pages::{
    IndexError, LockMode, ReusePages, Tid,
    memory::{self, push},
};

use crate::{
    format::PENDING_ROOM,
    locks::{APPEND, locked},
    maintain::{SPILL_PAGES, relieve, write_segment},
    pending::append,
    record::{Record, encode_document},
    terms::Terms,
};

/// Documents that have so many bytes become a segment, if no other session spills.
const SEGMENT_BYTES: usize = PENDING_ROOM * SPILL_PAGES as usize / 4;
/// With so many bytes they wait for that session: it does not take long, and the pending list would
/// become longer than a search should read.
const WAITING_BYTES: usize = PENDING_ROOM * SPILL_PAGES as usize;

/// Documents that are to be added to an index, in the order in which they were collected.
#[derive(Default)]
pub struct Collected {
    /// Records as on pending pages, those of a document one after another.
    records: Vec<u8>,
    /// A document has several records.
    has_long: bool,
}

/// A collected document.
struct Place {
    tid: Tid,
    start: usize,
    end: usize,
}

impl Collected {
    /// Adds a document without checking whether its row has one already. A document without terms
    /// is not stored.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add(&mut self, tid: Tid, terms: &Terms) -> Result<(), IndexError> {
        let before = self.records.len();
        match encode_document(tid, terms, &mut self.records) {
            Ok(records) => {
                self.has_long |= records > 1;
                Ok(())
            }
            Err(error) => {
                self.records.truncate(before);
                Err(IndexError::of_memory(error))
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.records.capacity()
    }

    /// Returns the position that the next document gets, in bytes of memory.
    pub fn position(&self) -> usize {
        self.records.len()
    }

    /// Drops the documents for which `is_row` returns false. It is called with their rows and
    /// positions, in ascending order. If a row has several, the last of them is kept: the place was
    /// given to a new row.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn retain(&mut self, mut is_row: impl FnMut(Tid, usize) -> bool) -> Result<(), IndexError> {
        let mut places = self.places().map_err(IndexError::of_memory)?;
        if !places.is_sorted_by(|a, b| a.tid < b.tid) {
            places.sort_unstable_by_key(|place| (place.tid, place.start));
            places.dedup_by(|later, kept| {
                let is_same = later.tid == kept.tid;
                if is_same {
                    (kept.start, kept.end) = (later.start, later.end);
                }
                is_same
            });
            places.sort_unstable_by_key(|place| place.start);
        }
        let mut kept = 0;
        for place in places {
            if is_row(place.tid, place.start) {
                self.records.copy_within(place.start..place.end, kept);
                kept += place.end - place.start;
            }
        }
        self.records.truncate(kept);
        Ok(())
    }

    fn places(&self) -> Result<Vec<Place>, memory::OutOfMemory> {
        let mut places: Vec<Place> = vec![];
        for (start, record) in records(&self.records) {
            let end = start + record.bytes();
            match places.last_mut() {
                Some(last) if record.is_continuation() => last.end = end,
                _ => {
                    let tid = record.tid();
                    push(&mut places, Place { tid, start, end })?;
                }
            }
        }
        Ok(places)
    }

    /// Adds the documents to the index. Many become a segment. Few are appended to the pending
    /// list, which becomes a segment when it is long. Small segments are merged, unless the caller
    /// `has_written` others in the same transaction: what a merge drops cannot be used again before
    /// the transaction ends.
    ///
    /// It waits for no session that does more than a spill, or a merge of small segments.
    ///
    /// # Errors
    /// A page is corrupted. Memory runs out. Some of the documents may have been added.
    pub fn write(self, pages: &impl ReusePages, has_written: bool) -> Result<(), IndexError> {
        let is_written = self.records.len() >= SEGMENT_BYTES
            && write_segment(
                pages,
                &self.records,
                self.records.len() >= WAITING_BYTES,
                has_written,
            )?;
        if is_written || self.is_empty() {
            return Ok(());
        }
        let append = || append(pages, &self.records);
        let length = if self.has_long {
            locked(pages, APPEND, LockMode::Shared, append)?
        } else {
            append()?
        };
        relieve(pages, length, has_written)
    }
}

/// Returns the records in some bytes, and where each starts.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = (usize, Record<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, record) = (at, Record::parse(&bytes[at..])?);
        at += record.bytes();
        Some((start, record))
    })
}

/// Adds one document. See [`Collected`].
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn insert(pages: &impl ReusePages, tid: Tid, terms: &Terms) -> Result<(), IndexError> {
    let mut one = Collected::default();
    one.add(tid, terms)?;
    one.write(pages, false)
}
