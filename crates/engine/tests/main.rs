//! The program rag-engine, as a process.

mod common;
mod embedding;
mod families;
mod ingesting;
mod late;
mod malformed;
mod models;
mod preparing;
mod redaction;
mod runtimes;
mod sandbox;
mod skipping;
mod turns;
#[allow(dead_code)] // the tests of rag-source use the rest
#[path = "../../source/tests/web/mod.rs"]
mod web;
