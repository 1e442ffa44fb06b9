//! Writing a graph that was built in memory: the first page, the centroid, then each level's pages in the graph's page
//! order, the base first.

use std::collections::HashMap;

use rag_pages::{Block, WritePages};

use super::{
    Description, MAX_LEVELS, Tid,
    layout::{CENTROID_ELEMENTS, Geometry, NONE, Target, write_centroid},
    meta::Meta,
};
use crate::{
    code::Quantizer,
    graph::{Graph, Node},
};

/// What goes into one slot.
enum Item {
    Node(Node),
    Overflow { rows: Vec<Tid>, next: u32 },
}

/// Writes a built graph into a store without pages. `tids`: the heap row of each of the graph's nodes.
pub fn place(
    store: &impl WritePages,
    description: &Description,
    quantizer: &Quantizer,
    graph: &Graph<'_>,
    tids: &[Tid],
) {
    let mut meta = Meta::new(*description);
    meta.dimensions = quantizer.dimensions() as u32;
    meta.code_dimensions = quantizer.code_dimensions() as u32;
    meta.create(store);
    if quantizer.centroid().iter().any(|x| *x != 0.0) {
        meta.centroid = store.block_count();
        for elements in quantizer.centroid().chunks(CENTROID_ELEMENTS) {
            store.append(|_, page| write_centroid(page, elements));
        }
    }
    let code_bytes = quantizer.code_bytes();
    let base = Geometry::of_level(0, code_bytes, description.m);
    let order = graph.page_order(base.slots);
    meta.nodes = order.len() as u64;

    // Rows of equal vectors, by the node that stands for them.
    let mut rows: HashMap<Node, Vec<Tid>> = HashMap::new();
    for (node, tid) in (0..).zip(tids) {
        if let Some(first) = graph.duplicate_of(node) {
            rows.entry(first).or_insert_with(|| tids.get(first as usize).copied().into_iter().collect()).push(*tid);
        }
    }

    let mut items: Vec<Item> = order.iter().copied().map(Item::Node).collect();
    let first = store.block_count();
    let mut chains: HashMap<Node, u32> = HashMap::new();
    for (node, rows) in rows {
        let mut next = NONE;
        for part in rows.chunks(base.overflow_rows()) {
            let id = id_at(&base, first, items.len());
            items.push(Item::Overflow { rows: part.to_vec(), next });
            next = id;
        }
        chains.insert(node, next);
    }

    let mut ids = ids_of(&base, first, &order, graph.len());
    let mut below: Vec<u32> = vec![];
    let entry = graph.entry();
    for level in 0..MAX_LEVELS {
        let geometry = &Geometry::of_level(level, code_bytes, description.m);
        if level > 0 {
            let first = store.block_count();
            let nodes: Vec<Node> = order.iter().copied().filter(|node| graph.level(*node) >= level).collect();
            if nodes.is_empty() {
                break;
            }
            below = std::mem::replace(&mut ids, ids_of(geometry, first, &nodes, graph.len()));
            items = nodes.into_iter().map(Item::Node).collect();
        }
        if let Some(entry) = entry.map(|node| ids[node as usize]).filter(|id| *id != NONE) {
            (meta.entry, meta.top_level) = (entry, level as u32);
        }
        for page_items in items.chunks(geometry.slots) {
            store.check_interrupts();
            let last = store.append(|block, page| {
                geometry.init(page);
                let Ok(mut slots) = geometry.open_mut(page, block) else { return };
                for (slot, item) in page_items.iter().enumerate() {
                    match item {
                        Item::Overflow { rows, next } => slots.put_overflow(slot, rows, *next),
                        Item::Node(node) => {
                            let target = match (level, chains.get(node)) {
                                (0, Some(chain)) => Target::Overflow(*chain),
                                (0, None) => Target::Row(tids[*node as usize]),
                                _ => Target::Slot(below[*node as usize]),
                            };
                            let mut links: Vec<u32> =
                                graph.links(*node, level).iter().map(|link| ids[*link as usize]).collect();
                            links.sort_unstable();
                            slots.put_node(slot, graph.code(*node), graph.factors(*node), target, &links);
                        }
                    }
                }
            });
            meta.insert_block[level] = if page_items.len() < geometry.slots { last } else { NONE };
        }
    }
    // The first page cannot be damaged: it was written above.
    let _ = Meta::update(store, |written| {
        *written = meta;
        true
    });
}

/// The id of the `i`th slot of pages that follow each other from `first`.
fn id_at(geometry: &Geometry, first: Block, i: usize) -> u32 {
    geometry.id(first + (i / geometry.slots) as u32, i % geometry.slots)
}

/// The ids of nodes that fill pages from `first`, by node; [`NONE`] for all others.
fn ids_of(geometry: &Geometry, first: Block, nodes: &[Node], count: usize) -> Vec<u32> {
    let mut ids = vec![NONE; count];
    for (i, node) in nodes.iter().enumerate() {
        ids[*node as usize] = id_at(geometry, first, i);
    }
    ids
}
