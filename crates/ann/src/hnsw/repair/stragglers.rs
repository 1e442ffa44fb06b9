//! Links in the nodes that no path of links leads to.

use rag_pages::WritePages;

use super::copy;
use crate::{
    hnsw::{
        IndexError,
        index::Body,
        layout::{Geometry, max_links},
        links::{Links, replace},
        reach::{entries, spread, spread_in_order},
        slots::SlotState,
        walk::{Walk, each_slot},
    },
    memory::{self, push},
    pool::{key, key_id},
    visited::Visited,
};

/// Number of candidates of the search for a node that can link to a straggler.
const CANDIDATES: usize = 100;
/// Number of attempts to change a list that inserts change meanwhile.
const ATTEMPTS: usize = 10;

/// Adds links to nodes that cannot be reached from the entry point by the links of their level. The
/// links come from near nodes that can be reached.
pub(super) fn attach_stragglers<S: WritePages>(
    body: &Body,
    ordered: &S,
    store: &S,
    links: &mut Links,
) -> Result<(), IndexError> {
    for (level, entry) in entries(body, store)? {
        let mut reached = Visited::new();
        spread_in_order(body, ordered, level, &[entry], &mut reached)?;
        memory::leave_some().map_err(IndexError::of_memory)?;
        let mut level = Level {
            body,
            store,
            geometry: body.level(level),
            limit: max_links(level, body.m),
            level,
            entry,
            links,
            walk: Walk::default(),
        };
        for block in 1..ordered.block_count() {
            level.attach_page(ordered, block, &mut reached)?;
        }
    }
    Ok(())
}

struct Level<'a, S> {
    body: &'a Body,
    store: &'a S,
    geometry: &'a Geometry,
    /// Maximum number of links of a node.
    limit: usize,
    level: usize,
    /// The slot at which searches of all nodes begin.
    entry: u32,
    links: &'a mut Links,
    walk: Walk,
}

impl<S: WritePages> Level<'_, S> {
    /// Attaches the stragglers of a page.
    fn attach_page(
        &mut self,
        ordered: &S,
        block: u32,
        reached: &mut Visited,
    ) -> Result<(), IndexError> {
        let mut stragglers = vec![];
        each_slot(ordered, self.geometry, block, |id, slot| {
            if slot.state()? == SlotState::Node && !reached.contains(id) {
                let links = copy(slot.links()?)?;
                push(&mut stragglers, (id, links)).map_err(IndexError::of_memory)?;
            }
            Ok(())
        })?;
        for (id, neighbours) in stragglers {
            if reached.contains(id) {
                continue; // by one before it
            }
            self.store.check_interrupts();
            let near = neighbours.into_iter().filter(|id| reached.contains(*id));
            if self.attach(id, copy(near)?)? {
                spread(self.body, self.store, self.level, id, reached)?;
            }
        }
        Ok(())
    }

    /// Adds a link to a straggler, from one of `near` or else from one of the nearest nodes that a
    /// search finds: if possible from one that has room. Returns false if there is no such node.
    fn attach(&mut self, id: u32, mut near: Vec<u32>) -> Result<bool, IndexError> {
        if near.is_empty() {
            near = self.search(id)?;
        }
        near.retain(|other| *other != id);
        for makes_room in [false, true] {
            for &other in &near {
                if self.link(other, id, makes_room)? {
                    self.link(id, other, false)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the nodes nearest to a straggler among those that can be reached.
    fn search(&mut self, id: u32) -> Result<Vec<u32>, IndexError> {
        let (body, store) = (self.body, self.store);
        if self.links.read_node(body, store, self.level, id)?.is_none() {
            return Ok(vec![]);
        }
        self.walk.begin(store);
        let (start, query) = ([key(0.0, self.entry)], self.links.node());
        self.walk
            .beam(store, self.geometry, query, &start, CANDIDATES, |_| Ok(()))?;
        let found = self.walk.pool.as_slice().iter();
        copy(found.map(|key| key_id(*key)))
    }

    /// Adds a link from `node` to `other`, if there is room or it `makes_room`. Returns true if
    /// there is such a link now.
    ///
    /// A link to the farthest neighbour makes room. It becomes a link of `other`, a straggler, so
    /// that this neighbour can still be reached. To make room there, a link is given up. A node to
    /// which only that one led was not reached either, so nothing is lost.
    fn link(&mut self, node: u32, other: u32, makes_room: bool) -> Result<bool, IndexError> {
        for _ in 0..ATTEMPTS {
            let Some(old) = self.list(node)? else {
                return Ok(false);
            };
            if old.contains(&other) {
                return Ok(true);
            }
            let mut new = copy(old.iter().copied())?;
            if old.len() >= self.limit {
                let farthest = match makes_room {
                    true => self.farthest(node, &old)?,
                    false => None,
                };
                let Some(farthest) = farthest else {
                    return Ok(false);
                };
                if !self.give(other, farthest)? {
                    continue;
                }
                new.retain(|link| *link != farthest);
            }
            push(&mut new, other).map_err(IndexError::of_memory)?;
            if replace(self.store, self.geometry, node, old, new)? {
                return Ok(true);
            }
        }
        Ok(false) // others change this list all the time
    }

    /// Adds a link from a straggler, in place of its last one if there is no room. Returns false if
    /// an insert has changed its list.
    fn give(&mut self, straggler: u32, link: u32) -> Result<bool, IndexError> {
        let Some(old) = self.list(straggler)? else {
            return Ok(false);
        };
        if old.contains(&link) || link == straggler {
            return Ok(true);
        }
        let mut new = copy(old.iter().copied())?;
        new.truncate(self.limit - 1);
        push(&mut new, link).map_err(IndexError::of_memory)?;
        replace(self.store, self.geometry, straggler, old, new)
    }

    /// Returns the farthest of a node's neighbours.
    fn farthest(&mut self, node: u32, links: &[u32]) -> Result<Option<u32>, IndexError> {
        let (body, store, level) = (self.body, self.store, self.level);
        if self.links.read_node(body, store, level, node)?.is_none() {
            return Ok(None);
        }
        self.links.farthest(body, store, level, links)
    }

    /// Returns the links of a node, or `None` if it is none.
    fn list(&mut self, id: u32) -> Result<Option<Vec<u32>>, IndexError> {
        self.walk.read_slot(self.store, self.geometry, id, |slot| {
            Ok(match slot.state()? {
                SlotState::Node => Some(copy(slot.links()?)?),
                _ => None,
            })
        })
    }
}
