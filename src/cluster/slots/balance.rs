//! Shares of slots and of background workers: which run gives way, and which process gets a worker
//! when the server has too few.

use std::time::Duration;

use rag_schedule::fair;

use super::{Claim, OFFER_TIMEOUT, Slot, eligible, offer, wake_all};
use crate::{
    cluster::shared,
    pg::process::{signal, uptime},
    settings,
};

/// Time that free workers are left to schedulers after a session has got one, if sessions wait for
/// workers too.
const SCHEDULERS_TURN: Duration = Duration::from_secs(3);

// -- workers, if the server has too few

/// Records whether the session that has a claim waits for a worker to start its run with.
pub fn want_worker(claim: &Claim, wants: bool) {
    if claim.ticket == 0 {
        return;
    }
    shared::exclusively(|shared| {
        let mut slots = shared.slots.taken_mut();
        let Some(slot) = slots.find(|slot| slot.ticket == claim.ticket && !slot.is_adopted) else {
            return;
        };
        let has_waited = std::mem::replace(&mut slot.wants_worker, wants);
        drop(slots);
        if has_waited && !wants && shared.slots.starved {
            shared.slots.turn_ends = shared::after(uptime(), SCHEDULERS_TURN);
        }
    });
    if wants {
        shared::set_crowded(true);
    }
}

/// Returns true if a free worker is for the session with this claim. Sessions take turns with
/// schedulers, and get workers in the order of their claims.
pub fn may_take_worker(claim: &Claim) -> bool {
    claim.ticket == 0
        || shared::exclusively(|shared| {
            let mut wanting = shared.slots.taken().filter(|slot| slot.wants_worker);
            uptime() >= shared.slots.turn_ends && wanting.all(|slot| slot.ticket >= claim.ticket)
        })
}

/// Returns true if a free worker is for schedulers and the runners that they start.
pub fn may_schedule() -> bool {
    !shared::is_present()
        || shared::exclusively(|shared| {
            let is_wanted = shared.slots.taken().any(|slot| slot.wants_worker);
            shared.slots.starved = is_wanted && uptime() >= shared.slots.turn_ends;
            !shared.slots.starved
        })
}

// -- for the launcher

/// What the launcher does about the slots.
struct Balance {
    to_wake: Vec<i32>,
    /// The runner that is asked to give way, or 0.
    victim: i32,
    /// When to look again at the latest.
    next: Option<Duration>,
}

/// Offers free slots again, and asks a run to give way if another party has waited for its share
/// for `rag.fair_wait`. Returns when to look again at the latest.
pub fn rebalance() -> Option<Duration> {
    let Balance {
        to_wake,
        victim,
        next,
    } = shared::exclusively(decide);
    wake_all(to_wake);
    signal(victim, libc::SIGINT);
    next
}

fn decide(shared: &mut shared::Shared) -> Balance {
    let to_wake = offer(shared, None);
    let balance = |victim, next| Balance {
        to_wake,
        victim,
        next,
    };
    let (waiters, now) = (shared.slots.waiters(), uptime());
    let runs: Vec<Slot> = shared.slots.taken().copied().collect();
    if waiters.is_empty() {
        return balance(0, None);
    }
    if shared.slots.free() > 0 {
        return balance(0, Some(OFFER_TIMEOUT));
    }
    if runs.iter().any(|slot| slot.gives_way) {
        return balance(0, None);
    }
    let fair_wait = settings::fair_wait();
    let eligible = eligible(shared, &waiters);
    let list: Vec<fair::Waiter> = eligible.iter().map(|(_, waiter)| *waiter).collect();
    let deadline = |n: usize| shared::after(waiters[eligible[n].0].since, fair_wait);
    let parties = shared.slots.parties();
    let has_waited = |n: usize| deadline(n) <= now;
    let victim = fair::gives_way(&parties, &list, has_waited).filter(|n| runs[*n].is_adopted);
    if let Some(victim) = victim {
        if let Some(slot) = shared.slots.taken_mut().nth(victim) {
            slot.gives_way = true;
        }
        return balance(runs[victim].pid, None);
    }
    let next = (0..list.len())
        .map(|n| deadline(n) - now)
        .filter(|left| *left > 0)
        .min();
    balance(
        0,
        next.map(|left| Duration::from_micros(left.unsigned_abs())),
    )
}
