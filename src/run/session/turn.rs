//! How a session gets a slot for its run, and a background worker to carry it out.

use std::time::Instant;

use super::{
    DynamicBackgroundWorker, RequestedRun, has_begun, start,
    wait::{POLL_INTERVAL, SHORT_POLL_INTERVAL, read_now},
};
use crate::{
    catalog::{name::Name, sources},
    cluster::{
        lock::Lock,
        shared,
        slots::{self, Claim},
    },
    error::Error,
    pg::wait::sleep,
    settings,
};

/// A slot for the run of a session. Without shared memory it includes the lock on the next slot.
pub(super) struct Turn {
    claim: Claim,
    has_lock: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.has_lock {
            Lock::next_slot().release_in_transaction();
        }
    }
}

/// Withdraws the session from the waiters, however the wait ends.
struct WithdrawOnDrop;

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        slots::withdraw();
    }
}

/// Waits until this session has a slot. Returns `None` if the scheduler has begun the run
/// meanwhile, or the run has ended.
pub(super) fn wait_for_slot(source: &Name, run_id: i64) -> Result<Option<Turn>, Error> {
    let owner = read_now(|owner| sources::owner_and_collection(owner, source.as_str()))?;
    let owner = owner.map_or(0, |(owner, _)| owner.id.to_u32());
    let (began, mut is_reported, _withdraw) = (Instant::now(), false, WithdrawOnDrop);
    // if the wait ends with an error, the end of the transaction releases the lock
    let mut has_lock = false;
    loop {
        has_lock =
            has_lock || !shared::is_present() && Lock::next_slot().try_acquire_for_transaction();
        if (has_lock || shared::is_present())
            && let Some(claim) = slots::claim(owner, true, 0)
        {
            return Ok(Some(Turn { claim, has_lock }));
        }
        if !is_reported && (slots::are_all_taken() || began.elapsed() >= POLL_INTERVAL) {
            is_reported = true;
            pgrx::notice!(
                "waiting: too many runs in progress (rag.max_running_syncs = {})",
                settings::max_running_syncs()
            );
        }
        sleep(if is_reported {
            POLL_INTERVAL
        } else {
            SHORT_POLL_INTERVAL
        });
        if has_begun(run_id)? {
            if has_lock {
                Lock::next_slot().release_in_transaction();
            }
            return Ok(None);
        }
    }
}

/// Starts the runner of a session, and waits first if no background worker slot is free. Returns
/// `None` if the scheduler has begun the run meanwhile, or the run has ended.
pub(super) fn wait_for_worker(
    source: &Name,
    requested: RequestedRun,
    turn: &Turn,
) -> Result<Option<DynamicBackgroundWorker>, Error> {
    let mut is_reported = false;
    loop {
        let may_start = slots::may_take_worker(&turn.claim);
        if may_start && let Ok(worker) = start(source, requested.task(), Some(&turn.claim)) {
            if is_reported {
                slots::want_worker(&turn.claim, false);
            }
            return Ok(Some(worker));
        }
        slots::want_worker(&turn.claim, true);
        if !std::mem::replace(&mut is_reported, true) {
            pgrx::notice!("waiting: all background worker slots are in use (max_worker_processes)");
        }
        sleep(POLL_INTERVAL);
        if has_begun(requested.id())? {
            return Ok(None);
        }
    }
}
