//! Looking for what must not be in an index.

use rag_pages::{Block, ReadPages};

use super::{
    Damage, Index, MAX_LEVELS, Tid,
    cells::Cells,
    index::Body,
    layout::{Geometry, Kind, NONE, Slot, Special, State},
    lost::{self, LinkSet},
    meta::Meta,
    overflow, reach,
};
use crate::{
    code::Metric,
    memory::{OutOfMemory, push},
    visited::Visited,
};

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub level: usize,
    pub block: Block,
    pub slot: Option<u16>,
    pub problem: String,
}

/// Share of the nodes that may be out of reach of links before that is a problem. Links are chosen
/// by neighbours, each for itself, so that a few nodes can be left without any; the sweep of a scan
/// finds them. With inner products that is the lot of many short vectors, which are not near to
/// anything, themselves included.
const OUT_OF_REACH: f64 = 0.01;

/// Reads the whole index and reports each problem; gives each heap row to `row`.
///
/// With writers at work it may report what is just being written.
///
/// # Errors
/// There is too little memory.
pub fn check(
    index: &Index,
    store: &impl ReadPages,
    row: &mut dyn FnMut(Tid),
    report: &mut dyn FnMut(Problem),
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
    match check.run(row) {
        Err(damage) if damage.is_out_of_memory() => return Err(OutOfMemory),
        Err(damage) => report(Problem {
            level: 0,
            block: damage.block,
            slot: None,
            problem: damage.problem,
        }),
        Ok(()) => {}
    }
    Ok(())
}

struct Check<'a, S> {
    body: &'a Body,
    store: &'a S,
    /// Level of each page of slots.
    pages: Vec<Option<usize>>,
    /// By level, the slots that a link may lead to.
    slots: Vec<Visited>,
    /// Slots of the base level that have rows.
    alive: Visited,
    /// Links of chains that are there, and those that a node leads to.
    there: LinkSet,
    led_to: LinkSet,
    report: &'a mut dyn FnMut(Problem),
}

impl<S: ReadPages> Check<'_, S> {
    fn run(&mut self, row: &mut dyn FnMut(Tid)) -> Result<(), Damage> {
        let meta = Meta::read(self.store)?;
        self.slots = (0..MAX_LEVELS).map(|_| Visited::new()).collect();
        let blocks = self.store.block_count();
        let mut nodes = 0;
        for block in 0..blocks {
            self.store.check_interrupts();
            match self.look(block) {
                Ok(found) => nodes += found,
                Err(damage) => self.damage(0, damage)?,
            }
        }
        for block in 1..blocks {
            self.store.check_interrupts();
            if let Some(level) = self.pages[block as usize]
                && let Err(damage) = self.check_page(level, block, row)
            {
                self.damage(level, damage)?;
            }
        }
        self.check_lost()?;
        self.check_meta(&meta, nodes);
        self.check_reach(nodes)
    }

    /// Reports what is wrong with a page; only what is not about pages goes on.
    fn damage(&mut self, level: usize, damage: Damage) -> Result<(), Damage> {
        if damage.is_out_of_memory() {
            return Err(damage);
        }
        (self.report)(Problem {
            level,
            block: damage.block,
            slot: None,
            problem: damage.problem,
        });
        Ok(())
    }

    fn problem(&mut self, level: usize, id: u32, problem: String) {
        let geometry = self.body.level(level);
        let (block, slot) = (geometry.block(id), geometry.slot(id) as u16);
        (self.report)(Problem {
            level,
            block,
            slot: Some(slot),
            problem,
        });
    }

    /// Notes what a page is and which slots are in use; returns the nodes of the base level.
    fn look(&mut self, block: Block) -> Result<u64, Damage> {
        push(&mut self.pages, None).map_err(Damage::of_memory)?;
        let (body, slots, alive) = (self.body, &mut self.slots, &mut self.alive);
        let (level, nodes) = self.store.read(block, |page| {
            let special = Special::read(page, block)?;
            let level = usize::from(special.level);
            if (special.kind == Kind::Meta) != (block == 0)
                || (special.kind == Kind::Slots && level >= MAX_LEVELS)
            {
                return Err(Damage::new(block, "it is of a kind that cannot be here"));
            }
            if special.kind == Kind::Cells {
                let used = Cells::open(page, block)?.used().count();
                if used != usize::from(special.used) {
                    return Err(Damage::new(
                        block,
                        format!("it counts {} cells in use, but has {used}", special.used),
                    ));
                }
            }
            if special.kind != Kind::Slots {
                return Ok((None, 0));
            }
            let geometry = body.level(level);
            let (mut used, mut nodes) = (0, 0);
            for slot in geometry.open(page, block)?.slots() {
                let (i, slot) = slot?;
                let state = slot.state()?;
                used += u16::from(state != State::Free);
                if matches!(state, State::Node | State::Tombstone) {
                    slots[level]
                        .insert(geometry.id(block, i))
                        .map_err(Damage::of_memory)?;
                    if level == 0 && state == State::Node {
                        alive
                            .insert(geometry.id(block, i))
                            .map_err(Damage::of_memory)?;
                        nodes += 1;
                    }
                }
            }
            if used != special.used {
                return Err(Damage::new(
                    block,
                    format!("it counts {} slots in use, but has {used}", special.used),
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
    ) -> Result<(), Damage> {
        let geometry = self.body.level(level);
        let mut problems: Vec<(u32, String)> = vec![];
        let mut chains: Vec<(u32, u32)> = vec![];
        let known = &self.slots;
        self.store.read(block, |page| {
            for slot in geometry.open(page, block)?.slots() {
                let (i, slot) = slot?;
                let id = geometry.id(block, i);
                let state = slot.state()?;
                if !matches!(state, State::Node | State::Tombstone) {
                    continue;
                }
                let mut problem = |text: String| problems.push((id, text));
                check_slot(geometry, known, id, &slot, &mut problem)?;
                if level == 0 && slot.has_overflow() {
                    chains.push((id, slot.down()));
                } else if level == 0 && state == State::Node {
                    match slot.tid().offset {
                        0 => problem("its heap row is at no offset".to_string()),
                        _ => row(slot.tid()),
                    }
                }
            }
            Ok(())
        })?;
        for (id, chain) in chains {
            let led_to = &mut self.led_to;
            let mut rows = vec![];
            let walked = overflow::walk(self.store, geometry, chain, |id, found| {
                led_to.insert(id)?;
                for tid in found {
                    push(&mut rows, tid)?;
                }
                Ok(())
            });
            match walked {
                Ok(()) => rows.into_iter().for_each(&mut *row),
                Err(damage) if damage.is_out_of_memory() => return Err(damage),
                Err(damage) => problems.push((id, damage.problem)),
            }
        }
        for (id, text) in problems {
            self.problem(level, id, text);
        }
        Ok(())
    }

    /// Reports links of chains that no node leads to.
    fn check_lost(&mut self) -> Result<(), Damage> {
        let mut lost: Vec<u32> = self
            .there
            .iter()
            .filter(|id| !self.led_to.contains(*id))
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        // Writers may have made some of them meanwhile, for nodes that were looked at before: look
        // once more.
        let (mut there, mut led_to, mut firsts) = (LinkSet::default(), LinkSet::default(), vec![]);
        for block in 1..self.store.block_count() {
            self.store.check_interrupts();
            lost::look(self.body, self.store, block, &mut there, &mut firsts)?;
            lost::follow(self.body, self.store, &mut firsts, &mut led_to)?;
        }
        lost.retain(|id| there.contains(*id) && !led_to.contains(*id));
        for id in lost {
            let (block, slot) = overflow::place_of(self.body.base(), id);
            let problem =
                "it holds rows of a node, but no node leads to it; VACUUM frees it".to_string();
            (self.report)(Problem {
                level: 0,
                block,
                slot: Some(slot as u16),
                problem,
            });
        }
        Ok(())
    }

    fn check_meta(&mut self, meta: &Meta, nodes: u64) {
        let top = meta.top_level as usize;
        let wrong = match meta.entry {
            NONE => (nodes > 0).then(|| "there are nodes, but no entry point".to_string()),
            entry => (!self.slots[top].contains(entry))
                .then(|| format!("the entry point {entry} is no node")),
        };
        let mut wrong: Vec<String> = wrong.into_iter().collect();
        for (level, &block) in meta.insert_block.iter().enumerate() {
            if block != NONE && self.pages.get(block as usize).copied().flatten() != Some(level) {
                wrong.push(format!(
                    "the page for new nodes of level {level}, {block}, is none of that level"
                ));
            }
        }
        for problem in wrong {
            (self.report)(Problem {
                level: top,
                block: 0,
                slot: None,
                problem,
            });
        }
    }

    fn check_reach(&mut self, nodes: u64) -> Result<(), Damage> {
        let levels = match reach::reachable(self.body, self.store, self.store) {
            Ok(levels) => levels,
            Err(damage) => return self.damage(0, damage),
        };
        let Some(reached) = levels
            .first()
            .filter(|_| self.body.quantizer.metric() != Metric::InnerProduct)
        else {
            return Ok(());
        };
        let missing = self
            .alive
            .iter()
            .filter(|id| !reached.contains(*id))
            .count();
        if missing as f64 > OUT_OF_REACH * nodes as f64 && missing > 1 {
            let problem =
                format!("{missing} of {nodes} nodes cannot be reached from the entry point");
            (self.report)(Problem {
                level: 0,
                block: 0,
                slot: None,
                problem,
            });
        }
        Ok(())
    }
}

fn check_slot(
    geometry: &Geometry,
    known: &[Visited],
    id: u32,
    slot: &Slot<'_>,
    problem: &mut dyn FnMut(String),
) -> Result<(), Damage> {
    let level = usize::from(geometry.level);
    let factors = slot.factors();
    if !factors.scale.is_finite() || !factors.bias.is_finite() {
        problem("its factors are not finite".to_string());
    }
    if level > 0 && !known[level - 1].contains(slot.down()) {
        problem(format!(
            "it leads down to {}, which is no node",
            slot.down()
        ));
    }
    // tombstones may link to what a repair has freed before it was stopped
    let is_node = slot.state()? == State::Node;
    let mut links: Vec<u32> = slot.links()?.collect();
    for link in &links {
        if *link == id {
            problem("it links to itself".to_string());
        } else if !known[level].contains(*link) && is_node {
            problem(format!("it links to {link}, which is no node"));
        }
    }
    let count = links.len();
    links.sort_unstable();
    links.dedup();
    if links.len() < count {
        problem("it links twice to the same node".to_string());
    }
    Ok(())
}
