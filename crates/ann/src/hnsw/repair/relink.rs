//! New links for nodes whose neighbours are freed.

use rag_pages::{Block, WritePages};

use super::Repair;
use crate::{
    hnsw::{
        IndexError,
        allocate::change,
        layout::max_links,
        links::NewLink,
        slots::SlotState,
        walk::{each_slot, read_slot},
    },
    memory::push,
    pool::{key, key_id},
};

/// Number of candidates of the search for new links, dead nodes included.
const CANDIDATES: usize = 200;

impl<S: WritePages> Repair<'_, S> {
    /// Replaces the links of a page's nodes that lead to tombstones to be freed.
    pub(super) fn relink_page(&mut self, level: usize, block: Block) -> Result<(), IndexError> {
        let geometry = self.body.level(level);
        loop {
            let nodes = self.nodes_to_relink(level, block)?;
            if nodes.is_empty() {
                return Ok(());
            }
            let mut relinked: Vec<(NodeToRelink, Vec<u32>)> = vec![];
            for node in nodes {
                self.store.check_interrupts();
                let new = match node.state {
                    SlotState::Node => {
                        self.new_links(level, geometry.id(block, node.slot), &node.links)?
                    }
                    _ => node
                        .links
                        .iter()
                        .copied()
                        .filter(|link| !self.dead[level].contains(*link))
                        .collect(),
                };
                relinked.push((node, new));
            }
            change(self.store, geometry, block, |slots| {
                let mut changed = false;
                for (node, new) in &relinked {
                    // A node that an insert has changed meanwhile is read again.
                    if slots
                        .slot(node.slot)?
                        .links()?
                        .eq(node.links.iter().copied())
                    {
                        slots.set_links(node.slot, new);
                        changed = true;
                    }
                }
                Ok(changed.then_some(()))
            })?;
            let mut links = vec![];
            for (node, new) in &relinked {
                let id = geometry.id(block, node.slot);
                let added = new.iter().filter(|link| !node.links.contains(link));
                links.extend(added.map(|from| NewLink {
                    from: *from,
                    to: id,
                    must: false,
                }));
            }
            self.links
                .link_all(self.body, self.store, level, &mut links, |_| ())?;
        }
    }

    /// Returns the nodes of a page, and the tombstones to be kept, that link to tombstones to be
    /// freed.
    fn nodes_to_relink(&self, level: usize, block: Block) -> Result<Vec<NodeToRelink>, IndexError> {
        let geometry = self.body.level(level);
        let dead = &self.dead[level];
        let mut nodes = vec![];
        each_slot(self.ordered, geometry, block, |id, slot| {
            let state = slot.state()?;
            let stays =
                state == SlotState::Node || (state == SlotState::Tombstone && !dead.contains(id));
            if stays && slot.links()?.any(|link| dead.contains(link)) {
                nodes.push(NodeToRelink {
                    slot: geometry.slot(id),
                    state,
                    links: slot.links()?.collect(),
                });
            }
            Ok(())
        })?;
        Ok(nodes)
    }

    /// Returns the best links among the live neighbours, the live neighbours of the dead ones, and
    /// what the node inherits.
    /// Above the base, and where these are few, a search adds candidates: where most nodes have
    /// died, the others may be more than two links away.
    fn new_links(&mut self, level: usize, node: u32, old: &[u32]) -> Result<Vec<u32>, IndexError> {
        let geometry = self.body.level(level);
        let dead = if level == 0 {
            &self.tombstones
        } else {
            &self.dead[level]
        };
        let mut candidates: Vec<u32> = vec![];
        for &link in old {
            if !dead.contains(link) {
                candidates.push(link);
                continue;
            }
            let block = geometry.block(link);
            read_slot(self.store, geometry, block, link, |slot| {
                candidates.extend(slot.links()?.filter(|link| !dead.contains(*link)));
                if level == 0 && self.heirs.of(link) == Some(node) {
                    candidates.extend(slot.links()?.filter_map(|other| self.heirs.of(other)));
                }
                Ok(())
            })?;
        }
        if self
            .links
            .read_node(self.body, self.store, level, node)?
            .is_none()
        {
            return Ok(vec![]);
        }
        let limit = max_links(level, self.body.m);
        candidates.sort_unstable();
        candidates.dedup();
        candidates.retain(|id| *id != node);
        if level > 0 || candidates.len() < limit / 2 {
            let mut met: Vec<u64> = vec![];
            self.walk.begin(self.store);
            let start = [key(0.0, node)];
            self.walk.beam(
                self.store,
                geometry,
                self.links.node(),
                &start,
                CANDIDATES,
                |key| push(&mut met, key),
            )?;
            // On the base these include nodes met on the way out of a dead region.
            met.retain(|key| level == 0 && !dead.contains(key_id(*key)));
            met.sort_unstable();
            met.truncate(CANDIDATES);
            let found = self
                .walk
                .pool
                .as_slice()
                .iter()
                .chain(&met)
                .map(|key| key_id(*key));
            candidates.extend(found.filter(|id| !dead.contains(*id) && *id != node));
            candidates.sort_unstable();
            candidates.dedup();
        }
        let chosen =
            self.links
                .choose_for_node(self.body, self.store, level, &candidates, limit)?;
        let mut links: Vec<u32> = chosen.into_iter().map(|(_, id)| id).collect();
        links.sort_unstable();
        Ok(links)
    }
}

/// A node, or a tombstone to be kept, that links to tombstones to be freed.
struct NodeToRelink {
    slot: usize,
    state: SlotState,
    links: Vec<u32>,
}
