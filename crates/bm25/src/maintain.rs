//! Turns pending documents into segments, and small segments into large ones.
//!
//! The session holds the maintenance lock meanwhile. Each step leaves an index that is complete, so
//! it may be interrupted anywhere.

use rag_pages::{IndexError, LockMode, ReusePages, Tid, WritePages, memory::push};

use crate::{
    allocate::{Allocation, provide_spare, reclaim},
    format::{MAX_SEGMENTS, SegmentEntry},
    meta::Meta,
    pending::{self, Record},
    segment::{Inverted, merge},
};

/// Inserts make the pending list a segment when it has so many pages.
pub const SPILL_PAGES: u32 = 64;
/// Vacuum does so when it has so many pages.
const SPILL_PAGES_BY_VACUUM: u32 = 8;
/// So many segments of a level are merged.
const MERGED_TOGETHER: usize = 8;
/// Inserts only merge segments that have at most so many pages together: 16 MB.
const MERGED_PAGES_BY_INSERT: u64 = 2048;
/// From so many segments on, inserts merge whatever the size. The meta page has room for
/// [`MAX_SEGMENTS`].
const CROWDED: usize = 96;
const _: () = assert!(CROWDED + MERGED_TOGETHER < MAX_SEGMENTS);
/// Pages from which on a segment has level 1. Each further level begins at 8 times as many.
const LEVEL_PAGES: u32 = 128;
/// A segment is rewritten if more than one in so many documents is deleted.
const LIVE_PER_DEAD: u64 = 5;

/// How much work maintenance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// An insert does not wait for long.
    Insert,
    Vacuum,
    /// No other session sees the index, so that what is dropped is used again at once.
    Build,
}

/// Calls `f` with the maintenance lock.
///
/// # Errors
/// Those of `f`.
pub fn locked<R>(
    pages: &impl WritePages,
    f: impl FnOnce() -> Result<R, IndexError>,
) -> Result<R, IndexError> {
    pages.lock(LockMode::Exclusive);
    let result = f();
    pages.unlock(LockMode::Exclusive);
    result
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

/// Finishes what a crash has left, and does what is due. The caller holds the maintenance lock.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn maintain(pages: &impl ReusePages, effort: Effort) -> Result<(), IndexError> {
    let from = match effort {
        Effort::Insert => SPILL_PAGES,
        Effort::Vacuum | Effort::Build => SPILL_PAGES_BY_VACUUM,
    };
    spill(pages, from)?;
    merge_due(pages, effort)?;
    provide_spare(pages)
}

/// Makes all documents one segment.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn merge_all(pages: &impl ReusePages) -> Result<(), IndexError> {
    locked(pages, || {
        spill(pages, 1)?;
        let segments = Meta::read(pages)?.segments;
        if segments.len() > 1 || segments.iter().any(|entry| entry.dead > 0) {
            merge_segments(pages, &segments, Effort::Vacuum)?;
        }
        provide_spare(pages)
    })
}

/// Makes the pending list a segment, if it has at least `from` pages. Finishes a spill and drops a
/// segment that were interrupted.
fn spill(pages: &impl ReusePages, from: u32) -> Result<(), IndexError> {
    reclaim(pages)?;
    finish_spill(pages)?;
    if Meta::read(pages)?.pending.blocks >= from && pending::close(pages)? {
        finish_spill(pages)?;
    }
    Ok(())
}

/// Makes the spilled list a segment, if there is one.
fn finish_spill(pages: &impl ReusePages) -> Result<(), IndexError> {
    let mut meta = Meta::read(pages)?;
    if meta.spilled.is_empty() {
        return Ok(());
    }
    while meta.segments.len() >= MAX_SEGMENTS {
        merge_segments(pages, &smallest(&meta.segments), Effort::Insert)?;
        meta = Meta::read(pages)?;
    }
    let mut documents = Documents::default();
    pending::each_record(pages, &meta.spilled, &mut |record| {
        if record.is_dead() {
            Ok(())
        } else {
            documents.add(record)
        }
    })?;
    let mut space = Allocation::begin(pages)?;
    let written = match documents.inverted {
        inverted if inverted.documents() > 0 => Some(inverted.write(pages, &mut space)?),
        _ => None,
    };
    space.publish(written, &[], true)
}

/// Collects pending documents.
#[derive(Default)]
struct Documents {
    inverted: Inverted,
    /// Documents of which more records follow, with their numbers.
    unfinished: Vec<(Tid, u32)>,
}

impl Documents {
    fn add(&mut self, record: &Record<'_>) -> Result<(), IndexError> {
        let inverted = &mut self.inverted;
        let mut add = || {
            let row = record.tid();
            let begun = self.unfinished.iter().rposition(|(tid, _)| *tid == row);
            let begun = begun.filter(|_| record.is_continuation());
            let number = match begun {
                Some(place) => self.unfinished[place].1,
                // A continuation without a beginning belongs to a row that a crash has aborted.
                None => inverted.add_document(row, record.norm())?,
            };
            match begun {
                None if record.continues() => push(&mut self.unfinished, (row, number))?,
                Some(place) if !record.continues() => {
                    self.unfinished.swap_remove(place);
                }
                _ => {}
            }
            for (term, frequency) in record.terms() {
                inverted.add_term(number, term, frequency)?;
            }
            Ok(())
        };
        add().map_err(IndexError::of_memory)
    }
}

/// Merges segments until nothing is due.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn merge_due(pages: &impl ReusePages, effort: Effort) -> Result<(), IndexError> {
    loop {
        pages.check_interrupts();
        let due = due(&Meta::read(pages)?.segments, effort);
        if due.is_empty() {
            return Ok(());
        }
        merge_segments(pages, &due, effort)?;
    }
}

/// Returns the segments that are to become one, or none.
fn due(segments: &[SegmentEntry], effort: Effort) -> Vec<SegmentEntry> {
    if segments.len() >= CROWDED {
        return smallest(segments);
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
        _ => segments
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
    effort: Effort,
) -> Result<(), IndexError> {
    let mut space = Allocation::begin(pages)?;
    let written = merge(pages, sources, &mut space)?;
    if effort == Effort::Build {
        space.publish_unseen(written, sources)
    } else {
        space.publish(written, sources, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(due(&segments, Effort::Vacuum), []);
        segments.push(segment(20, 30));
        let merged = due(&segments, Effort::Insert);
        assert_eq!((merged.len(), merged[0].id), (8, 20));
        assert!(merged.iter().all(|entry| entry.pages <= 40));
    }

    #[test]
    fn inserts_leave_large_merges_to_vacuum_unless_there_are_too_many() {
        let mut segments: Vec<_> = (0..8).map(|id| segment(id, 1000)).collect();
        assert_eq!(due(&segments, Effort::Insert), []);
        assert_eq!(due(&segments, Effort::Vacuum).len(), 8);
        segments.extend((8..96).map(|id| segment(id, 1000)));
        assert_eq!(due(&segments, Effort::Insert).len(), 8);
    }

    #[test]
    fn a_segment_with_many_deleted_documents_is_rewritten() {
        let mut segments = [segment(1, 10), segment(2, 10)];
        segments[1].dead = 20;
        assert_eq!(due(&segments, Effort::Vacuum), []);
        segments[1].dead = 21;
        assert_eq!(due(&segments, Effort::Vacuum), [segments[1]]);
        assert_eq!(due(&segments, Effort::Insert), []);
    }
}
