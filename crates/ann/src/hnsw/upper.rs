//! A copy of an upper level in memory, where a search begins.
//!
//! The way down from the entry point takes a hundred page visits, up to a tenth of a search. So a
//! backend that searches an index repeatedly keeps the codes of the lowest level that is small, and
//! computes the distances to all of them.
//!
//! The copy may be out of date. A page belongs to one level for good, so a slot one level down
//! holds a node of that level, if any, and a search may begin at any node. The copy is renewed
//! after [`PERIOD`] searches, and when the index has grown.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError, TryLockError},
};

use rag_pages::{Block, ReadPages};

use super::{IndexError, MAX_LEVELS, index::Body, layout::NONE, meta::MetaPage, walk::read_slot};
use crate::code::{Factors, Query};

/// Number of searches before the first copy. A single search does not need it.
const FIRST: u32 = 8;
/// Number of searches that a copy serves.
const PERIOD: u32 = 2000;
/// Maximum number of nodes, and of bytes of their codes. Scanning more takes longer than the way
/// down.
const MAX_NODES: usize = 1024;
const MAX_BYTES: usize = 256 * 1024;
/// Nodes read between two checks for interrupts.
const INTERRUPT_PERIOD: usize = 64;

/// Shared by all searches. A search that finds it locked takes the usual way.
#[derive(Default)]
pub(super) struct UpperLevelCopy(Mutex<CopyState>);

#[derive(Default)]
struct CopyState {
    /// Searches since the copy was created, or since the start.
    searches: u32,
    copy: Option<Nodes>,
}

/// The nodes of one level.
struct Nodes {
    level: usize,
    /// The same nodes one level down.
    down: Vec<u32>,
    factors: Vec<Factors>,
    codes: Vec<u8>,
    /// Number of pages of the index when they were read.
    blocks: Block,
}

impl UpperLevelCopy {
    /// Returns a level and a slot on it near the query, from which to go down. Returns `None` if
    /// there is no copy. `blocks` is the number of pages of the index.
    pub fn near<S: ReadPages>(
        &self,
        body: &Body,
        store: &S,
        query: &Query,
        blocks: Block,
    ) -> Result<Option<(usize, u32)>, IndexError> {
        let mut kept = match self.0.try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(kept)) => kept.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        kept.searches = kept.searches.saturating_add(1);
        let grown =
            |nodes: &Nodes| blocks < nodes.blocks || blocks - nodes.blocks > nodes.blocks / 8 + 8;
        let due = match &kept.copy {
            Some(nodes) => kept.searches > PERIOD || grown(nodes),
            None => kept.searches >= FIRST && (kept.searches - FIRST).is_multiple_of(PERIOD),
        };
        if due {
            kept.copy = None;
            let copy = Nodes::read(body, store)?;
            kept.searches = if copy.is_some() { 0 } else { FIRST };
            kept.copy = copy;
        }
        Ok(kept
            .copy
            .as_ref()
            .and_then(|nodes| nodes.nearest(body, query)))
    }

    /// Drops the copy, which led to a slot that was freed.
    pub fn forget(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = CopyState::default();
    }
}

impl Nodes {
    /// Reads the lowest level that is small. Returns `None` if the base is.
    fn read<S: ReadPages>(body: &Body, store: &S) -> Result<Option<Self>, IndexError> {
        let meta = MetaPage::read(store)?;
        let code_bytes = body.base().code_bytes;
        let most = MAX_NODES.min(MAX_BYTES / code_bytes);
        let mut level = (meta.top_level as usize).min(MAX_LEVELS - 1);
        let mut starts = vec![meta.entry];
        let mut found = None;
        // A level has about m times as many nodes as the one above.
        while level > 0 && (found.is_none() || starts.len() * usize::from(body.m) <= 2 * most) {
            let Some(nodes) = Self::read_level(body, store, level, &starts, most)? else {
                break;
            };
            starts.clone_from(&nodes.down);
            found = Some(nodes);
            level -= 1;
        }
        Ok(found.filter(|nodes| !nodes.down.is_empty()))
    }

    /// Reads the nodes of a level that links lead to from `starts`. Returns `None` if there are
    /// more than `most`.
    fn read_level<S: ReadPages>(
        body: &Body,
        store: &S,
        level: usize,
        starts: &[u32],
        most: usize,
    ) -> Result<Option<Self>, IndexError> {
        let geometry = body.level(level);
        let blocks = store.block_count();
        let mut nodes = Self {
            level,
            down: vec![],
            factors: vec![],
            codes: vec![],
            blocks,
        };
        let is_there = |id: &u32| *id != NONE && geometry.block(*id) < blocks;
        let mut waiting: Vec<u32> = starts.iter().copied().filter(is_there).collect();
        let mut met: HashSet<u32> = waiting.iter().copied().collect();
        while let Some(id) = waiting.pop() {
            if nodes.down.len() == most {
                return Ok(None);
            }
            if met.len().is_multiple_of(INTERRUPT_PERIOD) {
                store.check_interrupts();
            }
            read_slot(store, geometry, geometry.block(id), id, |slot| {
                if !slot.state()?.has_code() {
                    return Ok(()); // freed meanwhile
                }
                nodes.down.push(slot.down());
                nodes.factors.push(slot.factors());
                nodes.codes.extend_from_slice(slot.code);
                waiting.extend(
                    slot.links()?
                        .filter(is_there)
                        .filter(|link| met.insert(*link)),
                );
                Ok(())
            })?;
        }
        Ok(Some(nodes))
    }

    /// Returns the place, one level down, of the node nearest to the query.
    fn nearest(&self, body: &Body, query: &Query) -> Option<(usize, u32)> {
        let codes = self.codes.chunks_exact(body.base().code_bytes);
        let distances = codes
            .zip(&self.factors)
            .map(|(code, factors)| query.distance(code, *factors));
        let (_, down) = distances
            .zip(&self.down)
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((self.level - 1, *down))
    }
}
