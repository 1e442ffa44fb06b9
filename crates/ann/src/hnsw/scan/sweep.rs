//! Reading all codes in sequence, at the end of a long scan.

use std::cmp::Reverse;

use rag_pages::ReadPages;

use super::{MIN_KEYS, Phase, Scan};
use crate::{
    hnsw::{IndexError, index::Body, slots::SlotState, walk::each_slot},
    memory::push,
    pool::key,
    visited::Visited,
};

/// How many times more a distance costs that is estimated along links: those pages come in random
/// order.
const SWEEP_ADVANTAGE: u64 = 4;

impl Scan {
    pub(super) fn sweep_is_cheaper(&self, body: &Body) -> bool {
        self.walk.scored * SWEEP_ADVANTAGE > self.slots(body)
    }

    /// Returns about the number of slots that a sweep visits.
    pub(super) fn slots(&self, body: &Body) -> u64 {
        u64::from(self.walk.blocks()) * body.base().slots as u64
    }

    /// Reads all codes. Makes the nodes ready that were not returned yet, or as many of the nearest
    /// as memory allows. `after` is the last key of the sweep before.
    pub(super) fn sweep<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        after: Option<u64>,
    ) -> Result<(), IndexError> {
        let room = self
            .limits
            .map_or(0, |limits| limits.max_keys)
            .max(MIN_KEYS);
        let geometry = body.base();
        let mut returned = Visited::new();
        for &id in &self.returned {
            returned.insert(id).map_err(IndexError::of_memory)?;
        }
        self.frontier.clear();
        self.ready.clear();
        let mut keys: Vec<u64> = vec![];
        let mut complete = true;
        let mut cut = |keys: &mut Vec<u64>| {
            keys.select_nth_unstable(room);
            keys.truncate(room);
            complete = false;
        };
        for block in 1..store.block_count() {
            each_slot(store, geometry, block, |id, slot| {
                if slot.state()? == SlotState::Node && !returned.contains(id) {
                    self.walk.scored += 1;
                    let key = key(self.query.distance(slot.code, slot.factors()), id);
                    if after.is_none_or(|last| key > last) {
                        push(&mut keys, key).map_err(IndexError::of_memory)?;
                    }
                }
                Ok(())
            })?;
            if keys.len() > 2 * room {
                cut(&mut keys);
            }
        }
        if keys.len() > room {
            cut(&mut keys);
        }
        let last = keys.iter().copied().max().filter(|_| !complete);
        self.phase = Phase::Sweep(last);
        self.ready = keys.into_iter().map(Reverse).collect(); // in the place of the keys
        Ok(())
    }
}
