//! The locks of an index. A session takes them in the order in which they are listed here.
//!
//! An insert waits for none that is held for long, so that neither vacuum nor a merge stops it.

use rag_pages::{IndexError, IndexLock, LockMode, WritePages};

/// Vacuum, and merges of the segments from before [`Meta::frozen`](crate::meta::Meta::frozen). It
/// is held for the whole work. An insert only tries to take it.
pub const MERGE: IndexLock = IndexLock::First;
/// Spills, and merges of younger segments. An insert only tries to take it.
pub const SPILL: IndexLock = IndexLock::Second;
/// Shared: a document of several records is being appended. Exclusive: the pending list is closed.
pub const APPEND: IndexLock = IndexLock::Third;
/// What is in flight, and what is dropped. It is held for one step.
pub const BLOCKS: IndexLock = IndexLock::Fourth;

/// Calls `f` with a lock.
///
/// # Errors
/// Those of `f`.
pub fn locked<R>(
    pages: &impl WritePages,
    lock: IndexLock,
    mode: LockMode,
    f: impl FnOnce() -> Result<R, IndexError>,
) -> Result<R, IndexError> {
    pages.lock(lock, mode);
    let result = f();
    pages.unlock(lock, mode);
    result
}

/// Calls `f` with a lock that no other session has then.
///
/// # Errors
/// Those of `f`.
pub fn exclusively<R>(
    pages: &impl WritePages,
    lock: IndexLock,
    f: impl FnOnce() -> Result<R, IndexError>,
) -> Result<R, IndexError> {
    locked(pages, lock, LockMode::Exclusive, f)
}
