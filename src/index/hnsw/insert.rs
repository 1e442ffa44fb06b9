//! Inserting the vector of one row: at once, or with others of the transaction.

use std::{cell::Cell, rc::Rc};

use rag_ann::{
    hnsw::{self, Index as Graph, NewVector, random_level},
    random,
};
use rag_pages::Tid;

use super::{
    cache::{self, OpenedGraph},
    check_dimensions, collected, index_error, indexed_form, opclass,
};
use crate::{
    error::Error,
    index::am::{
        NewRow,
        callbacks::random_seed,
        collected::is_collected,
        heap::{HeapRows, Snapshot},
        relation::{Index, Relation, Value},
    },
    pg::transaction::with_latest_snapshot,
    types::indexed::DetoastMemory,
};

pub fn insert(
    table: Relation<'_>,
    index: Index<'_>,
    value: Value<'_>,
    row: NewRow,
) -> Result<(), Error> {
    let mut memory = DetoastMemory::new();
    value.with_vector(&mut memory, |vector| {
        let mut other = vec![];
        let Some(vector) = indexed_form(opclass::order(index), vector, &mut other)? else {
            return Ok(());
        };
        let opened = open(index, vector.len())?;
        if is_collected(table, row) {
            collected::add(index, &opened, vector, row)
        } else {
            insert_all(table, index, opened, &[(vector, row.tid)])
        }
    })
}

/// Opens an index for vectors of some dimensions. The first vector determines them.
///
/// # Errors
/// The index is corrupted, or has vectors of other dimensions.
pub fn open(index: Index<'_>, dimensions: usize) -> Result<Rc<OpenedGraph>, Error> {
    let mut opened = cache::open_to_insert(index)?;
    if opened.graph.dimensions().is_none() {
        let graph = Graph::set_dimensions(&opened.pages(index), dimensions)
            .map_err(|e| index_error(*index, e))?;
        opened = cache::replace(index, graph);
    }
    check_dimensions(opened.graph.dimensions().unwrap_or_default(), dimensions)
        .map_err(|error| error.hint(dimensions_hint(index)))?;
    Ok(opened)
}

/// Inserts the vectors of some rows, which have the same dimensions.
///
/// # Errors
/// The index is corrupted, or memory runs out. Some may have been inserted.
pub fn insert_all(
    table: Relation<'_>,
    index: Index<'_>,
    mut opened: Rc<OpenedGraph>,
    rows: &[(&[f32], Tid)],
) -> Result<(), Error> {
    let mut inserter = cache::take_inserter();
    let m = opened.graph.description().m;
    let vectors = rows.iter().map(|(vector, tid)| NewVector {
        vector,
        tid: *tid,
        level: random_level(m, uniform()),
    });
    let vectors: Vec<NewVector<'_>> = vectors.collect();
    let mut rest = vectors.as_slice();
    while let Some(first) = rest.first() {
        pgrx::check_for_interrupts!();
        if opened.graph.is_mixed() {
            learn(table, index, &opened)?; // a crash or an error has interrupted it
            opened = open(index, first.vector.len())?;
        }
        let inserted = inserter
            .insert_some(&opened.graph, &opened.pages(index), rest)
            .map_err(|e| index_error(*index, e))?;
        rest = &rest[inserted..];
        if hnsw::learning_is_due(&opened.graph, &opened.pages(index)) {
            learn(table, index, &opened)?;
        }
        if inserted == 0 || !rest.is_empty() {
            opened = open(index, first.vector.len())?;
        }
    }
    // many have taken memory for copies of pages
    if rows.len() == 1 {
        cache::give_inserter(inserter);
    }
    Ok(())
}

/// Returns how an index can get vectors of other dimensions.
fn dimensions_hint(index: Index<'_>) -> String {
    let name = index.name();
    format!(
        "The first vector in an index fixes its dimensions. If no row has such vectors any more, \
         VACUUM the table, or REINDEX INDEX {}.",
        pgrx::spi::quote_identifier(name)
    )
}

/// Computes the centre of the codes from the rows in the table, and codes all vectors again.
///
/// It reads rows as of now, also those of this command. What these need of the TOAST table cannot
/// be removed as long as this transaction has a snapshot.
fn learn(table: Relation<'_>, index: Index<'_>, opened: &OpenedGraph) -> Result<(), Error> {
    // a transaction that is about to commit has none
    with_latest_snapshot(|| {
        let (order, mut other) = (opclass::order(index), vec![]);
        let mut rows = HeapRows::open(table, index, Snapshot::of_present());
        let mut read_vector = |tid: Tid, vector: &mut Vec<f32>| {
            let read = |found: &[f32]| {
                let found = indexed_form(order, found, &mut other).ok().flatten();
                vector.clear();
                vector.extend_from_slice(found.unwrap_or_default());
                found.is_some()
            };
            rows.is_in_table(tid) && rows.with_vector(tid, read).unwrap_or(false)
        };
        let learned = hnsw::learn(&opened.graph, &opened.pages(index), &mut read_vector);
        rows.close();
        learned.map_err(|e| index_error(*index, e))
    })
}

/// Returns a random number in 0..=1. The generator is seeded once for each backend.
pub fn uniform() -> f64 {
    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }
    let mut state = STATE.get().unwrap_or_else(random_seed);
    let bits = random::next(&mut state);
    STATE.set(Some(state));
    random::uniform(bits)
}
