//! The order in which nodes lie on pages.
//!
//! A search that finds neighbours together on a page needs fewer pages. So a page is filled greedily: it begins with one
//! node, and the next is always the one that most links connect with those that are there, in either direction. Where none
//! is connected, and for the first node of the next page, the next of a *coarse order* is taken, which places near nodes
//! near each other: nodes are split in two halves by which of two far nodes they are nearer to, and so on until the parts
//! are as small as a page.

use super::{Graph, NONE, Node};
use crate::{code::Query, random, visited::Visited};

pub(super) fn page_order(graph: &Graph<'_>, slots_per_page: usize) -> Vec<Node> {
    let slots = slots_per_page.max(1);
    let mut coarse: Vec<Node> = graph.linked().collect();
    let mut splitter = Splitter { graph, slots, queries: Default::default(), random: 0 };
    splitter.split(&mut coarse);
    pack(graph, &coarse, slots)
}

/// Fills page after page.
fn pack(graph: &Graph<'_>, coarse: &[Node], slots: usize) -> Vec<Node> {
    let back = BackLinks::new(graph);
    let mut order = Vec::with_capacity(coarse.len());
    let mut placed = Visited::new();
    placed.reserve(graph.len());
    // links between a node and those of the page that is being filled; `near` has the nodes with any
    let mut gains = vec![0u16; graph.len()];
    let mut near: Vec<Node> = vec![];
    let mut rest = coarse.iter().copied();
    while order.len() < coarse.len() {
        let page = order.len();
        for _ in 0..slots.min(coarse.len() - order.len()) {
            near.retain(|node| !placed.contains(*node));
            let connected = near.iter().copied().rev().max_by_key(|node| gains[*node as usize]);
            let Some(next) = connected.or_else(|| rest.find(|node| !placed.contains(*node))) else { break };
            placed.insert(next);
            order.push(next);
            for &other in graph.links(next, 0).iter().chain(back.of(next)) {
                let gain = &mut gains[other as usize];
                if *gain == 0 {
                    near.push(other);
                }
                *gain = gain.saturating_add(1);
            }
        }
        // all of them were near, but those that were placed have left the list
        for node in near.drain(..).chain(order[page..].iter().copied()) {
            gains[node as usize] = 0;
        }
    }
    order
}

/// For each node, those that link to it on level 0 without being linked to: the others are among its own links. Only the
/// first m, so that memory is bounded: the order is as good as the same without the rest.
struct BackLinks {
    limit: usize,
    counts: Vec<u16>,
    nodes: Vec<Node>,
}

impl BackLinks {
    fn new(graph: &Graph<'_>) -> Self {
        let limit = graph.parameters.m;
        let mut back = Self { limit, counts: vec![0; graph.len()], nodes: vec![NONE; graph.len() * limit] };
        for node in graph.linked() {
            for &other in graph.links(node, 0) {
                let count = &mut back.counts[other as usize];
                if (*count as usize) < limit && !graph.links(other, 0).contains(&node) {
                    back.nodes[other as usize * limit + *count as usize] = node;
                    *count += 1;
                }
            }
        }
        back
    }

    fn of(&self, node: Node) -> &[Node] {
        &self.nodes[node as usize * self.limit..][..self.counts[node as usize] as usize]
    }
}

struct Splitter<'g, 'q> {
    graph: &'g Graph<'q>,
    slots: usize,
    queries: [Query; 2],
    random: u64,
}

impl Splitter<'_, '_> {
    /// Reorders nodes so that near ones are near each other.
    fn split(&mut self, nodes: &mut [Node]) {
        if nodes.len() <= self.slots {
            return;
        }
        let start = self.pick(nodes);
        let one = self.far_from(start, nodes);
        let other = self.far_from(one, nodes);
        self.prepare(0, one);
        self.prepare(1, other);
        let [to_one, to_other] = &self.queries;
        let mut sides: Vec<(f32, Node)> = Vec::with_capacity(nodes.len());
        for (place, &node) in nodes.iter().enumerate() {
            if let Some(soon) = nodes.get(place + 8) {
                self.graph.codes.prefetch(*soon);
            }
            let (code, factors) = (self.graph.code(node), self.graph.factors(node));
            sides.push((to_other.distance(code, factors) - to_one.distance(code, factors), node));
        }
        // whole pages on the left
        let half = (nodes.len().div_ceil(self.slots) / 2 * self.slots).clamp(1, nodes.len() - 1);
        sides.select_nth_unstable_by(half, |a, b| a.0.total_cmp(&b.0));
        for (node, (_, sorted)) in nodes.iter_mut().zip(&sides) {
            *node = *sorted;
        }
        drop(sides);
        let (left, right) = nodes.split_at_mut(half);
        self.split(left);
        self.split(right);
    }

    /// One of the nodes that is far from `node`.
    fn far_from(&mut self, node: Node, nodes: &[Node]) -> Node {
        const TRIES: usize = 20;
        self.prepare(0, node);
        let tries = (0..TRIES).map(|_| self.pick(nodes)).collect::<Vec<_>>();
        let distance = |node: &Node| self.queries[0].distance(self.graph.code(*node), self.graph.factors(*node));
        tries.into_iter().max_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(node)
    }

    fn pick(&mut self, nodes: &[Node]) -> Node {
        self.random += 1;
        nodes[(random::mix(self.random) % nodes.len() as u64) as usize]
    }

    fn prepare(&mut self, which: usize, node: Node) {
        let (code, factors) = (self.graph.code(node), self.graph.factors(node));
        self.graph.quantizer.prepare_from_code(code, factors, &mut self.queries[which]);
    }
}
