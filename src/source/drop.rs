//! Dropping a source.

use super::{manage, table::changes};
use crate::{
    catalog::{
        collections::Collection,
        documents, kept_documents,
        name::{Name, canonical},
        runs,
        sources::{self, Source},
    },
    cluster::{lock::Lock, news},
    collection::{damage, rights},
    engine::clones,
    error::{Cause, Error},
    pg::{
        spi::{OwnerRights, as_owner},
        transaction::{subtransaction, with_latest_snapshot},
    },
    run::session,
};

/// Drops a source. Returns false if there is none.
///
/// # Errors
/// The caller may not drop it, or another session is dropping it.
pub fn drop_source(name: &str, keep_documents: bool) -> Result<bool, Error> {
    if keep_documents {
        drop_with(name, Kept::All)
    } else {
        drop_with(name, Kept::None)
    }
}

/// The documents of a dropped source that stay.
#[derive(Debug, Clone, Copy)]
enum Kept<'a> {
    All,
    None,
    /// Those of a collection, which is dropped next. That reads none of its chunks.
    Of(&'a str),
}

fn drop_with(name: &str, kept: Kept<'_>) -> Result<bool, Error> {
    const ACTION: &str = "drop a source";
    let name = canonical(name);
    let Some(source) = Source::find(name)? else {
        rights::require_source_manager(None, ACTION)?;
        return Ok(false);
    };
    rights::require_source_manager(Some((&source.owner, &source.collection)), ACTION)?;
    end_runs(&source.name)?;
    // another session may have dropped it meanwhile, or changed its owner or table
    let Some(row) = manage::lock(name, ACTION)? else {
        return Ok(false);
    };
    // a run that was stopped for the drop has announced it
    if !with_latest_snapshot(|| as_owner(|owner| runs::was_stopped(owner, name)))? {
        as_owner(|owner| sources::announce_drop(owner, name))?;
    }
    let relation = row.definition.relation;
    changes::remove_tracking(&row.name, relation.map(|relation| relation.relation))?;
    if matches!(kept, Kept::All) {
        as_owner(|owner| detach_documents(owner, name))?;
    } else {
        let except = match kept {
            Kept::Of(collection) => Some(collection),
            Kept::All | Kept::None => None,
        };
        // in every collection: the source may have been altered and not synced since
        let found = as_owner(|owner| documents::ids_by_collection(owner, name, except))?;
        for (collection, ids) in found {
            rights::require_write(&Collection::get(&collection)?)?;
            as_owner(|owner| documents::delete_and_forget(owner, &collection, &ids))?;
        }
    }
    if let Some(uid) = as_owner(|owner| sources::drop(owner, &row.name))? {
        clones::forget_source_at_commit(uid);
    }
    news::wake_scheduler_at_commit();
    Ok(true)
}

/// Keeps the documents of a dropped source in their collections, without a source.
///
/// A later source of the same name does not delete them. A document of any source with the same uri
/// replaces the kept document. Where the chunks are damaged, only the documents are changed: the
/// next sync or rebuild makes the chunks from them.
fn detach_documents(owner: &OwnerRights, source: &str) -> Result<(), Error> {
    for collection in documents::ids_by_collection(owner, source, None)?.into_keys() {
        match subtransaction(|| kept_documents::detach_chunks(owner, &collection, source)) {
            Err(error) if error.is(Cause::Corrupt) => damage::mark(&error),
            detached => detached?,
        }
    }
    kept_documents::detach_documents(owner, source)
}

/// Drops the sources that fill a collection, with their documents.
///
/// # Errors
/// The caller may not drop one of them, or another session is dropping it.
pub fn drop_sources_of(collection: &Collection) -> Result<(), Error> {
    for name in as_owner(|owner| sources::names_of(owner, Some(collection.name.as_str())))? {
        drop_with(&name, Kept::Of(collection.name.as_str()))?;
    }
    Ok(())
}

/// Stops the run of a source that is being dropped, and prevents others from starting until the
/// transaction ends.
fn end_runs(source: &Name) -> Result<(), Error> {
    if !Lock::source_being_dropped(source).try_acquire_for_transaction_briefly() {
        return Err(Error::in_use(format!(
            "source \"{source}\" is being dropped by another session"
        )));
    }
    let busy = Lock::source_busy(source);
    if !busy.try_acquire_for_transaction_briefly() {
        pgrx::warning!("source \"{source}\" is being synced: stopping its run");
        session::cancel(source)?;
        busy.acquire_for_transaction();
    }
    Ok(())
}
