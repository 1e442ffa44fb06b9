//! The keyword index of a collection's partition, on titles and texts.
//!
//! It is created with the partition, so that keyword search is exact from the first chunk on:
//! without an index there are no statistics of words. Its size and its cost for an insert are a
//! fraction of those of the vector index.

use pgrx::pg_sys;

use rag_language::KEY;

use crate::{
    catalog::{collections::Collection, partitions::Partition},
    error::Error,
    pg::{lookup, spi::OwnerRights},
};

/// Returns the valid keyword index of a collection.
///
/// Every search calls this. It reads the relation cache.
pub fn find(collection: &Collection) -> Option<pg_sys::Oid> {
    lookup::whole_index(collection.partition_oid()?, c"rag_bm25")
}

/// Returns the indexed expression. `alias` is the table's. The title counts as often as the
/// collection says. A mark before it tells the language if documents have different ones: see
/// [`crate::index::bm25::languages`].
pub fn expression(collection: &Collection, alias: &str) -> String {
    let text = match collection.definition.title_weight {
        0 => format!("{alias}.content"),
        weight => format!(
            "repeat(coalesce({alias}.title || ' ', ''), {weight}) \
             || {alias}.content"
        ),
    };
    if collection.detects_language() {
        format!(
            "chr(1) || \
             left(coalesce({alias}.metadata ->> '{KEY}', ''), \
             16) || chr(1) || {text}"
        )
    } else {
        text
    }
}

/// Returns true if the collection's retriever needs an index that does not exist.
pub fn is_missing(collection: &Collection, partition: pg_sys::Oid) -> bool {
    collection.methods().uses_keywords() && lookup::whole_index(partition, c"rag_bm25").is_none()
}

/// Creates the index.
///
/// # Errors
/// The text search configuration does not exist any more.
pub fn create(
    owner: &OwnerRights,
    collection: &Collection,
    partition: &Partition,
) -> Result<(), Error> {
    let statement = format!(
        "CREATE INDEX ON {} USING rag_bm25 (({})) WITH (text_config = {}, positions = on)",
        partition.qualified(),
        expression(collection, &partition.quoted_name()),
        pgrx::spi::quote_literal(&collection.definition.text_config),
    );
    owner.execute(&statement, &[])?;
    Ok(())
}
