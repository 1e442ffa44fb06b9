//! Choosing a node's neighbours, and linking back to a new one.

use rag_pages::{ReadPages, WritePages};

use super::{
    IndexError,
    allocate::change,
    index::Body,
    layout::{Geometry, max_links},
    slots::SlotState,
    walk::read_slot,
};
use crate::{
    code::{Factors, Query},
    select::{keep_far, select_diverse},
};

/// A node that may become a neighbour.
#[derive(Clone, Copy)]
struct Candidate {
    distance: f32,
    id: u32,
    /// The place of its code.
    place: usize,
}

/// A list of links that is to be replaced.
struct ChangedList {
    node: u32,
    old: Vec<u32>,
    links: Vec<u32>,
}

/// What becomes of a node's list that is to get a link.
enum WithLink {
    /// The link does not belong there, or the node has died.
    Refused,
    There,
    List(ChangedList),
}

/// Buffers for choosing links.
#[derive(Default)]
pub(super) struct Links {
    /// Codes of the candidates, one after another, in the order in which they were read.
    codes: Vec<u8>,
    factors: Vec<Factors>,
    /// Candidates that are nodes.
    candidates: Vec<Candidate>,
    /// Codes of the chosen candidates, prepared for comparison.
    chosen: Vec<Query>,
    node: Query,
    node_code: Vec<u8>,
}

impl Links {
    /// Returns the candidates that a node should link to, at most `limit`. Each is nearer to the
    /// node than to any chosen before. `found` are nodes of the level with their distances, nearest
    /// first.
    pub fn choose<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        found: &[(f32, u32)],
        limit: usize,
    ) -> Result<Vec<(f32, u32)>, IndexError> {
        self.load(body, store, level, found.iter().copied())?;
        let chosen = self.choose_loaded(body, limit);
        Ok(self.at(&chosen))
    }

    /// Returns the number of candidates that are nodes.
    pub fn alive(&self) -> usize {
        self.candidates.len()
    }

    /// The node that [`read_node`](Self::read_node) read, as a query.
    pub fn node(&self) -> &Query {
        &self.node
    }

    /// Reads the codes of the candidates that are nodes.
    fn load<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        found: impl Iterator<Item = (f32, u32)>,
    ) -> Result<(), IndexError> {
        let geometry = body.level(level);
        let blocks = store.block_count();
        self.codes.clear();
        self.factors.clear();
        self.candidates.clear();
        let (codes, factors, candidates) =
            (&mut self.codes, &mut self.factors, &mut self.candidates);
        for (distance, id) in found {
            let block = geometry.block(id);
            if block >= blocks {
                return Err(IndexError::corrupted(
                    block,
                    "a link leads to a page beyond the end of the index",
                ));
            }
            read_slot(store, geometry, block, id, |slot| {
                if slot.state()? == SlotState::Node {
                    codes.extend_from_slice(slot.code);
                    candidates.push(Candidate {
                        distance,
                        id,
                        place: factors.len(),
                    });
                    factors.push(slot.factors());
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Chooses among the loaded candidates, which are in order of distance. Returns their places.
    fn choose_loaded(&mut self, body: &Body, limit: usize) -> Vec<usize> {
        let bytes = body.quantizer.code_bytes();
        let code = |i: usize| {
            let place = self.candidates[i].place;
            let code = &self.codes[place * bytes..(place + 1) * bytes];
            (code, self.factors[place])
        };
        let distances = self.distances();
        let chosen = &mut self.chosen;
        let mut places = vec![None; distances.len()];
        let mut prepared = 0;
        let between = |candidate: usize, selected: usize| {
            // Each selected code is prepared once, when it is first compared with another.
            let place = *places[selected].get_or_insert_with(|| {
                if chosen.len() == prepared {
                    chosen.push(Query::default());
                }
                let (code, factors) = code(selected);
                body.quantizer
                    .prepare_from_code(code, factors, &mut chosen[prepared]);
                prepared += 1;
                prepared - 1
            });
            let (code, factors) = code(candidate);
            chosen[place].distance(code, factors)
        };
        select_diverse(&distances, limit, body.quantizer.metric(), between)
    }

    fn distances(&self) -> Vec<f32> {
        self.candidates
            .iter()
            .map(|candidate| candidate.distance)
            .collect()
    }

    fn at(&self, places: &[usize]) -> Vec<(f32, u32)> {
        let pair = |candidate: Candidate| (candidate.distance, candidate.id);
        places
            .iter()
            .map(|place| pair(self.candidates[*place]))
            .collect()
    }

    /// Adds links to `new` to the lists of its `neighbours`, nearest first, where they belong there
    /// or there is room. The lists of a page are written together. The nearest neighbour that can
    /// links back in any case: without a link, nothing would lead to the new node.
    pub fn link_back_all<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        neighbours: &[u32],
        new: u32,
    ) -> Result<(), IndexError> {
        let mut is_linked = false;
        let mut lists: Vec<ChangedList> = vec![];
        for &node in neighbours {
            match self.with_link(body, store, level, node, new, !is_linked)? {
                WithLink::Refused => {}
                WithLink::There => is_linked = true,
                WithLink::List(list) => {
                    is_linked = true;
                    lists.push(list);
                }
            }
        }
        let geometry = body.level(level);
        let mut written = 0;
        lists.sort_by_key(|list| geometry.block(list.node));
        for page in lists.chunk_by_mut(|a, b| geometry.block(a.node) == geometry.block(b.node)) {
            written += replace_all(store, geometry, page)?;
        }
        if written == lists.len() && is_linked {
            return Ok(());
        }
        // Others have changed some of the lists meanwhile.
        let mut must = true;
        for &node in neighbours {
            must &= !self.link_back(body, store, level, node, new, must)?;
        }
        Ok(())
    }

    /// Adds links, from the first node of each pair to the second, where they belong or there is
    /// room. The lists of a page are written together.
    pub fn link_pairs<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        mut pairs: Vec<(u32, u32)>,
    ) -> Result<(), IndexError> {
        let geometry = body.level(level);
        pairs.sort_unstable();
        for page in pairs.chunk_by(|a, b| geometry.block(a.0) == geometry.block(b.0)) {
            let mut waiting = page.to_vec();
            while !waiting.is_empty() {
                let mut lists: Vec<ChangedList> = vec![];
                let mut linked = vec![];
                // Of the links of a node one after another is added.
                for (node, new) in std::mem::take(&mut waiting) {
                    store.check_interrupts();
                    if lists.last().is_some_and(|list| list.node == node) {
                        waiting.push((node, new));
                    } else if let WithLink::List(list) =
                        self.with_link(body, store, level, node, new, false)?
                    {
                        lists.push(list);
                        linked.push((node, new));
                    }
                }
                if replace_all(store, geometry, &mut lists)? < lists.len() {
                    // Others have changed some of the lists meanwhile.
                    for (node, new) in linked {
                        self.link_back(body, store, level, node, new, false)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a link to `new` to a node's list, if it belongs there or there is room. With `must` it
    /// is added in any case. Returns true if the list has it now. A node that died meanwhile gets
    /// none.
    pub fn link_back<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        node: u32,
        new: u32,
        must: bool,
    ) -> Result<bool, IndexError> {
        const ATTEMPTS: usize = 10;
        for _ in 0..ATTEMPTS {
            let mut list = match self.with_link(body, store, level, node, new, must)? {
                WithLink::Refused => return Ok(false),
                WithLink::There => return Ok(true),
                WithLink::List(list) => list,
            };
            if replace_all(store, body.level(level), std::slice::from_mut(&mut list))? == 1 {
                return Ok(true);
            }
        }
        Ok(false) // others change this list all the time
    }

    /// Returns the list that a node has with a link to `new`.
    fn with_link<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        node: u32,
        new: u32,
        must: bool,
    ) -> Result<WithLink, IndexError> {
        let limit = max_links(level, body.m);
        let Some(old) = self.read_node(body, store, level, node)? else {
            return Ok(WithLink::Refused);
        };
        if old.contains(&new) {
            return Ok(WithLink::There);
        }
        let links = if old.len() < limit {
            let mut links = old.clone();
            links.push(new);
            links
        } else {
            let links = self.pruned(body, store, level, &old, new, limit, must)?;
            if !links.contains(&new) {
                return Ok(WithLink::Refused); // it is nearer to others in the list
            }
            links
        };
        Ok(WithLink::List(ChangedList { node, old, links }))
    }

    /// Returns the links of a node, and prepares its code in `self.node`. Returns `None` if it is
    /// no longer a node.
    pub fn read_node<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        node: u32,
    ) -> Result<Option<Vec<u32>>, IndexError> {
        let geometry = body.level(level);
        let code = &mut self.node_code;
        let read = read_slot(store, geometry, geometry.block(node), node, |slot| {
            if slot.state()? != SlotState::Node {
                return Ok(None);
            }
            code.clear();
            code.extend_from_slice(slot.code);
            Ok(Some((slot.factors(), slot.links()?.collect())))
        })?;
        let Some((factors, links)) = read else {
            return Ok(None);
        };
        body.quantizer
            .prepare_from_code(&self.node_code, factors, &mut self.node);
        Ok(Some(links))
    }

    /// Chooses the links of the node that [`read_node`](Self::read_node) read, among `candidates`.
    /// They are ordered by id, so that those of a page are adjacent. On the base, links that lead
    /// out of a dense region are kept.
    pub fn choose_for_node<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        candidates: &[u32],
        limit: usize,
    ) -> Result<Vec<(f32, u32)>, IndexError> {
        self.load(body, store, level, candidates.iter().map(|id| (0.0, *id)))?;
        self.sort_loaded(body);
        let mut chosen = self.choose_loaded(body, limit);
        if level == 0 {
            let metric = body.quantizer.metric();
            keep_far(&mut chosen, &self.distances(), limit, metric);
        }
        Ok(self.at(&chosen))
    }

    /// Returns the farthest of some links of the node that [`read_node`](Self::read_node) read, or
    /// `None` if none of them leads to a node.
    pub fn farthest<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        links: &[u32],
    ) -> Result<Option<u32>, IndexError> {
        self.load(body, store, level, links.iter().map(|id| (0.0, *id)))?;
        self.sort_loaded(body);
        Ok(self.candidates.last().map(|candidate| candidate.id))
    }

    /// Measures the distances of the loaded candidates to the node, and sorts by them.
    fn sort_loaded(&mut self, body: &Body) {
        let bytes = body.quantizer.code_bytes();
        for candidate in &mut self.candidates {
            let place = candidate.place;
            let code = &self.codes[place * bytes..(place + 1) * bytes];
            candidate.distance = self.node.distance(code, self.factors[place]);
        }
        self.candidates
            .sort_by(|a, b| a.distance.total_cmp(&b.distance));
    }

    #[allow(clippy::too_many_arguments)]
    fn pruned<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        old: &[u32],
        new: u32,
        limit: usize,
        must: bool,
    ) -> Result<Vec<u32>, IndexError> {
        let candidates: Vec<u32> = old.iter().copied().chain([new]).collect();
        let chosen = self.choose_for_node(body, store, level, &candidates, limit)?;
        let mut links: Vec<u32> = chosen.into_iter().map(|(_, id)| id).collect();
        if must && !links.contains(&new) {
            // in the place of the farthest
            links.truncate(limit - 1);
            links.push(new);
        }
        links.sort_unstable();
        Ok(links)
    }
}

/// Replaces the list of a node, if it is still `old`. Returns true if it was.
pub(super) fn replace<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    node: u32,
    old: Vec<u32>,
    links: Vec<u32>,
) -> Result<bool, IndexError> {
    let mut list = ChangedList { node, old, links };
    Ok(replace_all(store, geometry, std::slice::from_mut(&mut list))? == 1)
}

/// Replaces the lists of nodes of a page, each if it is still the old one. Returns how many were.
fn replace_all<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    lists: &mut [ChangedList],
) -> Result<usize, IndexError> {
    let Some(first) = lists.first() else {
        return Ok(0);
    };
    let block = geometry.block(first.node);
    for list in &mut *lists {
        list.links.sort_unstable();
    }
    let replaced = change(store, geometry, block, |slots| {
        let mut replaced = 0;
        for list in &*lists {
            let slot = geometry.slot(list.node);
            let now = slots.slot(slot)?;
            if now.state()? == SlotState::Node && now.links()?.eq(list.old.iter().copied()) {
                slots.set_links(slot, &list.links);
                replaced += 1;
            }
        }
        Ok((replaced > 0).then_some(replaced))
    })?;
    Ok(replaced.unwrap_or(0))
}
