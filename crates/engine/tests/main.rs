//! The program rag-engine, as a process.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod common;
mod embedding;
mod families;
mod ingesting;
mod late;
mod layouts;
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
