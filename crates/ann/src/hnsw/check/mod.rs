//! Finds everything in an index that is not as it should be.

mod confirm;
mod doubled;

pub use doubled::RowPlaces;

use std::{thread, time::Duration};

use rag_pages::{Block, ReadPages};

use super::{
    Index, IndexError, MAX_LEVELS, Tid,
    cells::Cells,
    index::Body,
    layout::{Geometry, NONE, PageKind, SpecialSpace},
    lost::{self, LinkSet},
    meta::MetaPage,
    overflow, reach,
    slots::{Slot, SlotState},
};
use crate::{
    code::Metric,
    memory::{OutOfMemory, push},
    visited::Visited,
};
use confirm::Suspicion;

/// A problem in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexProblem {
    pub level: usize,
    pub block: Block,
    pub slot: Option<u16>,
    pub problem: String,
}

/// Share of the nodes that links may fail to reach before that is a problem. Each node chooses its
/// own links, so that a few nodes can be left without any. The sweep of a scan finds them. With
/// inner products this happens to many short vectors, which are not near to anything, not even to
/// themselves.
const OUT_OF_REACH: f64 = 0.01;

/// Milliseconds of the pauses before the index is read again, if links of chains seem to be lost or
/// nodes cannot be reached. VACUUM frees hundreds of links together when it replaces chains, and
/// inserts use the slots again at once. It relinks the neighbours of dead nodes page after page.
const PAUSES: [u64; 4] = [1, 10, 50, 200];

/// Reads the whole index. Calls `report` with each problem and `row` with each heap row.
///
/// Other sessions may write meanwhile. What looks wrong since they have changed it is looked at
/// again, and not reported.
///
/// # Errors
/// There is too little memory.
pub fn check(
    index: &Index,
    store: &impl ReadPages,
    row: &mut dyn FnMut(Tid),
    report: &mut dyn FnMut(IndexProblem),
) -> Result<(), OutOfMemory> {
    let Some(body) = index.body() else {
        return Ok(());
    };
    let mut check = Check {
        body,
        store,
        pages: vec![],
        slots: vec![],
        alive: Visited::new(),
        there: LinkSet::default(),
        led_to: LinkSet::default(),
        report,
    };
    let Err(error) = check.run(row) else {
        return Ok(());
    };
    let (block, problem) = error.into_problem().map_err(|_| OutOfMemory)?;
    report(IndexProblem {
        level: 0,
        block,
        slot: None,
        problem,
    });
    Ok(())
}

struct Check<'a, S> {
    body: &'a Body,
    store: &'a S,
    /// Level of each page of slots.
    pages: Vec<Option<usize>>,
    /// The slots that a link may lead to, by level.
    slots: Vec<Visited>,
    /// Slots of the base level that have rows.
    alive: Visited,
    /// Existing links of chains, and those that a node leads to.
    there: LinkSet,
    led_to: LinkSet,
    report: &'a mut dyn FnMut(IndexProblem),
}

impl<S: ReadPages> Check<'_, S> {
    fn run(&mut self, row: &mut dyn FnMut(Tid)) -> Result<(), IndexError> {
        self.slots = (0..MAX_LEVELS).map(|_| Visited::new()).collect();
        let blocks = self.store.block_count();
        let mut nodes = 0;
        for block in 0..blocks {
            self.store.check_interrupts();
            match self.look(block) {
                Ok(found) => nodes += found,
                Err(error) => self.report_error(0, error)?,
            }
        }
        for block in 1..blocks {
            self.store.check_interrupts();
            if let Some(level) = self.pages[block as usize]
                && let Err(error) = self.check_page(level, block, row)
            {
                self.report_error(level, error)?;
            }
        }
        self.check_lost()?;
        self.check_meta()?;
        self.check_reach(nodes)
    }

    /// Reports an error that is about a page, and returns any other.
    fn report_error(&mut self, level: usize, error: IndexError) -> Result<(), IndexError> {
        let (block, problem) = error.into_problem()?;
        (self.report)(IndexProblem {
            level,
            block,
            slot: None,
            problem,
        });
        Ok(())
    }

    fn problem(&mut self, level: usize, id: u32, problem: String) {
        let geometry = self.body.level(level);
        let (block, slot) = (geometry.block(id), geometry.slot(id) as u16);
        (self.report)(IndexProblem {
            level,
            block,
            slot: Some(slot),
            problem,
        });
    }

    /// Records the kind of a page and which slots are in use. Returns the number of nodes of the
    /// base level.
    fn look(&mut self, block: Block) -> Result<u64, IndexError> {
        push(&mut self.pages, None).map_err(IndexError::of_memory)?;
        let (body, slots, alive) = (self.body, &mut self.slots, &mut self.alive);
        let (level, nodes) = self.store.read(block, |page| {
            let special = SpecialSpace::read(page, block)?;
            let level = usize::from(special.level);
            if (special.kind == PageKind::MetaPage) != (block == 0)
                || (special.kind == PageKind::Slots && level >= MAX_LEVELS)
            {
                return Err(IndexError::corrupted(block, "unexpected kind of page"));
            }
            if special.kind == PageKind::Cells {
                let used = Cells::open(page, block)?.used().count();
                if used != usize::from(special.used) {
                    return Err(IndexError::corrupted(
                        block,
                        format!("page counts {} used cells, but has {used}", special.used),
                    ));
                }
            }
            if special.kind != PageKind::Slots {
                return Ok((None, 0));
            }
            let geometry = body.level(level);
            let (mut used, mut nodes) = (0, 0);
            for slot in geometry.open(page, block)?.slots() {
                let (i, slot) = slot?;
                let state = slot.state()?;
                used += u16::from(state != SlotState::Free);
                if state.has_code() {
                    slots[level]
                        .insert(geometry.id(block, i))
                        .map_err(IndexError::of_memory)?;
                    if level == 0 && state == SlotState::Node {
                        alive
                            .insert(geometry.id(block, i))
                            .map_err(IndexError::of_memory)?;
                        nodes += 1;
                    }
                }
            }
            if used != special.used {
                return Err(IndexError::corrupted(
                    block,
                    format!("page counts {} used slots, but has {used}", special.used),
                ));
            }
            Ok((Some(level), nodes))
        })?;
        self.pages[block as usize] = level;
        lost::look(self.body, self.store, block, &mut self.there, &mut vec![])?;
        Ok(nodes)
    }

    fn check_page(
        &mut self,
        level: usize,
        block: Block,
        row: &mut dyn FnMut(Tid),
    ) -> Result<(), IndexError> {
        let geometry = self.body.level(level);
        let mut suspicions: Vec<(u32, Suspicion)> = vec![];
        let mut chains: Vec<u32> = vec![];
        let known = &self.slots;
        self.store.read(block, |page| {
            for slot in geometry.open(page, block)?.slots() {
                let (i, slot) = slot?;
                let id = geometry.id(block, i);
                let state = slot.state()?;
                if !state.has_code() {
                    continue;
                }
                let mut suspect = |suspicion| suspicions.push((id, suspicion));
                check_slot(geometry, known, id, &slot, &mut suspect)?;
                if level == 0 && slot.has_overflow() {
                    chains.push(id);
                } else if level == 0 && state == SlotState::Node {
                    match slot.tid().offset {
                        0 => suspect("heap row has no valid offset".into()),
                        _ => row(slot.tid()),
                    }
                }
            }
            Ok(())
        })?;
        for id in chains {
            match self.rows_of_chain(id) {
                Ok(rows) => rows.into_iter().for_each(&mut *row),
                Err(error) => suspicions.push((id, error.into_problem()?.1.into())),
            }
        }
        for (id, suspicion) in suspicions {
            if let Some(problem) = self.confirm(level, id, suspicion)? {
                self.problem(level, id, problem);
            }
        }
        Ok(())
    }

    /// Reports links of chains that no node leads to.
    fn check_lost(&mut self) -> Result<(), IndexError> {
        let lost = self.there.without(&self.led_to);
        let mut lost = lost.map_err(IndexError::of_memory)?;
        for pause in PAUSES {
            if lost.is_empty() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(pause));
            self.store.check_interrupts();
            self.leave_out_found(&mut lost)?;
        }
        for id in lost {
            let (block, slot) = overflow::place_of(self.body.base(), id);
            let problem =
                "no node leads to it, although it holds heap rows; VACUUM will free it".to_string();
            (self.report)(IndexProblem {
                level: 0,
                block,
                slot: Some(slot as u16),
                problem,
            });
        }
        Ok(())
    }

    /// Leaves out the links that a node leads to now, or that are gone. Inserts may have created
    /// some of them for nodes that were read before.
    fn leave_out_found(&self, lost: &mut Vec<u32>) -> Result<(), IndexError> {
        let (mut there, mut led_to, mut firsts) = (LinkSet::default(), LinkSet::default(), vec![]);
        for block in 1..self.store.block_count() {
            self.store.check_interrupts();
            lost::look(self.body, self.store, block, &mut there, &mut firsts)?;
            lost::follow(self.body, self.store, &mut firsts, &mut led_to)?;
        }
        lost.retain(|id| there.contains(*id) && !led_to.contains(*id));
        Ok(())
    }

    /// Checks the first page, which is read now: it leads to nothing that was freed before.
    fn check_meta(&mut self) -> Result<(), IndexError> {
        let mut meta = MetaPage::read(self.store)?;
        let mut wrong = self.wrong_entry(&meta)?;
        if wrong.is_some() {
            // Vacuum may have moved the entry point since, or have removed the last node.
            meta = MetaPage::read(self.store)?;
            wrong = self.wrong_entry(&meta)?;
        }
        let mut wrong: Vec<String> = wrong.into_iter().collect();
        for (level, &block) in meta.insert_block.iter().enumerate() {
            if block != NONE && self.level_of(block)? != Some(level) {
                wrong.push(format!(
                    "insert page {block} of level {level} does not belong to that level"
                ));
            }
        }
        for problem in wrong {
            (self.report)(IndexProblem {
                level: meta.top_level as usize,
                block: 0,
                slot: None,
                problem,
            });
        }
        Ok(())
    }

    fn wrong_entry(&self, meta: &MetaPage) -> Result<Option<String>, IndexError> {
        let top = meta.top_level as usize;
        if meta.entry != NONE {
            let is_node = self
                .state(top, meta.entry)?
                .is_some_and(SlotState::has_code);
            return Ok((!is_node).then(|| format!("the entry point {} is not a node", meta.entry)));
        }
        for id in self.alive.iter() {
            if self.state(0, id)? == Some(SlotState::Node) {
                return Ok(Some("the index has nodes, but no entry point".to_string()));
            }
        }
        Ok(None)
    }

    fn check_reach(&mut self, nodes: u64) -> Result<(), IndexError> {
        if self.body.quantizer.metric() == Metric::InnerProduct {
            return Ok(());
        }
        let missing = match self.count_unreached(nodes) {
            Ok(0) => return Ok(()),
            Ok(missing) => missing,
            Err(error) => return self.report_error(0, error),
        };
        (self.report)(IndexProblem {
            level: 0,
            block: 0,
            slot: None,
            problem: format!("{missing} of {nodes} nodes cannot be reached from the entry point"),
        });
        Ok(())
    }

    /// Returns the number of nodes that cannot be reached, or 0 if these are no problem.
    fn count_unreached(&self, nodes: u64) -> Result<usize, IndexError> {
        let are_few = |missing: &[u32]| {
            missing.len() < 2 || missing.len() as f64 <= OUT_OF_REACH * nodes as f64
        };
        let mut missing = self.unreached(self.alive.iter())?;
        for pause in PAUSES {
            if are_few(&missing) {
                return Ok(0);
            }
            thread::sleep(Duration::from_millis(pause));
            missing = self.unreached(missing.into_iter())?;
        }
        Ok(if are_few(&missing) { 0 } else { missing.len() })
    }

    /// Returns those of the nodes that are still there and that cannot be reached. A tombstone that
    /// led to one may have been freed between a look at a node that linked to it and a look at its
    /// own links.
    fn unreached(&self, nodes: impl Iterator<Item = u32>) -> Result<Vec<u32>, IndexError> {
        let mut unreached = vec![];
        let Some(reached) = reach::reachable(self.body, self.store, self.store)? else {
            return Ok(unreached);
        };
        for id in nodes.filter(|id| !reached.contains(*id)) {
            self.store.check_interrupts();
            if self.state(0, id)? == Some(SlotState::Node) {
                push(&mut unreached, id).map_err(IndexError::of_memory)?;
            }
        }
        Ok(unreached)
    }
}

fn check_slot(
    geometry: &Geometry,
    known: &[Visited],
    id: u32,
    slot: &Slot<'_>,
    suspect: &mut dyn FnMut(Suspicion),
) -> Result<(), IndexError> {
    let level = usize::from(geometry.level);
    let factors = slot.factors();
    if !factors.scale.is_finite() || !factors.bias.is_finite() {
        suspect("factors are not finite".into());
    }
    if level > 0 && !known[level - 1].contains(slot.down()) {
        suspect(Suspicion::Down(slot.down()));
    }
    // Tombstones may link to slots that an unfinished repair has freed.
    let is_node = slot.state()? == SlotState::Node;
    let mut links: Vec<u32> = slot.links()?.collect();
    for link in &links {
        if *link == id {
            suspect("links to itself".into());
        } else if !known[level].contains(*link) && is_node {
            suspect(Suspicion::Link(*link));
        }
    }
    let count = links.len();
    links.sort_unstable();
    links.dedup();
    if links.len() < count {
        suspect("links twice to the same node".into());
    }
    Ok(())
}
