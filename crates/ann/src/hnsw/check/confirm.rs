//! Looks again at what seems to be wrong, because other sessions may have changed it meanwhile.

use rag_pages::{Block, ReadPages, Tid};

use super::Check;
use crate::{
    hnsw::{
        IndexError,
        layout::{PageKind, SpecialSpace},
        overflow,
        slots::SlotState,
        walk::read_slot,
    },
    memory::push,
};

/// What a node of the base leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The first link, and the number that changes with each change of the chain.
    Chain(u32, u16),
    Row(Tid),
    /// Nothing: the node was freed.
    Freed,
}

/// What may be wrong with a slot.
pub(super) enum Suspicion {
    /// Something that one page says.
    Problem(String),
    /// A link to a slot that was no node when its page was read.
    Link(u32),
    /// A slot one level down that was no node when its page was read.
    Down(u32),
}

impl<T: Into<String>> From<T> for Suspicion {
    fn from(problem: T) -> Self {
        Self::Problem(problem.into())
    }
}

impl<S: ReadPages> Check<'_, S> {
    /// Returns the heap rows of a node with a chain. A chain that is changed meanwhile is read
    /// again.
    pub(super) fn rows_of_chain(&mut self, id: u32) -> Result<Vec<Tid>, IndexError> {
        const ATTEMPTS: usize = 10;
        let mut target = self.target(id)?;
        let mut attempt = 1;
        loop {
            let first = match target {
                Target::Chain(first, _) => first,
                Target::Row(row) => return Ok(vec![row]),
                Target::Freed => return Ok(vec![]),
            };
            let mut rows = vec![];
            let led_to = &mut self.led_to;
            let walked = overflow::walk(self.store, self.body.base(), first, |id, found| {
                led_to.insert(id)?;
                for tid in found {
                    push(&mut rows, tid)?;
                }
                Ok(())
            });
            let now = self.target(id)?;
            if now == target || attempt == ATTEMPTS {
                return walked.map(|()| rows);
            }
            (target, attempt) = (now, attempt + 1);
        }
    }

    fn target(&self, id: u32) -> Result<Target, IndexError> {
        let geometry = self.body.base();
        read_slot(self.store, geometry, geometry.block(id), id, |slot| {
            Ok(match (slot.state()?.has_code(), slot.has_overflow()) {
                (true, true) => {
                    let (first, count) = slot.chain();
                    Target::Chain(first, count)
                }
                (true, false) => Target::Row(slot.tid()),
                (false, _) => Target::Freed,
            })
        })
    }

    /// Returns the problem if it is still there. A node may have been inserted, or freed, since its
    /// page was read the first time.
    ///
    /// A vacuum frees a slot when nothing leads to it any more, and an insert fills it before
    /// something leads to it again. So it is a problem if the slot is no node, then something leads
    /// to it, and then it still is none.
    pub(super) fn confirm(
        &self,
        level: usize,
        id: u32,
        suspicion: Suspicion,
    ) -> Result<Option<String>, IndexError> {
        let (to_level, to, problem) = match suspicion {
            Suspicion::Problem(problem) => return Ok(Some(problem)),
            Suspicion::Link(link) => (level, link, "links to"),
            Suspicion::Down(down) => (level - 1, down, "leads down to"),
        };
        let is_node =
            || Ok::<_, IndexError>(self.state(to_level, to)?.is_some_and(SlotState::has_code));
        if is_node()? {
            return Ok(None);
        }
        let geometry = self.body.level(level);
        let leads = read_slot(self.store, geometry, geometry.block(id), id, |slot| {
            Ok(match suspicion {
                Suspicion::Down(down) => slot.state()?.has_code() && slot.down() == down,
                _ => slot.state()? == SlotState::Node && slot.links()?.any(|link| link == to),
            })
        })?;
        Ok((leads && !is_node()?).then(|| format!("{problem} {to}, which is not a node")))
    }

    /// Returns what a slot is now, or `None` if there is no such slot on this level.
    pub(super) fn state(&self, level: usize, id: u32) -> Result<Option<SlotState>, IndexError> {
        let geometry = self.body.level(level);
        let block = geometry.block(id);
        if block >= self.store.block_count() {
            return Ok(None);
        }
        self.store.read(block, |page| {
            let Ok(slots) = geometry.open(page, block) else {
                return Ok(None);
            };
            slots.slot(geometry.slot(id))?.state().map(Some)
        })
    }

    /// Returns the level of a page of slots.
    pub(super) fn level_of(&self, block: Block) -> Result<Option<usize>, IndexError> {
        if block >= self.store.block_count() {
            return Ok(None);
        }
        self.store.read(block, |page| {
            let special = SpecialSpace::read(page, block)?;
            Ok((special.kind == PageKind::Slots).then_some(usize::from(special.level)))
        })
    }
}
