//! The order in which nodes lie on pages.
//!
//! A search that finds neighbours together on a page needs fewer pages. So a page is filled
//! greedily. It begins with one node. The next node is always the one with most links to and from
//! the nodes of the page. If no node is connected, and for the first node of a page, the next node
//! of a *coarse order* is taken, which places near nodes near each other. For that order, nodes are
//! divided into two halves, by which of two distant nodes they are nearer to, until the parts are
//! as small as a page. Several threads divide parts. One thread fills pages.

use super::{
    BuildError, Graph, NONE, Node,
    threads::{Part, Stop, alone, divide},
};
use crate::{
    code::Query,
    memory::{self, OutOfMemory, Reserve, push},
    random,
    visited::Visited,
};

/// Nodes processed between two checks whether to stop.
const STOP_PERIOD: usize = 4096;

pub(super) fn page_order(
    graph: &Graph<'_>,
    slots_per_page: usize,
    threads: usize,
    tick: &mut dyn FnMut() -> bool,
) -> Result<Vec<Node>, BuildError> {
    let slots = slots_per_page.max(1);
    let mut coarse: Vec<Node> = vec![];
    coarse.make_exact_room(graph.linked().count())?;
    coarse.extend(graph.linked());
    divide(
        threads,
        &mut coarse,
        |part, stop| Splitter::new(graph, part).split(part.items, slots, stop),
        tick,
    )?;
    alone(|stop| pack(graph, &coarse, slots, stop), tick)
}

/// Fills page after page.
fn pack(
    graph: &Graph<'_>,
    coarse: &[Node],
    slots: usize,
    stop: &Stop,
) -> Result<Vec<Node>, OutOfMemory> {
    let back = BackLinks::new(graph, stop)?;
    let mut order = vec![];
    order.make_exact_room(coarse.len())?;
    let mut placed = Visited::new();
    placed.reserve(graph.len())?;
    // Number of links between a node and the page that is being filled. `near` has the nodes with
    // any.
    // any
    let mut gains = memory::filled(graph.len(), 0u16)?;
    let mut near: Vec<Node> = vec![];
    let mut rest = coarse.iter().copied();
    while order.len() < coarse.len() && !stop.is_wanted() {
        let page = order.len();
        for _ in 0..slots.min(coarse.len() - order.len()) {
            near.retain(|node| !placed.contains(*node));
            let connected = near
                .iter()
                .copied()
                .rev()
                .max_by_key(|node| gains[*node as usize]);
            let Some(next) = connected.or_else(|| rest.find(|node| !placed.contains(*node))) else {
                break;
            };
            placed.insert(next)?;
            order.push(next);
            for &other in graph.links(next, 0).iter().chain(back.of(next)) {
                let gain = &mut gains[other as usize];
                if *gain == 0 {
                    push(&mut near, other)?;
                }
                *gain = gain.saturating_add(1);
            }
        }
        // All of them were near, but the placed ones have left the list.
        for node in near.drain(..).chain(order[page..].iter().copied()) {
            gains[node as usize] = 0;
        }
    }
    Ok(order)
}

/// For each node, returns those that link to it on level 0 and that it does not link to itself.
/// Only the first m are kept, to limit the memory: the order is as good without the rest.
struct BackLinks {
    limit: usize,
    counts: Vec<u16>,
    nodes: Vec<Node>,
}

impl BackLinks {
    fn new(graph: &Graph<'_>, stop: &Stop) -> Result<Self, OutOfMemory> {
        let limit = graph.parameters.m;
        let counts = memory::filled(graph.len(), 0)?;
        let mut back = Self {
            limit,
            counts,
            nodes: memory::filled(graph.len() * limit, NONE)?,
        };
        for (i, node) in graph.linked().enumerate() {
            if i.is_multiple_of(STOP_PERIOD) && stop.is_wanted() {
                break;
            }
            for &other in graph.links(node, 0) {
                let count = &mut back.counts[other as usize];
                if (*count as usize) < limit && !graph.links(other, 0).contains(&node) {
                    back.nodes[other as usize * limit + *count as usize] = node;
                    *count += 1;
                }
            }
        }
        Ok(back)
    }

    fn of(&self, node: Node) -> &[Node] {
        &self.nodes[node as usize * self.limit..][..self.counts[node as usize] as usize]
    }
}

/// Divides one part.
struct Splitter<'g, 'q> {
    graph: &'g Graph<'q>,
    queries: [Query; 2],
    random: u64,
}

impl<'g, 'q> Splitter<'g, 'q> {
    fn new(graph: &'g Graph<'q>, part: &Part<'_, Node>) -> Self {
        // The choice depends on the part, not on which thread divides it when.
        let random = random::mix((part.start as u64) << 6 | u64::from(part.depth));
        Self {
            graph,
            queries: Default::default(),
            random,
        }
    }

    /// Reorders nodes so that near ones are in the same half. Returns where the second half begins,
    /// or `None` if all of them fit on one page.
    fn split(
        mut self,
        nodes: &mut [Node],
        slots: usize,
        stop: &Stop,
    ) -> Result<Option<usize>, OutOfMemory> {
        if nodes.len() <= slots {
            return Ok(None);
        }
        let start = self.pick(nodes);
        let one = self.far_from(start, nodes);
        let other = self.far_from(one, nodes);
        self.prepare(0, one);
        self.prepare(1, other);
        let [to_one, to_other] = &self.queries;
        let mut sides: Vec<(f32, Node)> = vec![];
        sides.make_exact_room(nodes.len())?;
        for (place, &node) in nodes.iter().enumerate() {
            if place.is_multiple_of(STOP_PERIOD) && stop.is_wanted() {
                return Ok(None);
            }
            if let Some(soon) = nodes.get(place + 8) {
                self.graph.codes.prefetch(*soon);
            }
            let (code, factors) = (self.graph.code(node), self.graph.factors(node));
            sides.push((
                to_other.distance(code, factors) - to_one.distance(code, factors),
                node,
            ));
        }
        // The left half fills whole pages.
        let half = (nodes.len().div_ceil(slots) / 2 * slots).clamp(1, nodes.len() - 1);
        sides.select_nth_unstable_by(half, |a, b| a.0.total_cmp(&b.0));
        for (node, (_, sorted)) in nodes.iter_mut().zip(&sides) {
            *node = *sorted;
        }
        Ok(Some(half))
    }

    /// Returns one of the nodes that are far from `node`.
    fn far_from(&mut self, node: Node, nodes: &[Node]) -> Node {
        const TRIES: usize = 20;
        self.prepare(0, node);
        let tries = (0..TRIES).map(|_| self.pick(nodes)).collect::<Vec<_>>();
        let distance = |node: &Node| {
            self.queries[0].distance(self.graph.code(*node), self.graph.factors(*node))
        };
        tries
            .into_iter()
            .max_by(|a, b| distance(a).total_cmp(&distance(b)))
            .unwrap_or(node)
    }

    fn pick(&mut self, nodes: &[Node]) -> Node {
        self.random += 1;
        nodes[(random::mix(self.random) % nodes.len() as u64) as usize]
    }

    fn prepare(&mut self, which: usize, node: Node) {
        let (code, factors) = (self.graph.code(node), self.graph.factors(node));
        self.graph
            .quantizer
            .prepare_from_code(code, factors, &mut self.queries[which]);
    }
}
