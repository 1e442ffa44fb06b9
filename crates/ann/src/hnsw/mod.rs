//! The index on pages: a hierarchical navigable small world graph (HNSW, Malkov and Yashunin 2018)
//! whose nodes are 4-bit codes with their links beside them in fixed slots.
//!
//! `src/index/hnsw/README.md` tells the structure, the picture of a page, the protocols of insert,
//! search and vacuum, and what may go wrong. Here: [`layout`] slots on a page, [`meta`] the first
//! page, [`place`] writes a graph that was built in memory, [`index`] what stays the same as long
//! as the file lives, [`walk`] the search of one level, [`upper`] where it begins, [`scan`] a
//! query's way through all of them, [`order`] the order of its rows, [`insert`], [`learn`] the
//! centroid of an index that was made empty, [`overflow`] and [`cells`] rows of equal vectors,
//! [`vacuum`] takes rows out, [`repair`] heals the graph, and [`check`] and [`info`] look at
//! everything.

mod allocate;
mod cells;
mod check;
mod index;
mod info;
mod insert;
mod layout;
mod learn;
mod links;
mod lost;
mod meta;
mod order;
mod overflow;
mod place;
mod reach;
mod repair;
mod scan;
mod upper;
mod vacuum;
mod walk;

use crate::{code::Metric, memory::OutOfMemory};

pub use check::{Problem, check};
pub use index::{Index, create, quantizer};
pub use info::{Counts, Info, counts, info};
pub use insert::{Inserter, random_level};
pub use learn::{is_due as learning_is_due, learn};
pub use order::Order;
pub use place::place;
pub use repair::repair;
pub use scan::{Rest, Scan, ScanLimits};
pub use vacuum::{Removal, remove};

/// Most dimensions of an indexed vector.
pub const MAX_DIMENSIONS: usize = 16_000;
/// Levels that a graph can have.
pub const MAX_LEVELS: usize = 16;

/// Why an index cannot be worked with: a page says what cannot be, or [memory ran
/// out](Self::is_out_of_memory).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub block: u32,
    pub problem: String,
    out_of_memory: bool,
}

impl Damage {
    pub fn new(block: u32, problem: impl Into<String>) -> Self {
        Self {
            block,
            problem: problem.into(),
            out_of_memory: false,
        }
    }

    /// What a refusal of memory becomes. It is no `From`: with another one than its own, closures
    /// would have to name the type of their errors. It allocates nothing.
    pub fn of_memory(_: OutOfMemory) -> Self {
        Self {
            block: 0,
            problem: String::new(),
            out_of_memory: true,
        }
    }

    /// Whether nothing is wrong with the index: there is no memory for what was asked of it.
    pub fn is_out_of_memory(&self) -> bool {
        self.out_of_memory
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.out_of_memory {
            return OutOfMemory.fmt(f);
        }
        write!(f, "block {}: {}", self.block, self.problem)
    }
}

impl std::error::Error for Damage {}

/// Where a heap row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid {
    pub block: u32,
    /// 1..
    pub offset: u16,
}

/// What an index is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    pub metric: Metric,
    /// Links of a node above the base, where there are twice as many: 2..=100.
    pub m: u16,
    /// Candidates that are kept while a new node's neighbours are looked for.
    pub ef_construction: u16,
    /// Where the rotation of codes comes from; random, so that it tells one index from another,
    /// too.
    pub seed: u64,
}
