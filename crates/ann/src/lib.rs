//! Nearest-neighbour search over vectors, without Postgres.
//!
//! * [`code`]: vectors in an eighth of their size, and distances to them.
//! * [`distance`]: how far apart two `f32` vectors are, as fast as this CPU can tell.
//! * [`graph`]: building a graph of neighbours in memory.
//! * [`hnsw`]: the index on pages.
//! * [`memory`]: asking for memory that may not be there.
//! * [`pool`], [`visited`], [`select`], [`random`]: what each search or build of a graph needs,
//!   wherever the graph lies.

pub mod code;
pub mod distance;
pub mod graph;
pub mod hnsw;
pub mod memory;
pub mod pool;
pub mod random;
pub mod select;
pub mod visited;
