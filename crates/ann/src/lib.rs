//! Nearest-neighbour search over vectors, without Postgres.
//!
//! * [`code`]: vectors in an eighth of their size, and distances to them
//! * [`distance`]: distances between two vectors
//! * [`half`](mod@half): floats of 16 bits
//! * [`graph`]: building a graph of neighbours in memory
//! * [`hnsw`]: the index on pages
//! * [`progress`]: when a scan with a filter is given up for ranking all rows that pass
//! * [`ranked`]: rows in the order of their distance, after an index has returned some of them
//! * [`near`]: an order of vectors in which near ones follow each other
//! * [`pool`], [`visited`], [`select`], [`random`]: parts that searches and builds share

pub mod code;
pub mod distance;
pub mod graph;
pub mod half;
pub mod hnsw;
pub mod near;
pub mod pool;
pub mod progress;
pub mod random;
pub mod ranked;
pub mod select;
pub mod visited;

use rag_pages::memory;
