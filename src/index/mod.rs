//! Index access methods: the side of them that talks to Postgres. How the indexes work is in
//! `crates/`.

pub mod hnsw;
pub mod pages;
