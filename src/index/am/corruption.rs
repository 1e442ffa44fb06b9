//! The errors for an index that cannot be read.

use pgrx::PgSqlErrorCode;

use super::relation::Relation;
use crate::error::Error;

/// Returns the error for an index whose `block` has impossible contents.
pub fn corrupted(index: Relation<'_>, block: u32, problem: &str) -> Error {
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
pub fn out_of_memory(index: Relation<'_>) -> Error {
    Error::out_of_memory(format!(
        "Memory ran out while index \"{}\" was being read or changed.",
        index.name()
    ))
}

/// Returns the error for an index whose pages have a format version that this library cannot read.
pub fn other_version(index: Relation<'_>, found: u32, known: u32) -> Error {
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
