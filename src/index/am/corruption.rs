//! The errors for an index that cannot be read.

use pgrx::PgSqlErrorCode;
use rag_pages::IndexError;

use super::relation::Relation;
use crate::error::Error;

/// Returns the error for an index that cannot be read or changed.
pub fn index_error(index: Relation<'_>, error: IndexError) -> Error {
    match error {
        IndexError::OutOfMemory => out_of_memory(index),
        IndexError::OtherVersion { found, known } => other_version(index, found, known),
        IndexError::Corrupted { block, problem } => corrupted(index, block, &problem),
        IndexError::Recycled { block } => recycled(index, block),
    }
}

/// Returns the block that is corrupted, or `None` for another error.
pub fn corrupted_block(error: &IndexError) -> Option<u32> {
    match error {
        IndexError::Corrupted { block, .. } => Some(*block),
        _ => None,
    }
}

/// Returns the error for a page of a standby that was used again under a search.
fn recycled(index: Relation<'_>, block: u32) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        "canceling statement due to conflict with recovery",
    )
    .detail(format!(
        "Block {block} of index \"{}\", which the search was about to read, was used again on the \
         primary.",
        index.name()
    ))
    .hint("Repeat the transaction. Set hot_standby_feedback to on to avoid the conflict.")
}

/// Returns the error for an index whose `block` has impossible contents.
fn corrupted(index: Relation<'_>, block: u32, problem: &str) -> Error {
    let name = index.name();
    let quoted = pgrx::spi::quote_identifier(&name);
    Error::new(
        PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
        format!("index \"{name}\" is corrupted: {problem}"),
    )
    .detail(format!("Block {block}."))
    .hint(format!(
        "REINDEX INDEX {quoted} rebuilds the index from the table. Check the disk for errors."
    ))
}

/// Returns the error for an allocation that failed while an index was read or changed.
fn out_of_memory(index: Relation<'_>) -> Error {
    Error::out_of_memory(format!(
        "Memory ran out while index \"{}\" was being read or changed.",
        index.name()
    ))
}

/// Returns the error for an index whose pages have a format version that this library cannot read.
fn other_version(index: Relation<'_>, found: u32, known: u32) -> Error {
    let name = index.name();
    let quoted = pgrx::spi::quote_identifier(&name);
    Error::unsupported(format!(
        "index \"{name}\" has an unsupported format version"
    ))
    .detail(format!(
        "The index has format version {found}. This version of rag supports format version \
             {known}."
    ))
    .hint(format!("Use REINDEX INDEX {quoted} to rebuild the index."))
}
