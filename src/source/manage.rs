//! Finds sources that the caller may manage: their owners and members of rag_admin may.

use crate::{
    catalog::{
        name::canonical,
        sources::{self, Source, SourceRow},
    },
    collection::rights,
    error::Error,
    pg::spi::as_owner,
};

/// Returns a source that the caller may sync, suspend and cancel.
///
/// # Errors
/// The source does not exist, or the caller may not `action`.
pub fn find(name: &str, action: &str) -> Result<Source, Error> {
    let found = Source::find(canonical(name))?;
    rights::require_source_manager(
        found
            .as_ref()
            .map(|source| (&source.owner, source.collection.as_str())),
        action,
    )?;
    found.ok_or_else(|| Source::missing(name))
}

/// Locks the row of a source that the caller may manage, and returns it.
///
/// A caller without permission does not wait for the lock, and does not block others.
///
/// # Errors
/// The caller may not `action`.
pub fn lock(name: &str, action: &str) -> Result<Option<SourceRow>, Error> {
    let found = as_owner(|owner| sources::owner_and_collection(owner, name))?;
    rights::require_source_manager(
        found
            .as_ref()
            .map(|(owner, collection)| (owner, collection.as_str())),
        action,
    )?;
    let row = sources::lock(name)?;
    // the owner may have changed while this session waited
    rights::require_source_manager(
        row.as_ref()
            .map(|row| (&row.definition.owner, row.definition.collection.as_str())),
        action,
    )?;
    Ok(row)
}
