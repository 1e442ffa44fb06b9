//! Building a graph of neighbours in memory: a hierarchical navigable small world (HNSW; Malkov and
//! Yashunin, "Efficient and robust approximate nearest neighbor search using hierarchical navigable
//! small world graphs", 2018), over codes.
//!
//! A node is a coded vector. It has a level, drawn at random: one in m nodes of a level is on the
//! next one, too. On each of its levels it links to near nodes of that level, at most 2m on level 0
//! and m above. A search goes from the entry point, a node of the highest level, down to level 0,
//! and ever nearer on each.
//!
//! **Phases** of [`Graph::build`], each on several threads where it says so:
//! 1. [`duplicates`] (threads): of nodes with equal codes only the first takes part.
//! 2. [`insert`] (threads): nodes are linked one after another, to what a search among those before
//!    finds. The first few hundred come from one thread, since nodes that are inserted at the same
//!    time do not see each other.
//! 3. [`insert`] (threads): lists get their final length. Until then those of level 0 have a
//!    *slack* of m: choosing anew which links to keep is done once for many new ones.
//! 4. [`reach`]: what no path leads to is linked in.
//!
//! All distances are estimates between codes, so that codes are all that is kept of the vectors.
//!
//! **Threads** share the lists of links as atomics ([`links`]) and read without locks; a writer
//! locks the one list that it changes and never waits for another meanwhile. They are plain threads
//! which never call Postgres and have all signals blocked, so that its handlers keep running on the
//! thread they were made for ([`threads`]).

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
use links::Shape;
pub use threads::Failure;

/// A vector's number: they are counted from 0 in the order in which they were encoded.
pub type Node = u32;

/// Marks the absence of a node.
const NONE: Node = Node::MAX;
const MAX_LEVEL: usize = 15;
/// Nodes that are inserted before several threads are.
const SERIAL: usize = 256;

/// How dense the graph is, and how carefully it is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Most links of a node above level 0, where there are twice as many: 2..=1000.
    pub m: usize,
    /// Candidates that are kept while a new node's neighbours are looked for: more find better ones
    /// and take longer.
    pub ef_construction: usize,
    /// Where levels are drawn from.
    pub seed: u64,
}

/// Nodes and, once it was built, their links.
pub struct Graph<'q> {
    quantizer: &'q Quantizer,
    parameters: Parameters,
    codes: Codes,
    levels: Vec<u8>,
    /// The node with an equal code that stands for this one, or [`NONE`].
    duplicate_of: Vec<Node>,
    shape: Shape,
    /// Link lists: a count followed by as many ids, as [`Shape`] lays them out.
    base: Vec<u32>,
    upper: Vec<u32>,
    entry: Option<Node>,
}

impl<'q> Graph<'q> {
    /// Most memory that each node takes, in bytes, from its encoding until
    /// [`page_order`](Self::page_order) has returned.
    pub fn node_bytes(code_bytes: usize, m: usize) -> usize {
        // what only some phases need, which do not come at the same time: hashes, visited bitmaps,
        // the order of pages
        const SCRATCH: usize = 20;
        let m = valid_m(m);
        let node = size_of::<Factors>() + size_of::<u8>() + size_of::<Node>();
        code_bytes + node + Shape::node_bytes(m) + SCRATCH
    }

    /// A graph without nodes, which will have at most `max_nodes`.
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
            shape: Shape::default(),
            base: vec![],
            upper: vec![],
            entry: None,
        }
    }

    /// Adds a node for each of the vectors, which follow each other in `vectors`; encodes them on
    /// `threads` threads, of which the calling one is one. What exceeds the `max_nodes` of
    /// [`new`](Self::new) is left out.
    ///
    /// # Errors
    /// There is no memory for them. None is added then.
    pub fn encode(&mut self, vectors: &[f32], threads: usize) -> Result<(), OutOfMemory> {
        self.codes.encode(self.quantizer, vectors, threads)
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Links all nodes, on `threads` threads. The calling thread only waits: every 20 ms or so it
    /// calls `tick` with the number of nodes that are linked. Where that returns false, or panics,
    /// the threads are stopped and joined.
    ///
    /// # Errors
    /// `tick` returned false, or there is too little memory. The nodes are not linked then.
    pub fn build(
        &mut self,
        threads: usize,
        mut tick: impl FnMut(usize) -> bool,
    ) -> Result<(), Failure> {
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
        self.shape = Shape::new(self.parameters.m, &self.levels)?;

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

    /// A node of the highest level, where searches begin; `None` where there is no node or the
    /// graph was not built.
    pub fn entry(&self) -> Option<Node> {
        self.entry
    }

    /// The highest level that a node is on, 0..=15.
    pub fn level(&self, node: Node) -> usize {
        self.levels
            .get(node as usize)
            .map_or(0, |level| *level as usize)
    }

    /// The nodes that a node links to on a level: at most 2m on level 0 and m above, each once,
    /// never itself and never a duplicate. None on a level that it is not on.
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

    /// The node that stands for one with an equal code: it is linked, and this one is not.
    pub fn duplicate_of(&self, node: Node) -> Option<Node> {
        self.duplicate_of
            .get(node as usize)
            .copied()
            .filter(|other| *other != NONE)
    }

    /// A node's code.
    pub fn code(&self, node: Node) -> &[u8] {
        self.codes.code(node)
    }

    /// What beside the code is known of a node's vector.
    pub fn factors(&self, node: Node) -> Factors {
        self.codes.factors(node)
    }

    /// All nodes that are not duplicates, in an order in which those that a search visits together
    /// are on the same page, if each page takes the next `slots_per_page`. The same for any number
    /// of `threads`, which are used as by [`build`](Self::build).
    ///
    /// # Errors
    /// `tick` returned false, or there is too little memory.
    pub fn page_order(
        &self,
        slots_per_page: usize,
        threads: usize,
        tick: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Node>, Failure> {
        order::page_order(self, slots_per_page, threads, tick)
    }

    /// All nodes that are not duplicates.
    fn linked(&self) -> impl Iterator<Item = Node> {
        (0..self.duplicate_of.len() as Node)
            .filter(|node| self.duplicate_of[*node as usize] == NONE)
    }
}

/// Counts of links must fit the headers of their lists.
fn valid_m(m: usize) -> usize {
    m.clamp(2, 1000)
}

/// The level of a node, the same in every build with this seed.
fn level(parameters: Parameters, node: usize) -> u8 {
    let bits = random::mix(parameters.seed ^ random::mix(node as u64));
    random::level(parameters.m, MAX_LEVEL, random::uniform(bits)) as u8
}
