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

/// A link that is to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NewLink {
    pub from: u32,
    pub to: u32,
    /// It is added in any case, if the node is alive.
    pub must: bool,
}

/// What becomes of a node's list that is to get links.
enum WithLinks {
    /// They do not belong there, or the node has died.
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

    /// Adds links to new nodes to the lists of others, where they belong there or there is room.
    /// The lists of a page are written together, and the links of a list are chosen once. `linked`
    /// is called with the nodes that such links lead to now.
    pub fn link_all<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        links: &mut [NewLink],
        mut linked: impl FnMut(u32),
    ) -> Result<(), IndexError> {
        let geometry = body.level(level);
        links.sort_unstable();
        for page in links.chunk_by(|a, b| geometry.block(a.from) == geometry.block(b.from)) {
            store.check_interrupts();
            let mut lists: Vec<ChangedList> = vec![];
            let mut there = vec![];
            for of_node in page.chunk_by(|a, b| a.from == b.from) {
                let targets = of_node.iter().map(|link| link.to);
                match self.with_links(body, store, level, of_node)? {
                    WithLinks::Refused => {}
                    WithLinks::There => there.extend(targets),
                    WithLinks::List(list) => {
                        there.extend(targets.filter(|to| list.links.contains(to)));
                        lists.push(list);
                    }
                }
            }
            if replace_all(store, geometry, &mut lists)? == lists.len() {
                there.into_iter().for_each(&mut linked);
                continue;
            }
            // Others have changed some of the lists meanwhile.
            for link in page {
                if self.link_back(body, store, level, *link)? {
                    linked(link.to);
                }
            }
        }
        Ok(())
    }

    /// Adds links to `new` to the lists of its `neighbours`, nearest first, where they belong there
    /// or there is room. The nearest neighbour that can links back in any case: without a link,
    /// nothing would lead to the new node.
    pub fn link_back_all<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        neighbours: &[u32],
        new: u32,
    ) -> Result<(), IndexError> {
        let mut links: Vec<NewLink> = back_links(neighbours, new).collect();
        let mut is_linked = false;
        self.link_all(body, store, level, &mut links, |_| is_linked = true)?;
        if is_linked {
            return Ok(());
        }
        self.link_back_one(body, store, level, neighbours, new)
    }

    /// Adds a link to `new` to the list of the nearest of its `neighbours` that is alive.
    pub fn link_back_one<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        neighbours: &[u32],
        new: u32,
    ) -> Result<(), IndexError> {
        for &from in neighbours {
            let (to, must) = (new, true);
            if self.link_back(body, store, level, NewLink { from, to, must })? {
                break;
            }
        }
        Ok(())
    }

    /// Adds a link to a node's list. Returns true if the list has it now.
    pub fn link_back<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        link: NewLink,
    ) -> Result<bool, IndexError> {
        const ATTEMPTS: usize = 10;
        for _ in 0..ATTEMPTS {
            let mut list = match self.with_links(body, store, level, &[link])? {
                WithLinks::Refused => return Ok(false),
                WithLinks::There => return Ok(true),
                WithLinks::List(list) => list,
            };
            if replace_all(store, body.level(level), std::slice::from_mut(&mut list))? == 1 {
                return Ok(true);
            }
        }
        Ok(false) // others change this list all the time
    }

    /// Returns the list that a node has with new links, all of which come from it.
    fn with_links<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        new: &[NewLink],
    ) -> Result<WithLinks, IndexError> {
        let limit = max_links(level, body.m);
        let Some(node) = new.first().map(|link| link.from) else {
            return Ok(WithLinks::Refused);
        };
        let Some(old) = self.read_node(body, store, level, node)? else {
            return Ok(WithLinks::Refused);
        };
        let missing = new.iter().filter(|link| !old.contains(&link.to));
        let missing: Vec<NewLink> = missing.copied().collect();
        if missing.is_empty() {
            return Ok(WithLinks::There);
        }
        let mut links = old.clone();
        links.extend(missing.iter().map(|link| link.to));
        if links.len() > limit {
            links = self.pruned(body, store, level, &links, &missing, limit)?;
            if !missing.iter().any(|link| links.contains(&link.to)) {
                return Ok(WithLinks::Refused); // they are nearer to others in the list
            }
        }
        Ok(WithLinks::List(ChangedList { node, old, links }))
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

    /// Chooses among `candidates`, which are the links of a node with `new` ones.
    fn pruned<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        candidates: &[u32],
        new: &[NewLink],
        limit: usize,
    ) -> Result<Vec<u32>, IndexError> {
        let chosen = self.choose_for_node(body, store, level, candidates, limit)?;
        let mut links: Vec<u32> = chosen.into_iter().map(|(_, id)| id).collect();
        let musts = new.iter().filter(|link| link.must).map(|link| link.to);
        let musts: Vec<u32> = musts.filter(|to| !links.contains(to)).collect();
        // in the place of the farthest
        links.truncate(limit.saturating_sub(musts.len()));
        links.extend(musts.into_iter().take(limit));
        Ok(links)
    }
}

/// Returns the links to a new node from its neighbours, nearest first. The first one must be added.
pub(super) fn back_links(neighbours: &[u32], new: u32) -> impl Iterator<Item = NewLink> {
    let links = neighbours.iter().enumerate();
    links.map(move |(i, from)| NewLink {
        from: *from,
        to: new,
        must: i == 0,
    })
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
