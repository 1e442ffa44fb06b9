//! Counts what is in an index.

use rag_pages::{Block, IndexError, ReadPages};

use crate::{maintain::level, meta::Meta, norm, pending::each_record, score::Parameters};

/// What is in an index. Sizes are in blocks of 8 KB.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    pub parameters: Parameters,
    /// The index keeps where in its documents terms occur.
    pub has_positions: bool,
    /// Number of positions in segments.
    pub positions: u64,
    /// Documents that are not deleted.
    pub documents: u64,
    /// Deleted documents that still have their place.
    pub dead: u64,
    /// Sum of the lengths of all documents in terms, also of the deleted ones.
    pub total_length: u64,
    /// Documents that are not in a segment yet, also deleted ones.
    pub pending_documents: u64,
    pub pending_pages: u32,
    pub segments: u32,
    /// Number of segments of each level. A level has 8 times the size of the one before.
    pub levels: Vec<u32>,
    /// Blocks of segments.
    pub segment_pages: u64,
    /// Blocks for segments that a session writes, or that a crash has interrupted.
    pub in_flight: u32,
    /// Blocks for new pending pages.
    pub spare: u32,
    /// Blocks that are used again when no reader needs them any more.
    pub free_blocks: u64,
    /// Blocks that were used so far.
    pub high_water: Block,
}

/// Reads the meta page and the pending documents.
///
/// # Errors
/// A page is corrupted or was recycled.
pub fn info(pages: &impl ReadPages) -> Result<Info, IndexError> {
    let meta = Meta::read(pages)?;
    let (mut pending, mut pending_dead, mut total_length) = (0, 0, 0);
    for list in meta.lists() {
        each_record(pages, list, &mut |record| {
            if !record.is_continuation() {
                pending += 1;
                pending_dead += u64::from(record.is_dead());
                total_length += u64::from(norm::decode(record.norm()));
            }
            Ok(())
        })?;
    }
    let mut levels: Vec<u32> = vec![];
    let (mut documents, mut dead, mut segment_pages) = (pending, pending_dead, 0);
    let mut positions = 0_u64;
    for entry in &meta.segments {
        let level = level(entry);
        levels.resize(levels.len().max(level + 1), 0);
        levels[level] += 1;
        documents += u64::from(entry.documents);
        dead += u64::from(entry.dead);
        total_length = total_length.saturating_add(entry.total_length);
        segment_pages += u64::from(entry.pages);
        positions = positions.saturating_add(entry.positions.unwrap_or(0));
    }
    let pending_pages = meta.pending.blocks.saturating_add(meta.spilled.blocks);
    let in_flight = meta.in_flight.iter().map(|list| list.blocks).sum();
    let spare = meta.spare.len() as u32;
    let owned = [1, pending_pages, in_flight, spare].map(u64::from);
    let owned = owned.iter().sum::<u64>() + segment_pages;
    Ok(Info {
        parameters: meta.parameters,
        has_positions: meta.has_positions,
        positions,
        documents: documents.saturating_sub(dead),
        dead,
        total_length,
        pending_documents: pending,
        pending_pages,
        segments: meta.segments.len() as u32,
        levels,
        segment_pages,
        in_flight,
        spare,
        // Each block below the high-water mark has one owner.
        free_blocks: u64::from(meta.high_water).saturating_sub(owned),
        high_water: meta.high_water,
    })
}
