//! Links of the base level that lead out of a dense region.
//!
//! A node of a cluster finds all its neighbours there. The links between clusters come from the
//! time when the index had few nodes. If both ends of such a link are freed, as they are when all
//! vectors are updated, no live node is next to it, and nothing would take its place. Searches
//! would then not leave the cluster in which they come down. So the repair does two things:
//!
//! * Each freed node has an *heir*, a live node that links to it. A link between two freed nodes
//!   becomes a candidate of the heir of the one, which leads to the heir of the other.
//! * The level above is a sample of the base. Its links lead to nodes that are far apart on the
//!   base. The nodes that are on both levels get these links on the base, too, as far as there is
//!   room.

use rag_pages::{Block, WritePages};

use super::{Repair, copy};
use crate::{
    hnsw::{
        IndexError,
        layout::{NONE, max_links},
        links::replace,
        slots::SlotState,
        walk::each_slot,
    },
    memory::{self, push},
    random,
};

/// The heirs of freed nodes of the base, by the slot of the freed node.
#[derive(Default)]
pub(super) struct Heirs(Vec<u32>);

impl Heirs {
    /// Offers a live node as the heir of a freed one. Of all that are offered, a random one becomes
    /// the heir: then no node has many to inherit from.
    fn offer(&mut self, freed: u32, node: u32) {
        let lot = |node: u32| random::mix(u64::from(freed) << 32 | u64::from(node));
        if let Some(heir) = self.0.get_mut(freed as usize)
            && (*heir == NONE || lot(node) < lot(*heir))
        {
            *heir = node;
        }
    }

    pub(super) fn of(&self, freed: u32) -> Option<u32> {
        self.0
            .get(freed as usize)
            .copied()
            .filter(|heir| *heir != NONE)
    }
}

impl<S: WritePages> Repair<'_, S> {
    /// Chooses an heir for each node of the base that will be freed.
    pub(super) fn find_heirs(&mut self) -> Result<(), IndexError> {
        let slots = self.body.base().ids(self.pages_seen) as usize;
        self.heirs = Heirs(memory::filled(slots, NONE).map_err(IndexError::of_memory)?);
        memory::leave_some().map_err(IndexError::of_memory)?;
        let (dead, heirs) = (&self.dead[0], &mut self.heirs);
        for &block in &self.blocks[0] {
            each_slot(self.ordered, self.body.base(), block, |id, slot| {
                if slot.state()? == SlotState::Node {
                    for link in slot.links()?.filter(|link| dead.contains(*link)) {
                        heirs.offer(link, id);
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Gives the nodes of level 1 their links of that level on the base.
    pub(super) fn bridge(&mut self) -> Result<(), IndexError> {
        for i in 0..self.blocks[1].len() {
            for (node, links) in self.nodes_above(self.blocks[1][i])? {
                self.store.check_interrupts();
                self.add_links(node, &links)?;
            }
        }
        Ok(())
    }

    /// Returns the nodes of a page of level 1: their slots on the base, and their links on level 1.
    fn nodes_above(&self, block: Block) -> Result<Vec<(u32, Vec<u32>)>, IndexError> {
        let mut nodes = vec![];
        each_slot(self.ordered, self.body.level(1), block, |_, slot| {
            if slot.state()? == SlotState::Node {
                let links = copy(slot.links()?)?;
                push(&mut nodes, (slot.down(), links)).map_err(IndexError::of_memory)?;
            }
            Ok(())
        })?;
        Ok(nodes)
    }

    /// Adds links from a node of the base to those below `above`, nodes of level 1, as far as there
    /// is room. If an insert changes the list meanwhile, none is added.
    fn add_links(&mut self, node: u32, above: &[u32]) -> Result<(), IndexError> {
        let (store, base) = (self.store, self.body.base());
        let old = self.walk.read_slot(store, base, node, |slot| {
            Ok(match slot.state()? {
                SlotState::Node => Some(copy(slot.links()?)?),
                _ => None,
            })
        })?;
        let Some(old) = old else { return Ok(()) };
        let mut links = copy(old.iter().copied())?;
        for &other in above {
            if links.len() >= max_links(0, self.body.m) {
                break;
            }
            let below = self
                .walk
                .read_slot(store, self.body.level(1), other, |slot| {
                    Ok((slot.state()? == SlotState::Node).then(|| slot.down()))
                })?;
            if let Some(below) = below.filter(|below| *below != node && !links.contains(below)) {
                push(&mut links, below).map_err(IndexError::of_memory)?;
            }
        }
        if links.len() > old.len() {
            replace(store, base, node, old, links)?;
        }
        Ok(())
    }
}
