//! `rag_hnsw`: the graph index of [`rag_ann::hnsw`] as an access method of Postgres.
//!
//! The graph, its pages and what is read and written of them are the crate's, which knows nothing
//! of Postgres but [`RelationPages`](super::pages::RelationPages). Here is a file for each thing
//! that Postgres asks of an access method: [`handler`] lists them, [`options`] and [`opclass`] say
//! what an index is, [`build`], [`insert`], [`scan`] and [`vacuum`] work with it, [`cost`] tells
//! the planner what that costs, [`functions`] and [`recall`] let users look at it.
#![allow(unsafe_code)] // callbacks that Postgres calls with pointers

mod build;
mod cache;
mod cost;
mod functions;
mod handler;
mod insert;
mod opclass;
mod options;
mod recall;
mod rows;
mod sample;
mod scan;
mod vacuum;

use std::ffi::CStr;

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_ann::{
    code::Metric,
    hnsw::{Damage, Tid},
};

use crate::error::Error;

pub use options::define as define_options;

/// Name of the access method.
const NAME: &CStr = c"rag_hnsw";

/// What is raised when a page of an index says what cannot be, or when memory runs out.
fn damaged(index: pg_sys::Relation, damage: Damage) -> Error {
    let name = name_of(index);
    if damage.is_out_of_memory() {
        return Error::out_of_memory(format!(
            "Memory ran out while index \"{name}\" was being read or changed."
        ));
    }
    Error::new(
        PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
        format!("index \"{name}\" is damaged: {}", damage.problem),
    )
    .detail(format!("Block {}.", damage.block))
    .hint(format!(
        "REINDEX INDEX {} makes it anew from the table. Have the disk checked.",
        pgrx::spi::quote_identifier(name)
    ))
}

fn name_of(relation: pg_sys::Relation) -> String {
    // SAFETY: an open relation; its name is a C string.
    unsafe { CStr::from_ptr((*(*relation).rd_rel).relname.data.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

/// Whether a vector has a place in an index: under cosine distance the zero vector has none, as it
/// has no direction.
fn is_indexable(metric: Metric, vector: &[f32]) -> bool {
    metric != Metric::Cosine || vector.iter().any(|x| *x != 0.0)
}

/// # Errors
/// A vector of `dimensions` does not fit into an index of `expected`.
fn check_dimensions(expected: usize, dimensions: usize) -> Result<(), Error> {
    if expected == dimensions {
        return Ok(());
    }
    Err(Error::data_exception(format!(
        "expected {expected} dimensions, not {dimensions}"
    )))
}

fn tid_of(pointer: &pg_sys::ItemPointerData) -> Tid {
    let (block, offset) = pgrx::itemptr::item_pointer_get_both(*pointer);
    Tid { block, offset }
}

fn pointer_to(tid: Tid) -> pg_sys::ItemPointerData {
    let mut pointer = pg_sys::ItemPointerData::default();
    pgrx::itemptr::item_pointer_set_all(&mut pointer, tid.block, tid.offset);
    pointer
}

/// A number that nobody can foretell.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: fills so many bytes.
    if !unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) } {
        Error::internal("there is no source of random numbers").raise();
    }
    u64::from_ne_bytes(bytes)
}
