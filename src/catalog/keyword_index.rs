//! The keyword index of a collection's partition, on titles and texts.
//!
//! It is created with the partition, so that keyword search is exact from the first chunk on:
//! without an index there are no statistics of words. Its size and its cost for an insert are a
//! fraction of those of the vector index.

use pgrx::pg_sys;

use rag_language::{AUTO, KEY};

use super::{collections::Collection, partitions::Partition};
use crate::{
    error::Error,
    pg::{
        lookup,
        spi::{execute, query},
    },
};

/// The text search configuration of collections for which none is given: the language of the
/// default model.
pub const DEFAULT_TEXT_CONFIG: &str = "pg_catalog.english";
/// How often the title counts in the keyword index. On SciFact 2 and 3 were best.
pub const DEFAULT_TITLE_WEIGHT: i32 = 2;
const MAX_TITLE_WEIGHT: i32 = 10;
/// The name that stands for [`AUTO`].
const AUTO_NAME: &str = "auto";

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
    let text = match collection.title_weight {
        0 => format!("{alias}.content"),
        weight => format!(
            "pg_catalog.repeat(coalesce({alias}.title OPERATOR(pg_catalog.||) ' ', ''), {weight}) \
             OPERATOR(pg_catalog.||) {alias}.content"
        ),
    };
    if collection.detects_language() {
        format!(
            "pg_catalog.chr(1) OPERATOR(pg_catalog.||) \
             pg_catalog.left(coalesce({alias}.metadata OPERATOR(pg_catalog.->>) '{KEY}', ''), \
             16) OPERATOR(pg_catalog.||) pg_catalog.chr(1) OPERATOR(pg_catalog.||) {text}"
        )
    } else {
        text
    }
}

/// Returns true if the collection's retriever needs an index that does not exist.
pub fn is_missing(collection: &Collection, partition: pg_sys::Oid) -> bool {
    collection.methods().uses_keywords() && lookup::whole_index(partition, c"rag_bm25").is_none()
}

/// Creates the index. Runs as the extension's owner.
///
/// # Errors
/// The text search configuration does not exist any more.
pub fn create(collection: &Collection, partition: &Partition) -> Result<(), Error> {
    let statement = format!(
        "CREATE INDEX ON {} USING rag_bm25 (({})) WITH (text_config = {})",
        partition.qualified(),
        expression(collection, &partition.quoted_name()),
        pgrx::spi::quote_literal(&collection.text_config),
    );
    execute(&statement, &[])?;
    Ok(())
}

/// # Errors
/// The weight is out of range.
pub fn check_title_weight(weight: i32) -> Result<(), Error> {
    if (0..=MAX_TITLE_WEIGHT).contains(&weight) {
        return Ok(());
    }
    Err(Error::invalid_parameter(format!(
        "title_weight must be between 0 and {MAX_TITLE_WEIGHT}, not {weight}"
    )))
}

/// Returns the name of a text search configuration with its schema. The name is looked up like
/// that of a table, except for `auto`.
///
/// # Errors
/// It does not exist.
pub fn qualified_text_config(name: &str) -> Result<String, Error> {
    if name == AUTO_NAME {
        return Ok(AUTO.to_owned());
    }
    let found = query(
        "SELECT pg_catalog.format('%I.%I', n.nspname, c.cfgname)
      FROM pg_catalog.pg_ts_config AS c
              JOIN pg_catalog.pg_namespace AS n
                  ON n.oid OPERATOR(pg_catalog.=) c.cfgnamespace
         WHERE c.oid OPERATOR(pg_catalog.=) $1::pg_catalog.regconfig",
        &[name.into()],
        |row| row.required(1),
    )?;
    let qualified = found.into_iter().next();
    qualified.ok_or_else(|| {
        Error::undefined(format!(
            "text search configuration \"{name}\" does not exist"
        ))
    })
}
