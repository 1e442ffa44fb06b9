//! Locks that show what other processes are doing. Each is released when its process ends.
//!
//! | lock | held by | meaning |
//! |---|---|---|
//! | source busy | runner | a run or a drift check of the source is in progress; there is never a second one |
//! | source being dropped | session in rag_drop_source | nothing may start with the source |
//! | rebuild | session in rag_rebuild_collection | the collection is being rebuilt |
//! | knowledge | indexer | the knowledge items of the collection are being indexed |
//! | document queue | document queue | the queued documents of this database are being indexed |
//! | scheduler | scheduler | this database has its scheduler |
//! | slot 0, 1, ... | runner | one of the runs that `rag.max_running_syncs` allows in the cluster |
//! | next slot | session in rag_sync | the next free slot is for this session |
//!
//! The last two serve servers without `shared_preload_libraries = 'rag'`. With it,
//! [`slots`](super::slots) are in shared memory. [`crate::pg::lock`] lists the lock tags.
//! `rag_internal.source_locks()` shows the first two locks, and `pg_locks` shows all of them.

use crate::{catalog::name::Name, error::Error, pg::lock::SourceLock, settings};

pub use crate::pg::lock::Lock;

impl Lock {
    /// A run or a drift check of the source is in progress.
    pub fn source_busy(source: &Name) -> Self {
        Self::of_source(source.as_str(), SourceLock::Busy)
    }

    /// The source is about to be dropped.
    pub fn source_being_dropped(source: &Name) -> Self {
        Self::of_source(source.as_str(), SourceLock::BeingDropped)
    }
}

/// Acquires one of the slots for runs. Returns `None` if none is free.
pub fn try_acquire_slot() -> Option<Lock> {
    (0..settings::max_running_syncs())
        .map(Lock::slot)
        .find(Lock::try_acquire)
}

/// Returns the number of slots that are free now.
pub fn free_slots() -> usize {
    (0..settings::max_running_syncs())
        .filter(|number| Lock::slot(*number).is_free())
        .count()
}

/// # Errors
/// Another session is about to drop the source.
pub fn check_not_being_dropped(source: &Name) -> Result<(), Error> {
    if Lock::source_being_dropped(source).is_free() {
        return Ok(());
    }
    Err(Error::in_use(format!(
        "source \"{source}\" is being dropped by another session"
    )))
}
