//! The vector index: codes, graphs, scans, vacuum and learning.

mod code;
mod distance;
mod graph;
mod hnsw;
mod learning;
mod ranked;
mod support;
mod together;
mod vacuum;
#[path = "support/watched.rs"]
mod watched;
