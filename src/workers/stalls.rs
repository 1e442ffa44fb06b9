//! The log of runs that make no progress. `rag_status()` reports them as long as they do, and the
//! log has one line for each.

use std::time::Duration;

use crate::{catalog::stalls, error::Error, pg::spi::owner_transaction, settings};

/// Logs the runs that have made no progress for `rag.stall_timeout`. Returns when to look again.
///
/// # Errors
/// A statement fails.
pub fn log_new() -> Result<Option<Duration>, Error> {
    let Some(timeout) = settings::stall_timeout() else {
        return Ok(None);
    };
    for run in owner_transaction(stalls::take_new)? {
        pgrx::warning!(
            "rag: run {} of source \"{}\" has made no progress since {}",
            run.run_id,
            run.source,
            run.since
        );
    }
    owner_transaction(|owner| stalls::until_next(owner, timeout))
}
