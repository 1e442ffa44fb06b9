//! Builds a graph of neighbours in memory: a hierarchical navigable small world (HNSW; Malkov and
//! Yashunin, "Efficient and robust approximate nearest neighbor search using hierarchical navigable
//! small world graphs", 2018), over codes.
//!
//! A node is a coded vector. It has a level, drawn at random: one in m nodes of a level is on the
//! next one, too. On each of its levels it links to near nodes of that level, at most 2m on level 0
//! and m above. A search goes from the entry point, a node of the highest level, down to level 0,
//! and approaches the query on each level.
//!
//! **Phases** of [`Graph::build`], on several threads where marked:
//! 1. [`duplicates`] (threads): of nodes with equal codes only the first takes part.
//! 2. [`insert`] (threads): nodes are linked one after another, to nodes that a search among the
//!    linked ones finds. One thread inserts the first few hundred, because nodes that are inserted
//!    at the same time do not see each other.
//! 3. [`insert`] (threads): lists get their final length. Until then, lists of level 0 have a
//!    *slack* of m, so that their links are chosen once for many new ones.
//! 4. [`reach`]: nodes that no path leads to are linked in.
//!
//! All distances are estimates between codes. The vectors themselves are not kept.
//!
//! **Threads** share the lists of links as atomics ([`links`]) and read without locks. A writer
//! locks the one list that it changes, and never waits for another meanwhile. The threads are
//! plain: they never call Postgres and have all signals blocked, so that its handlers run on its
//! own thread ([`threads`]).

mod codes;
mod duplicates;
mod insert;
mod links;
mod order;
mod reach;
mod threads;

use crate::{
    code::{Factors, Quantizer},
    memory::{self, OutOfMemory},
    pool::ID_LIMIT,
    random,
};
use codes::Codes;
use duplicates::duplicates;
use insert::Linker;
use links::ListShape;
pub use threads::BuildError;

/// A vector's number, counted from 0 in the order of encoding.
pub type Node = u32;

/// Marks the absence of a node.
const NONE: Node = Node::MAX;
const MAX_LEVEL: usize = 15;
/// Number of nodes that are inserted before several threads are used.
const SERIAL: usize = 256;

/// The density of the graph, and the effort of its build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Maximum number of links of a node above level 0, 2..=1000. Nodes of level 0 have twice as
    /// many.
    pub m: usize,
    /// Number of candidates when the neighbours of a new node are chosen. More candidates give
    /// better neighbours and take longer.
    pub ef_construction: usize,
    /// The seed of the levels.
    pub seed: u64,
}

/// Nodes and, after the build, their links.
pub struct Graph<'q> {
    quantizer: &'q Quantizer,
    parameters: Parameters,
    codes: Codes,
    levels: Vec<u8>,
    /// The node with an equal code that represents this one, or [`NONE`].
    duplicate_of: Vec<Node>,
    shape: ListShape,
    /// Link lists: a count followed by ids, as [`ListShape`] lays them out.
    base: Vec<u32>,
    upper: Vec<u32>,
    entry: Option<Node>,
}

impl<'q> Graph<'q> {
    /// Maximum memory of a node in bytes, from its encoding until [`page_order`](Self::page_order)
    /// has returned.
    pub fn node_bytes(code_bytes: usize, m: usize) -> usize {
        // Memory of single phases that do not overlap: hashes, visited bitmaps, the order of pages.
        const SCRATCH: usize = 20;
        let m = valid_m(m);
        let node = size_of::<Factors>() + size_of::<u8>() + size_of::<Node>();
        code_bytes + node + ListShape::node_bytes(m) + SCRATCH
    }

    /// Returns a graph without nodes, which will have at most `max_nodes`.
    pub fn new(quantizer: &'q Quantizer, parameters: Parameters, max_nodes: usize) -> Self {
        let parameters = Parameters {
            m: valid_m(parameters.m),
            ef_construction: parameters.ef_construction.max(1),
            seed: parameters.seed,
        };
        Self {
            quantizer,
            parameters,
            codes: Codes::new(quantizer.code_bytes(), max_nodes.min(ID_LIMIT as usize)),
            levels: vec![],
            duplicate_of: vec![],
            shape: ListShape::default(),
            base: vec![],
            upper: vec![],
            entry: None,
        }
    }

    /// Adds a node for each of the vectors, which follow each other in `vectors`. Encodes them on
    /// `threads` threads, including the calling one. Vectors beyond the `max_nodes` of
    /// [`new`](Self::new) are left out.
    ///
    /// # Errors
    /// There is no memory for them. None is added then.
    pub fn encode(&mut self, vectors: &[f32], threads: usize) -> Result<(), OutOfMemory> {
        self.codes.encode(self.quantizer, vectors, threads)
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Returns true if there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Links all nodes, on `threads` threads. The calling thread waits and calls `tick` about every
    /// 20 ms with the number of linked nodes. If `tick` returns false, or panics, the threads are
    /// stopped and joined.
    ///
    /// # Errors
    /// `tick` returned false, or there is too little memory. The nodes are not linked then.
    pub fn build(
        &mut self,
        threads: usize,
        mut tick: impl FnMut(usize) -> bool,
    ) -> Result<(), BuildError> {
        let nodes = self.len();
        (self.entry, self.base, self.upper) = (None, vec![], vec![]);
        self.duplicate_of = duplicates(&self.codes, threads, &mut || tick(0))?;
        let duplicate_of = &self.duplicate_of;
        let level = |node| {
            if duplicate_of[node] == NONE {
                level(self.parameters, node)
            } else {
                0
            }
        };
        self.levels = memory::collect((0..nodes).map(level))?;
        self.shape = ListShape::new(self.parameters.m, &self.levels)?;

        let linker = Linker::new(
            self.quantizer,
            self.parameters,
            &self.codes,
            &self.levels,
            &self.shape,
        )?;
        let insert = |scratch: &mut _, node: usize, _: &_| match duplicate_of[node] {
            NONE => linker.insert(scratch, node as Node),
            _ => Ok(()),
        };
        let scratch = || linker.scratch();
        threads::run(1, 0..nodes.min(SERIAL), scratch, insert, &mut tick)?;
        threads::run(threads, SERIAL..nodes, scratch, insert, &mut tick)?;

        let mut tick = |_| tick(nodes);
        let shorten = |scratch: &mut _, node: usize, _: &_| {
            linker.shorten(scratch, node as Node);
            Ok(())
        };
        threads::run(threads, 0..nodes, scratch, shorten, &mut tick)?;
        let connect = |scratch: &mut _, level: usize, stop: &_| {
            reach::connect(&linker, scratch, level, duplicate_of, stop)
        };
        threads::run(1, 0..linker.levels(), scratch, connect, &mut tick)?;
        (self.base, self.upper, self.entry) = linker.finish();
        Ok(())
    }

    /// Returns a node of the highest level, where searches begin. Returns `None` if there is no
    /// node or the graph was not built.
    pub fn entry(&self) -> Option<Node> {
        self.entry
    }

    /// Returns the highest level that a node is on, 0..=15.
    pub fn level(&self, node: Node) -> usize {
        self.levels
            .get(node as usize)
            .map_or(0, |level| *level as usize)
    }

    /// Returns the nodes that a node links to on a level: at most 2m on level 0 and m above, each
    /// once, never itself and never a duplicate. Returns none on a level that the node is not on.
    pub fn links(&self, node: Node, level: usize) -> &[Node] {
        if self.entry.is_none() || level > self.level(node) {
            return &[];
        }
        let (lists, at) = match level {
            0 => (&self.base, self.shape.final_base(node)),
            _ => (&self.upper, self.shape.upper(node, level)),
        };
        match lists.get(at..) {
            Some([count, ids @ ..]) => &ids[..*count as usize],
            _ => &[],
        }
    }

    /// Returns the linked node that represents a node with an equal code.
    pub fn duplicate_of(&self, node: Node) -> Option<Node> {
        self.duplicate_of
            .get(node as usize)
            .copied()
            .filter(|other| *other != NONE)
    }

    /// Returns a node's code.
    pub fn code(&self, node: Node) -> &[u8] {
        self.codes.code(node)
    }

    /// Returns the factors of a node's code.
    pub fn factors(&self, node: Node) -> Factors {
        self.codes.factors(node)
    }

    /// Returns all nodes that are not duplicates, in an order for pages of `slots_per_page` nodes:
    /// nodes that a search visits together are on the same page. The order does not depend on the
    /// number of `threads`, which are used as by [`build`](Self::build).
    ///
    /// # Errors
    /// `tick` returned false, or there is too little memory.
    pub fn page_order(
        &self,
        slots_per_page: usize,
        threads: usize,
        tick: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Node>, BuildError> {
        order::page_order(self, slots_per_page, threads, tick)
    }

    /// Returns all nodes that are not duplicates.
    fn linked(&self) -> impl Iterator<Item = Node> {
        (0..self.duplicate_of.len() as Node)
            .filter(|node| self.duplicate_of[*node as usize] == NONE)
    }
}

/// Counts of links must fit into the headers of their lists.
fn valid_m(m: usize) -> usize {
    m.clamp(2, 1000)
}

/// Returns the level of a node, the same in every build with this seed.
fn level(parameters: Parameters, node: usize) -> u8 {
    let bits = random::mix(parameters.seed ^ random::mix(node as u64));
    random::level(parameters.m, MAX_LEVEL, random::uniform(bits)) as u8
}
