//! The index on pages: a hierarchical navigable small world graph (HNSW, Malkov and Yashunin 2018).
//! Its nodes are 4-bit codes, with their links beside them in slots of fixed size.
//!
//! `src/index/hnsw/README.md` describes the structure, a page, the protocols of insert, search and
//! vacuum, and what may go wrong. The modules:
//! * [`format`] every field of a page, [`layout`] the division of pages, [`slots`] and [`cells`]
//!   their contents, [`meta`] the meta page
//! * [`place`] writes a graph that was built in memory
//! * [`index`] what does not change while the file exists, [`learn`] the centroid of an index that
//!   was created empty
//! * [`walk`] searches one level, [`upper`] finds where to begin, [`scan`] answers a query,
//!   [`order`] orders its rows
//! * [`insert`] adds a vector, [`group`] adds several, [`links`] chooses their neighbours,
//!   [`overflow`] keeps the rows of equal vectors
//! * [`vacuum`] removes rows, [`repair`] repairs the graph, [`reach`] finds what links lead to
//! * [`check`] and [`info`] read the whole index

mod allocate;
mod cells;
mod check;
mod format;
mod group;
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
mod slots;
mod upper;
mod vacuum;
mod walk;

use rag_pages::{IndexError, IndexLock, Tid};

use crate::code::Metric;

pub use check::{IndexProblem, RowPlaces, check};
pub use group::NewVector;
pub use index::{Index, create, quantizer};
pub use info::{Counts, Info, counts, info};
pub use insert::{Inserter, random_level};
pub use learn::{is_due as learning_is_due, learn};
pub use order::RowOrder;
pub use place::place;
pub use reach::stragglers;
pub use repair::repair;
pub use scan::{Scan, ScanLimits, UnreadRows};
pub use vacuum::{Removal, remove};

/// The structure lock. Inserts hold it shared while they choose neighbours. A session that changes
/// the entry point, or that needs all earlier inserts to have ended, holds it exclusively.
const STRUCTURE: IndexLock = IndexLock::First;

/// Maximum number of dimensions of an indexed vector.
pub const MAX_DIMENSIONS: usize = 16_000;
/// Maximum number of levels.
pub const MAX_LEVELS: usize = 16;

/// The parameters of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexParameters {
    pub metric: Metric,
    /// Maximum number of links of a node above the base, 2..=100. Nodes of the base have twice as
    /// many.
    pub m: u16,
    /// Number of candidates when the neighbours of a new node are chosen.
    pub ef_construction: u16,
    /// Seed of the rotation of codes. It is random, so it also identifies the index.
    pub seed: u64,
}
