//! Inserting the vector of one row.

use std::cell::Cell;

use rag_ann::{
    hnsw::{self, Index as Graph, random_level},
    random,
};
use rag_pages::Tid;

use super::{cache, check_dimensions, index_error, is_indexable, opclass};
use crate::{
    error::Error,
    index::am::{
        callbacks::random_seed,
        heap::{HeapRows, Snapshot},
        relation::{Index, Relation, Value},
    },
    types::vector::DetoastMemory,
};

pub fn insert(
    table: Relation<'_>,
    index: Index<'_>,
    value: Value<'_>,
    tid: Tid,
) -> Result<(), Error> {
    let mut memory = DetoastMemory::new();
    value.with_vector(&mut memory, |vector| {
        insert_vector(table, index, vector, tid)
    })
}

fn insert_vector(
    table: Relation<'_>,
    index: Index<'_>,
    vector: &[f32],
    tid: Tid,
) -> Result<(), Error> {
    if !is_indexable(opclass::metric(index), vector) {
        return Ok(());
    }
    let mut inserter = cache::take_inserter();
    let opened = loop {
        let mut opened = cache::open(index)?;
        if opened.graph.dimensions().is_none() {
            let graph = Graph::set_dimensions(&opened.pages(index), vector.len())
                .map_err(|e| index_error(*index, e))?;
            opened = cache::replace(index, graph);
        }
        check_dimensions(opened.graph.dimensions().unwrap_or_default(), vector.len())
            .map_err(|error| error.hint(dimensions_hint(index)))?;
        if opened.graph.is_mixed() {
            learn(table, index, &opened)?; // a crash or an error has interrupted it
            opened = cache::open(index)?;
        }
        let level = random_level(opened.graph.description().m, uniform());
        let inserted = inserter
            .insert(&opened.graph, &opened.pages(index), vector, tid, level)
            .map_err(|e| index_error(*index, e))?;
        if inserted {
            break opened;
        }
        pgrx::check_for_interrupts!();
    };
    cache::give_inserter(inserter);
    if hnsw::learning_is_due(&opened.graph, &opened.pages(index)) {
        learn(table, index, &opened)?;
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
fn learn(table: Relation<'_>, index: Index<'_>, opened: &cache::OpenedGraph) -> Result<(), Error> {
    let mut rows = HeapRows::open(table, index, Snapshot::of_present());
    let mut read_vector = |tid: Tid, vector: &mut Vec<f32>| {
        rows.is_in_table(tid)
            && rows
                .with_vector(tid, |found| {
                    vector.clear();
                    vector.extend_from_slice(found);
                })
                .is_some()
    };
    let learned = hnsw::learn(&opened.graph, &opened.pages(index), &mut read_vector);
    rows.close();
    learned.map_err(|e| index_error(*index, e))
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
