//! Drops collections.

use pgrx::PgSqlErrorCode;

use super::{partition, placement};
use crate::{
    catalog::{
        collections::{self, Collection},
        partitions, sources,
    },
    error::Error,
    pg::{spi::as_owner, transaction::with_latest_snapshot},
    storage::Storage,
};

/// The default collection of functions and manifests.
const DEFAULT: &str = "default";

/// Checks that a collection may be dropped, apart from sources that fill it.
///
/// # Errors
/// It is the default collection.
pub fn check_droppable(collection: &Collection) -> Result<(), Error> {
    if collection.name.as_str() != DEFAULT {
        return Ok(());
    }
    Err(required_by_functions("drop").hint(
        "To empty it, call rag_drop_source(name, keep_documents => false) and \
         rag_delete_document(document_id).",
    ))
}

/// Checks that a collection may have another name.
///
/// # Errors
/// It is the default collection.
pub fn check_renamable(collection: &Collection) -> Result<(), Error> {
    if collection.name.as_str() != DEFAULT {
        return Ok(());
    }
    Err(required_by_functions("rename"))
}

fn required_by_functions(action: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        format!(
            "cannot {action} collection \"{DEFAULT}\" because it is required by functions of the \
             extension"
        ),
    )
}

/// Drops a collection with its documents and chunks.
///
/// # Errors
/// A source fills the collection, or it is the default collection.
pub fn drop(collection: &Collection) -> Result<(), Error> {
    check_droppable(collection)?;
    let name = collection.name.as_str();
    as_owner(|owner| {
        // the same statement may have dropped them
        let sources = with_latest_snapshot(|| sources::names_of(owner, Some(name)))?;
        if !sources.is_empty() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop collection \"{name}\" because sources depend on it"),
            )
            .detail(format!("Sources: {}.", sources.join(", ")))
            .hint(
                "Drop the sources first with rag_drop_source, or together with the collection by \
                 with_sources => true.",
            ));
        }
        // what they have written must be deleted, too
        partitions::exclude_writers(owner, name)?;
        // others may have dropped the collection, and created another one, in the meantime
        if Collection::find(name)?.is_none_or(|now| now.serial != collection.serial) {
            return Err(Collection::missing(name));
        }
        partition::discard_rebuild(owner, name)?;
        placement::remove(owner, collection)?;
        Storage::of(collection).release(collection)?;
        collections::delete(owner, name)
    })
}
