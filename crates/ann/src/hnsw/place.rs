//! Writes a graph that was built in memory: the meta page, the centroid, then the pages of each
//! level in the graph's page order, the base first.

use rag_pages::{Block, WritePages};

use super::{
    IndexParameters, MAX_LEVELS, Tid,
    layout::{CENTROID_ELEMENTS, Geometry, NONE, write_centroid},
    meta::MetaPage,
    slots::Target,
};
use crate::{
    code::Quantizer,
    graph::{BuildError, Graph, Node},
    memory::{self, OutOfMemory, push},
};

/// Writes a built graph into a store without pages. `tids` has the heap row of each of the graph's
/// nodes. `threads` threads find the order of pages. Meanwhile `tick` is called as by
/// [`Graph::build`].
///
/// # Errors
/// `tick` returned false, or there is too little memory. The index is not complete then.
pub fn place(
    store: &impl WritePages,
    description: &IndexParameters,
    quantizer: &Quantizer,
    graph: &Graph<'_>,
    tids: &[Tid],
    threads: usize,
    tick: &mut dyn FnMut() -> bool,
) -> Result<(), BuildError> {
    let mut meta = MetaPage::new(*description);
    meta.dimensions = quantizer.dimensions() as u32;
    meta.code_dimensions = quantizer.code_dimensions() as u32;
    meta.create(store);
    if quantizer.centroid().iter().any(|x| *x != 0.0) {
        meta.centroid = append_centroid(store, quantizer.centroid());
    }
    let code_bytes = quantizer.code_bytes();
    let base = Geometry::of_level(0, code_bytes, description.m);
    let order = graph.page_order(base.slots, threads, tick)?;
    meta.nodes = order.len() as u64;

    let mut first = store.block_count();
    let chains = Chains::new(graph, tids, base.overflow_rows(), |i| {
        id_at(&base, first, order.len() + i)
    })?;
    let mut ids = ids_of(&base, first, &order, graph.len())?;
    let mut below: Vec<u32> = vec![];
    let mut links: Vec<u32> = vec![];
    for level in 0..MAX_LEVELS {
        let geometry = &Geometry::of_level(level, code_bytes, description.m);
        let above: Vec<Node>;
        let (nodes, parts) = if level == 0 {
            (order.as_slice(), chains.parts.as_slice())
        } else {
            above = memory::collect(
                order
                    .iter()
                    .copied()
                    .filter(|node| graph.level(*node) >= level),
            )?;
            (above.as_slice(), &[][..])
        };
        if level > 0 {
            if nodes.is_empty() {
                break;
            }
            first = store.block_count();
            below = std::mem::replace(&mut ids, ids_of(geometry, first, nodes, graph.len())?);
        }
        if let Some(entry) = graph
            .entry()
            .map(|node| ids[node as usize])
            .filter(|id| *id != NONE)
        {
            (meta.entry, meta.top_level) = (entry, level as u32);
        }
        let count = nodes.len() + parts.len();
        for begin in (0..count).step_by(geometry.slots) {
            store.check_interrupts();
            let end = count.min(begin + geometry.slots);
            let last = store.append(|block, page| {
                geometry.init(page);
                let Ok(mut slots) = geometry.open_mut(page, block) else {
                    return;
                };
                for (slot, i) in (begin..end).enumerate() {
                    let Some(node) = nodes.get(i) else {
                        let part = &parts[i - nodes.len()];
                        slots.put_overflow(slot, &chains.rows[part.begin..part.end], part.next);
                        continue;
                    };
                    let target = match (level, chains.of(*node)) {
                        (0, Some(chain)) => Target::Overflow(chain),
                        (0, None) => Target::Row(tids[*node as usize]),
                        _ => Target::Slot(below[*node as usize]),
                    };
                    links.clear();
                    links.extend(
                        graph
                            .links(*node, level)
                            .iter()
                            .map(|link| ids[*link as usize]),
                    );
                    links.sort_unstable();
                    slots.put_node(
                        slot,
                        graph.code(*node),
                        graph.factors(*node),
                        target,
                        &links,
                    );
                }
            });
            meta.insert_block[level] = if end - begin < geometry.slots {
                last
            } else {
                NONE
            };
        }
    }
    // The meta page was written above, so it cannot be corrupted.
    let _ = MetaPage::update(store, |written| {
        *written = meta;
        true
    });
    Ok(())
}

/// Writes a centroid onto new pages. Returns the first of them.
pub(super) fn append_centroid(store: &impl WritePages, centroid: &[f32]) -> Block {
    let mut first = NONE;
    for elements in centroid.chunks(CENTROID_ELEMENTS) {
        let block = store.append(|_, page| write_centroid(page, elements));
        first = first.min(block);
    }
    first
}

/// Rows of equal vectors.
struct Chains {
    /// Rows of the same vector follow each other.
    rows: Vec<Tid>,
    /// The contents of one slot each.
    parts: Vec<Part>,
    /// The first slot of each node that has several rows, in ascending order of nodes.
    heads: Vec<(Node, u32)>,
}

/// Rows of one slot, by their places in [`Chains::rows`], and the slot after it.
struct Part {
    begin: usize,
    end: usize,
    next: u32,
}

impl Chains {
    /// `id_of` returns the slot of a part.
    fn new(
        graph: &Graph<'_>,
        tids: &[Tid],
        rows_of_slot: usize,
        id_of: impl Fn(usize) -> u32,
    ) -> Result<Self, OutOfMemory> {
        let mut equal: Vec<(Node, Node)> = vec![];
        for node in 0..graph.len() as Node {
            if let Some(first) = graph.duplicate_of(node) {
                push(&mut equal, (first, node))?;
            }
        }
        equal.sort_unstable();
        let mut chains = Self {
            rows: vec![],
            parts: vec![],
            heads: vec![],
        };
        for group in equal.chunk_by(|a, b| a.0 == b.0) {
            let first = group[0].0;
            let begin = chains.rows.len();
            for node in [first]
                .into_iter()
                .chain(group.iter().map(|(_, node)| *node))
            {
                push(&mut chains.rows, tids[node as usize])?;
            }
            let (mut next, all) = (NONE, chains.rows.len());
            for begin in (begin..all).step_by(rows_of_slot) {
                let id = id_of(chains.parts.len());
                push(
                    &mut chains.parts,
                    Part {
                        begin,
                        end: all.min(begin + rows_of_slot),
                        next,
                    },
                )?;
                next = id;
            }
            push(&mut chains.heads, (first, next))?;
        }
        Ok(chains)
    }

    /// Returns the first slot of a node's rows, if it has several rows.
    fn of(&self, node: Node) -> Option<u32> {
        let place = self
            .heads
            .binary_search_by_key(&node, |(first, _)| *first)
            .ok()?;
        Some(self.heads[place].1)
    }
}

/// Returns the id of the `i`th slot of consecutive pages from `first`.
fn id_at(geometry: &Geometry, first: Block, i: usize) -> u32 {
    geometry.id(first + (i / geometry.slots) as u32, i % geometry.slots)
}

/// Returns the ids of nodes that fill pages from `first`, by node, and [`NONE`] for all others.
fn ids_of(
    geometry: &Geometry,
    first: Block,
    nodes: &[Node],
    count: usize,
) -> Result<Vec<u32>, OutOfMemory> {
    let mut ids = memory::filled(count, NONE)?;
    for (i, node) in nodes.iter().enumerate() {
        ids[*node as usize] = id_at(geometry, first, i);
    }
    Ok(ids)
}
