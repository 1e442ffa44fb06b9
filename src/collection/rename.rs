//! Renames a collection. Its documents keep their ids, so nothing is embedded again and no document
//! is stored twice.

use super::{drop, names, partition, rights};
use crate::{
    catalog::{collections::Collection, name::Name, partitions, renames, sources},
    cluster::{self, lock::Lock, news},
    error::Error,
    pg::spi::as_owner,
    storage::Storage,
};

/// Renames a collection.
///
/// # Errors
/// The caller does not own it, the new name is in use, or the collection is being synced or
/// rebuilt, or its knowledge items are being indexed.
pub fn rename(name: &str, new_name: &str) -> Result<(), Error> {
    let collection = Collection::lock(name)?;
    rights::require_owner(&collection, "rename collection")?;
    drop::check_renamable(&collection)?;
    let new = Name::collection(new_name)?;
    for source in as_owner(|owner| sources::names_of(owner, Some(name)))? {
        exclude_runs(&Name::source(&source)?)?;
    }
    if !Lock::rebuild(name).try_acquire_for_transaction_briefly() {
        return Err(Error::in_use(format!(
            "collection \"{name}\" is being rebuilt"
        )));
    }
    if !Lock::knowledge(name).try_acquire_for_transaction_briefly() {
        return Err(Error::in_use(format!(
            "knowledge items of collection \"{name}\" are being indexed"
        )));
    }
    as_owner(|owner| {
        partitions::exclude_writers(owner, name)?;
        names::claim(owner, &new, Some(&collection))?;
        if Collection::find(new.as_str())?.is_some() {
            return Err(Error::duplicate(format!(
                "collection \"{new}\" already exists"
            )));
        }
        // others may have dropped it in the meantime, or stored its first document
        let now = Collection::get(name)?;
        if now.serial != collection.serial {
            return Err(Collection::missing(name));
        }
        partition::discard_rebuild(owner, name)?;
        Storage::of(&now).release(&now)?;
        renames::collection(owner, &now, &new)?;
        let renamed = Collection::get(new.as_str())?;
        Storage::of(&renamed).adopt(&renamed)
    })?;
    cluster::forget_statistics_at_commit(name);
    news::wake_scheduler_at_commit();
    Ok(())
}

/// Keeps runs of a source from starting until the transaction ends.
///
/// # Errors
/// A run or a drift check is in progress.
pub fn exclude_runs(source: &Name) -> Result<(), Error> {
    let locks = [
        Lock::source_being_dropped(source),
        Lock::source_busy(source),
    ];
    let is_free = locks.iter().all(Lock::try_acquire_for_transaction_briefly);
    if is_free {
        Ok(())
    } else {
        Err(
            Error::in_use(format!("source \"{source}\" is in use by a run"))
                .hint("Wait for the run with rag_wait, or cancel it with rag_cancel_run."),
        )
    }
}
