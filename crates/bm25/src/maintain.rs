//! Turns pending documents into segments, and small segments into large ones.
//!
//! Each step leaves an index that is complete, so it may be interrupted anywhere. Documents move in
//! one direction: from the pending list to the spilled list, to a segment, to a larger segment. The
//! session with the [spill lock](SPILL) moves them out of the lists, and merges young segments. The
//! session with the [merge lock](MERGE) freezes the segments that there are, and merges these.

use std::ops::Range;

use rag_pages::{IndexError, LockMode, ReusePages, Tid, memory::push};

use crate::{
    allocate::{Allocation, provide_spare, reclaim},
    format::{MAX_SEGMENTS, SegmentEntry},
    free, insert,
    locks::{MERGE, SPILL, exclusively},
    meta::{Meta, Writer},
    pending::{self, Record},
    segment::{Inverted, merge},
};

/// Inserts make the pending list a segment when it has so many pages.
pub const SPILL_PAGES: u32 = 64;
/// Inserts that find so many pages leave merges to others.
const LONG_LIST: u32 = 8 * SPILL_PAGES;
/// Vacuum makes the pending list a segment when it has so many pages.
pub const SPILL_PAGES_BY_VACUUM: u32 = 8;
/// So many segments of a level are merged.
const MERGED_TOGETHER: usize = 8;
/// Inserts only merge segments that have at most so many pages together, as those of spills have: 4
/// MB.
const MERGED_PAGES_BY_INSERT: u64 = (MERGED_TOGETHER as u32 * SPILL_PAGES) as u64;
/// From so many segments on, inserts merge whatever the size. The meta page has room for
/// [`MAX_SEGMENTS`].
const CROWDED: usize = 96;
const _: () = assert!(CROWDED + MERGED_TOGETHER < MAX_SEGMENTS);
/// Pages from which on a segment has level 1. Each further level begins at 8 times as many.
const LEVEL_PAGES: u32 = 128;
/// A segment is rewritten if more than one in so many documents is deleted.
const LIVE_PER_DEAD: u64 = 5;

/// How much a session merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// An insert does not wait for long.
    Insert,
    Vacuum,
}

/// Returns the level of a segment, which follows from its size.
pub fn level(entry: &SegmentEntry) -> usize {
    let mut level = 0;
    let mut pages = entry.pages / LEVEL_PAGES;
    while pages > 0 {
        pages /= MERGED_TOGETHER as u32;
        level += 1;
    }
    level
}

/// Does what is due after an insert that has made the pending list `length` pages long, unless
/// another session does. Segments are only merged if there are too many of them, if the caller
/// `has_written` some.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn relieve(pages: &impl ReusePages, length: u32, has_written: bool) -> Result<(), IndexError> {
    if length < SPILL_PAGES || !pages.try_lock(SPILL, LockMode::Exclusive) {
        return Ok(());
    }
    let may_merge = length < LONG_LIST && !has_written;
    let result = spill(pages, SPILL_PAGES)
        .and_then(|()| merge_as_insert(pages, may_merge))
        .and_then(|()| provide_spare(pages));
    pages.unlock(SPILL, LockMode::Exclusive);
    result
}

/// Makes records of documents a segment. Returns false if another session spills, unless it
/// `waits`, or if the meta page has no room. See [`relieve`] for merges.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn write_segment(
    pages: &impl ReusePages,
    records: &[u8],
    waits: bool,
    has_written: bool,
) -> Result<bool, IndexError> {
    if waits {
        pages.lock(SPILL, LockMode::Exclusive);
    } else if !pages.try_lock(SPILL, LockMode::Exclusive) {
        return Ok(false);
    }
    let result = write_segment_locked(pages, records, has_written);
    pages.unlock(SPILL, LockMode::Exclusive);
    result
}

fn write_segment_locked(
    pages: &impl ReusePages,
    records: &[u8],
    has_written: bool,
) -> Result<bool, IndexError> {
    merge_as_insert(pages, !has_written)?;
    if Meta::read(pages)?.segments.len() >= MAX_SEGMENTS {
        return Ok(false);
    }
    let mut documents = Documents::new(Meta::read(pages)?.has_positions);
    for (_, record) in insert::records(records) {
        pages.check_interrupts();
        documents.add(&record)?;
    }
    let mut space = Allocation::begin(pages, Writer::Spill)?;
    let written = documents.inverted.write(pages, &mut space)?;
    space.publish(Some(written), &[], false)?;
    Ok(true)
}

/// Merges segments as far as inserts do: if it may, or if there are too many. The session holds the
/// spill lock.
fn merge_as_insert(pages: &impl ReusePages, may_merge: bool) -> Result<(), IndexError> {
    if !may_merge && Meta::read(pages)?.segments.len() < CROWDED {
        return Ok(());
    }
    // Without the merge lock, the frozen segments are another session's.
    let is_alone = pages.try_lock(MERGE, LockMode::Exclusive);
    let result = merge_young(pages, is_alone);
    if is_alone {
        pages.unlock(MERGE, LockMode::Exclusive);
    }
    result
}

/// Merges segments until nothing is due for an insert. The session holds the spill lock.
fn merge_young(pages: &impl ReusePages, is_alone: bool) -> Result<(), IndexError> {
    loop {
        let meta = Meta::read(pages)?;
        let oldest = if is_alone { 0 } else { meta.frozen };
        let due = due(&meta.segments, oldest..u64::MAX, Effort::Insert);
        if due.is_empty() {
            return Ok(());
        }
        merge_segments(pages, &due, Writer::Spill)?;
    }
}

/// Freezes the segments that there are: until the session with the merge lock releases it, they are
/// its own. Returns the number from which on segments are younger. The session holds both locks.
///
/// # Errors
/// The meta page is corrupted.
pub fn freeze(pages: &impl ReusePages) -> Result<u64, IndexError> {
    let meta = Meta::read(pages)?;
    if meta.frozen == meta.next_number {
        return Ok(meta.frozen); // vacuum of an index that has not changed writes nothing
    }
    Meta::update(pages, |meta| {
        meta.frozen = meta.next_number;
        Ok(meta.frozen)
    })
}

/// Merges segments until nothing is due. The session holds the merge lock.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn merge_due(pages: &impl ReusePages) -> Result<(), IndexError> {
    reclaim(pages, Writer::Merge)?;
    loop {
        pages.check_interrupts();
        // A merged segment is a young one until it is frozen as well.
        let frozen = exclusively(pages, SPILL, || freeze(pages))?;
        let due = due(&Meta::read(pages)?.segments, 0..frozen, Effort::Vacuum);
        if due.is_empty() {
            return provide_spare(pages);
        }
        merge_segments(pages, &due, Writer::Merge)?;
    }
}

/// Merges segments of an index that no other session sees, until nothing is due. What is dropped is
/// used again at once.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn merge_unseen(pages: &impl ReusePages) -> Result<(), IndexError> {
    loop {
        pages.check_interrupts();
        let due = due(&Meta::read(pages)?.segments, 0..u64::MAX, Effort::Vacuum);
        if due.is_empty() {
            return Ok(());
        }
        let mut space = Allocation::begin(pages, Writer::Spill)?;
        let written = merge(pages, &due, &mut space)?;
        space.publish_unseen(written, &due)?;
    }
}

/// Makes all documents one segment. Inserts go on meanwhile, so that their documents are left out.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn merge_all(pages: &impl ReusePages) -> Result<(), IndexError> {
    exclusively(pages, MERGE, || {
        free::tidy(pages)?;
        reclaim(pages, Writer::Merge)?;
        let frozen = exclusively(pages, SPILL, || {
            spill(pages, 1)?;
            freeze(pages)
        })?;
        let mut segments = Meta::read(pages)?.segments;
        segments.retain(|entry| entry.id < frozen);
        if segments.len() > 1 || segments.iter().any(|entry| entry.dead > 0) {
            merge_segments(pages, &segments, Writer::Merge)?;
        }
        provide_spare(pages)
    })?;
    free::cut(pages)
}

/// Makes the pending list a segment, if it has at least `from` pages. Finishes a spill and drops a
/// segment that were interrupted. The session holds the spill lock.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn spill(pages: &impl ReusePages, from: u32) -> Result<(), IndexError> {
    reclaim(pages, Writer::Spill)?;
    finish_spill(pages)?;
    let meta = Meta::read(pages)?;
    if meta.spilled.is_empty() && meta.pending.blocks >= from && pending::close(pages)? {
        finish_spill(pages)?;
    }
    Ok(())
}

/// Makes the spilled list a segment, if there is one, and the meta page has room.
fn finish_spill(pages: &impl ReusePages) -> Result<(), IndexError> {
    let meta = Meta::read(pages)?;
    if meta.spilled.is_empty() || meta.segments.len() >= MAX_SEGMENTS {
        return Ok(());
    }
    let mut documents = Documents::new(meta.has_positions);
    pending::each_record(pages, &meta.spilled, &mut |record| {
        if record.is_dead() {
            Ok(())
        } else {
            documents.add(record)
        }
    })?;
    let mut space = Allocation::begin(pages, Writer::Spill)?;
    let written = match documents.inverted {
        inverted if inverted.documents() > 0 => Some(inverted.write(pages, &mut space)?),
        _ => None,
    };
    space.publish(written, &[], true)
}

/// Collects pending documents.
struct Documents {
    inverted: Inverted,
    /// Documents of which more records follow, with their numbers.
    unfinished: Vec<(Tid, u32)>,
    positions: Vec<u32>,
}

impl Documents {
    fn new(has_positions: bool) -> Self {
        Self {
            inverted: Inverted::new(has_positions),
            unfinished: vec![],
            positions: vec![],
        }
    }

    fn add(&mut self, record: &Record<'_>) -> Result<(), IndexError> {
        let Self {
            inverted,
            unfinished,
            positions,
        } = self;
        let mut add = || {
            let row = record.tid();
            let begun = unfinished.iter().rposition(|(tid, _)| *tid == row);
            let begun = begun.filter(|_| record.is_continuation());
            let number = match begun {
                Some(place) => unfinished[place].1,
                // A continuation without a beginning belongs to a row that a crash has aborted.
                None => inverted.add_document(row, record.norm())?,
            };
            match begun {
                None if record.continues() => push(unfinished, (row, number))?,
                Some(place) if !record.continues() => {
                    unfinished.swap_remove(place);
                }
                _ => {}
            }
            let mut of_terms = record.positions();
            for (term, frequency) in record.terms() {
                if of_terms.next(positions)?.is_none() {
                    return Ok(false);
                }
                inverted.add_term(number, term, frequency, positions)?;
            }
            Ok(true)
        };
        match add().map_err(IndexError::of_memory)? {
            true => Ok(()),
            false => Err(IndexError::corrupted(
                0,
                "a pending document is not readable",
            )),
        }
    }
}

/// Returns the segments, of those with such numbers, that are to become one, or none.
fn due(segments: &[SegmentEntry], numbers: Range<u64>, effort: Effort) -> Vec<SegmentEntry> {
    let is_crowded = segments.len() >= CROWDED;
    let mut segments = segments.to_vec();
    segments.retain(|entry| numbers.contains(&entry.id));
    if is_crowded && segments.len() > 1 {
        return smallest(&segments);
    }
    let top = segments.iter().map(level).max().unwrap_or(0);
    for tier in 0..=top {
        let of_tier = segments.iter().filter(|entry| level(entry) == tier);
        let of_tier: Vec<SegmentEntry> = of_tier.copied().collect();
        if of_tier.len() < MERGED_TOGETHER {
            continue;
        }
        let merged = smallest(&of_tier);
        let size: u64 = merged.iter().map(|entry| u64::from(entry.pages)).sum();
        if effort != Effort::Insert || size <= MERGED_PAGES_BY_INSERT {
            return merged;
        }
    }
    let is_sparse =
        |entry: &&SegmentEntry| u64::from(entry.dead) * LIVE_PER_DEAD > u64::from(entry.documents);
    match effort {
        Effort::Insert => vec![],
        Effort::Vacuum => segments
            .iter()
            .find(is_sparse)
            .copied()
            .into_iter()
            .collect(),
    }
}

/// Returns the segments with the fewest pages.
fn smallest(segments: &[SegmentEntry]) -> Vec<SegmentEntry> {
    let mut segments = segments.to_vec();
    segments.sort_by_key(|entry| (entry.pages, entry.id));
    segments.truncate(MERGED_TOGETHER);
    segments
}

fn merge_segments(
    pages: &impl ReusePages,
    sources: &[SegmentEntry],
    writer: Writer,
) -> Result<(), IndexError> {
    let mut space = Allocation::begin(pages, writer)?;
    let written = merge(pages, sources, &mut space)?;
    space.publish(written, sources, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Range<u64> = 0..u64::MAX;

    fn segment(id: u64, pages: u32) -> SegmentEntry {
        SegmentEntry {
            id,
            header: 1,
            owner: 1,
            owner_tail: 1,
            documents: 100,
            dead: 0,
            total_length: 0,
            pages,
            positions: None,
        }
    }

    #[test]
    fn a_level_has_8_times_the_pages() {
        let levels = [0, 127, 128, 1023, 1024, 8191, 8192, u32::MAX];
        let levels = levels.map(|pages| level(&segment(1, pages)));
        assert_eq!(levels, [0, 0, 1, 1, 2, 2, 3, 9]);
    }

    #[test]
    fn eight_segments_of_a_level_are_due() {
        let mut segments: Vec<_> = (0..7).map(|id| segment(id, 40)).collect();
        segments.extend((7..14).map(|id| segment(id, 500)));
        assert_eq!(due(&segments, ALL, Effort::Vacuum), []);
        segments.push(segment(20, 30));
        let merged = due(&segments, ALL, Effort::Insert);
        assert_eq!((merged.len(), merged[0].id), (8, 20));
        assert!(merged.iter().all(|entry| entry.pages <= 40));
    }

    #[test]
    fn inserts_leave_large_merges_to_vacuum_unless_there_are_too_many() {
        let mut segments: Vec<_> = (0..8).map(|id| segment(id, 1000)).collect();
        assert_eq!(due(&segments, ALL, Effort::Insert), []);
        assert_eq!(due(&segments, ALL, Effort::Vacuum).len(), 8);
        segments.extend((8..96).map(|id| segment(id, 1000)));
        assert_eq!(due(&segments, ALL, Effort::Insert).len(), 8);
    }

    #[test]
    fn a_segment_with_many_deleted_documents_is_rewritten() {
        let mut segments = [segment(1, 10), segment(2, 10)];
        segments[1].dead = 20;
        assert_eq!(due(&segments, ALL, Effort::Vacuum), []);
        segments[1].dead = 21;
        assert_eq!(due(&segments, ALL, Effort::Vacuum), [segments[1]]);
        assert_eq!(due(&segments, ALL, Effort::Insert), []);
    }

    #[test]
    fn frozen_segments_are_left_to_the_session_that_froze_them() {
        let segments: Vec<_> = (0..12).map(|id| segment(id, 40)).collect();
        assert_eq!(due(&segments, 8..u64::MAX, Effort::Insert), []);
        let merged = due(&segments, 4..u64::MAX, Effort::Insert);
        assert!(merged.iter().map(|entry| entry.id).eq(4..12));
        let merged = due(&segments, 0..8, Effort::Vacuum);
        assert!(merged.iter().map(|entry| entry.id).eq(0..8));
    }
}
