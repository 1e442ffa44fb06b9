//! Inserting one row's vector.

use std::cell::Cell;

use pgrx::{pg_guard, pg_sys};
use rag_ann::{
    hnsw::{self, Index, Tid, random_level},
    random,
};

use super::{
    cache, check_dimensions, damaged, is_indexable, name_of, opclass,
    rows::{RowMemory, Rows},
    tid_of,
};
use crate::error::Error;

/// `aminsert`, as PostgreSQL 13 calls it.
#[cfg(feature = "pg13")]
#[pg_guard]
pub unsafe extern "C-unwind" fn insert(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    row: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    _check_unique: pg_sys::IndexUniqueCheck::Type,
    _info: *mut pg_sys::IndexInfo,
) -> bool {
    // SAFETY: Postgres's promise: one column.
    unsafe { insert_row(table, index, *values, *nulls, row) }
}

/// `aminsert`
#[cfg(not(feature = "pg13"))]
#[pg_guard]
#[allow(clippy::too_many_arguments)] // Postgres's
pub unsafe extern "C-unwind" fn insert(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    row: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    _check_unique: pg_sys::IndexUniqueCheck::Type,
    _unchanged: bool,
    _info: *mut pg_sys::IndexInfo,
) -> bool {
    // SAFETY: Postgres's promise: one column.
    unsafe { insert_row(table, index, *values, *nulls, row) }
}

/// Returns false: the index is not unique.
///
/// # Safety
/// A table and its open index of this access method, a datum of its column's type, and a heap row.
unsafe fn insert_row(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    value: pg_sys::Datum,
    is_null: bool,
    row: pg_sys::ItemPointer,
) -> bool {
    if is_null {
        return false;
    }
    let memory = RowMemory::new();
    // SAFETY: the caller's promise.
    let inserted =
        unsafe { memory.with_vector(value, |vector| insert_vector(table, index, vector, row)) };
    memory.free();
    if let Err(error) = inserted {
        error.raise();
    }
    false
}

/// # Safety
/// As [`insert_row`].
unsafe fn insert_vector(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    vector: &[f32],
    row: pg_sys::ItemPointer,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe {
        if !is_indexable(opclass::metric(index), vector) {
            return Ok(());
        }
        let mut inserter = cache::take_inserter();
        let file = loop {
            let mut file = cache::open(index)?;
            if file.index.dimensions().is_none() {
                let opened = Index::set_dimensions(&file.pages(index), vector.len())
                    .map_err(|d| damaged(index, d))?;
                file = cache::replace(index, opened);
            }
            check_dimensions(file.index.dimensions().unwrap_or_default(), vector.len())
                .map_err(|error| error.hint(dimensions_hint(index)))?;
            if file.index.is_mixed() {
                learn(table, index, &file)?; // a crash or an error has left it so
                file = cache::open(index)?;
            }
            let level = random_level(file.index.description().m, uniform());
            let inserted = inserter
                .insert(
                    &file.index,
                    &file.pages(index),
                    vector,
                    tid_of(&*row),
                    level,
                )
                .map_err(|damage| damaged(index, damage))?;
            if inserted {
                break file;
            }
            pgrx::check_for_interrupts!();
        };
        cache::give_inserter(inserter);
        if hnsw::learning_is_due(&file.index, &file.pages(index)) {
            learn(table, index, &file)?;
        }
        Ok(())
    }
}

/// How an index whose vectors are all gone comes to hold others.
fn dimensions_hint(index: pg_sys::Relation) -> String {
    let name = pgrx::spi::quote_identifier(name_of(index));
    format!(
        "The first vector that an index gets fixes its dimensions. If no row has such vectors any more, VACUUM the table, or REINDEX INDEX {name}."
    )
}

/// Has the index learn its centroid from the rows that there are.
///
/// # Safety
/// As [`insert_row`].
unsafe fn learn(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    file: &cache::File,
) -> Result<(), Error> {
    // SAFETY: the caller's promise. Rows of this command and of transactions that have ended are
    // seen; what these need of the TOAST table cannot be removed while this one has a snapshot.
    unsafe {
        let mut rows = Rows::open(table, index, &raw mut pg_sys::SnapshotSelfData);
        let mut vector_of = |tid: Tid, vector: &mut Vec<f32>| {
            rows.is_in_table(tid)
                && rows
                    .with_vector(tid, |found| {
                        vector.clear();
                        vector.extend_from_slice(found);
                    })
                    .is_some()
        };
        let learned = hnsw::learn(&file.index, &file.pages(index), &mut vector_of);
        rows.close();
        learned.map_err(|damage| damaged(index, damage))
    }
}

/// A random number in 0..=1, of a generator that is seeded once a backend.
pub fn uniform() -> f64 {
    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }
    let mut state = STATE.get().unwrap_or_else(super::random);
    let bits = random::next(&mut state);
    STATE.set(Some(state));
    random::uniform(bits)
}
