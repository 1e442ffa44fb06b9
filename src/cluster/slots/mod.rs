//! Slots: `rag.max_running_syncs` limits the number of runs in progress in the whole cluster.
//!
//! With `shared_preload_libraries = 'rag'` slots are in shared memory, together with what waits for
//! one: sessions, and the queues of databases, one for each owner. [`rag_schedule::fair`] decides
//! which waiter gets the next slot. A process that starts a runner claims a slot for it first
//! ([`claim`]); the runner adopts the slot ([`adopt`]) and holds it until it ends.
//!
//! ```text
//!  session, scheduler ── claim ──▶ Slot { pid: its own } ── start the runner ──▶
//!  Slot { pid: the runner's } ── runner ends ──▶ free
//! ```
//!
//! A waiter that is offered a slot has [`OFFER_TIMEOUT`] to claim it. Then others come first for
//! the same time. Without the shared memory slots are locks ([`lock`](super::lock)), which the
//! runner acquires itself, and another lock has sessions take turns.

mod balance;

use std::time::Duration;

use rag_schedule::fair::{self, Party};

use super::{
    lock::{self, Lock},
    shared::{self, Shared},
};
use crate::{
    pg::process::{database, my_pid, signal, uptime},
    settings,
};

pub use balance::{may_schedule, may_take_worker, rebalance, want_worker};

/// Maximum of `rag.max_running_syncs`.
const MAX_SLOTS: usize = settings::MAX_SLOTS;
/// Maximum number of waiters.
const MAX_WAITERS: usize = 256;
/// Time that a slot is kept for a waiter that does not claim it.
const OFFER_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy)]
struct Slot {
    ticket: u64,
    /// The runner, or the process that is about to start it.
    pid: i32,
    party: Party,
    is_adopted: bool,
    /// The session has no worker for its run yet.
    wants_worker: bool,
    /// The run was asked to give its slot to another one.
    gives_way: bool,
}

#[derive(Clone, Copy)]
struct Waiter {
    /// The session, or 0 for the queue of the party's database.
    session: i32,
    party: Party,
    arrival: u64,
    /// By [`uptime`].
    since: i64,
    /// When a slot was first offered, by [`uptime`], or 0.
    offered: i64,
}

/// The part of the shared memory that this module maintains.
#[derive(Clone, Copy)]
pub struct Slots {
    /// In the order in which they were taken.
    slots: [Option<Slot>; MAX_SLOTS],
    waiters: [Option<Waiter>; MAX_WAITERS],
    /// Numbers tickets, arrivals and turns.
    counter: u64,
    /// A scheduler could not be started, or could start no runner, because sessions wait for
    /// workers.
    starved: bool,
    /// Until then sessions leave free workers to schedulers.
    turn_ends: i64,
}

impl Slots {
    pub const EMPTY: Self = Self {
        slots: [None; MAX_SLOTS],
        waiters: [None; MAX_WAITERS],
        counter: 0,
        starved: false,
        turn_ends: 0,
    };

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn taken(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().flatten()
    }

    fn taken_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().flatten()
    }

    fn parties(&self) -> Vec<Party> {
        self.taken().map(|slot| slot.party).collect()
    }

    fn free(&self) -> usize {
        (settings::max_running_syncs() as usize).saturating_sub(self.taken().count())
    }

    /// Frees slots. Returns true if there were any.
    fn remove(&mut self, is_removed: impl Fn(&Slot) -> bool) -> bool {
        let before = self.taken().count();
        let left: Vec<Slot> = self
            .taken()
            .filter(|slot| !is_removed(slot))
            .copied()
            .collect();
        self.slots = [None; MAX_SLOTS];
        self.slots
            .iter_mut()
            .zip(left.iter())
            .for_each(|(place, slot)| *place = Some(*slot));
        left.len() < before
    }

    fn waiters(&self) -> Vec<Waiter> {
        self.waiters.iter().flatten().copied().collect()
    }
}

/// Returns the waiters in the form that the rules for shares need. Those that did not claim their
/// offer are left out for a while.
fn eligible(shared: &mut Shared, waiters: &[Waiter]) -> Vec<(usize, fair::Waiter)> {
    let now = uptime();
    let mut found = vec![];
    for (position, waiter) in waiters.iter().enumerate() {
        let expired = shared::after(waiter.offered, OFFER_TIMEOUT);
        let back = shared::after(waiter.offered, OFFER_TIMEOUT * 2);
        if waiter.offered != 0 && expired <= now && now < back {
            continue;
        }
        let known = shared.database(waiter.party.database).copied();
        let (served, served_session) =
            known.map_or((0, false), |known| (known.served, known.served_session));
        let repeats = served != 0 && served_session == (waiter.session != 0);
        found.push((
            position,
            fair::Waiter {
                party: waiter.party,
                served,
                repeats,
                arrival: waiter.arrival,
            },
        ));
    }
    found
}

/// Offers the free slots to the waiters whose turn it is. Returns the processes to wake. The waiter
/// at the place `present` is this process, which knows.
fn offer(shared: &mut Shared, present: Option<usize>) -> Vec<i32> {
    let (free, runs, waiters) = (
        shared.slots.free(),
        shared.slots.parties(),
        shared.slots.waiters(),
    );
    let eligible = eligible(shared, &waiters);
    let list: Vec<fair::Waiter> = eligible.iter().map(|(_, waiter)| *waiter).collect();
    let granted: Vec<u64> = fair::granted(&runs, &list, free)
        .into_iter()
        .map(|n| list[n].arrival)
        .collect();
    let (mut to_wake, now) = (vec![], uptime());
    for place in 0..MAX_WAITERS {
        let Some(mut waiter) = shared.slots.waiters[place] else {
            continue;
        };
        if !granted.contains(&waiter.arrival) {
            let is_eligible = list.iter().any(|other| other.arrival == waiter.arrival);
            waiter.offered = if is_eligible { 0 } else { waiter.offered };
        } else if waiter.offered == 0 || now >= shared::after(waiter.offered, OFFER_TIMEOUT * 2) {
            waiter.offered = now;
            match waiter.session {
                _ if present == Some(place) => {}
                0 => to_wake.push(shared.wake(waiter.party.database)),
                session => to_wake.push(session),
            }
        }
        shared.slots.waiters[place] = Some(waiter);
    }
    to_wake
}

fn wake_all(to_wake: Vec<i32>) {
    to_wake
        .into_iter()
        .for_each(|pid| signal(pid, libc::SIGUSR1));
}

// -- claims

/// A slot that is claimed for a run whose runner is about to be started. It is released when the
/// value is dropped, unless the runner has adopted it by then.
#[derive(Debug)]
pub struct Claim {
    /// 0 without the shared memory: the runner acquires a lock.
    ticket: u64,
}

impl Claim {
    /// Returns what the runner needs to adopt the slot.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Returns true if the runner has the slot now. Without the shared memory the runner acquires
    /// it itself.
    pub fn is_adopted(&self) -> bool {
        let is_mine = |slot: &Slot| slot.ticket == self.ticket && !slot.is_adopted;
        self.ticket == 0 || !shared::exclusively(|shared| shared.slots.taken().any(is_mine))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.ticket != 0 {
            release(|slot| slot.ticket == self.ticket && !slot.is_adopted);
        }
    }
}

fn release(is_released: impl Fn(&Slot) -> bool) {
    wake_all(shared::exclusively(|shared| {
        if shared.slots.remove(is_released) {
            offer(shared, None)
        } else {
            vec![]
        }
    }));
}

/// Claims a slot for a run of `owner` in the current database, if one is free and it is the turn of
/// this session or of the queue of the database. Otherwise the session or queue waits from then on,
/// until [`withdraw`] or [`set_waiting_owners`]. `starting` is the number of runs that this process
/// has started and that have not begun.
pub fn claim(owner: u32, by_session: bool, starting: usize) -> Option<Claim> {
    if !shared::is_present() {
        let kept = usize::from(!by_session && !Lock::next_slot().is_free());
        return (lock::free_slots() > starting + kept).then_some(Claim { ticket: 0 });
    }
    shared::leave_at_exit();
    let party = Party {
        database: database().to_u32(),
        owner,
    };
    let session = if by_session { my_pid() } else { 0 };
    let (ticket, to_wake) = shared::exclusively(|shared| claim_in(shared, party, session));
    wake_all(to_wake);
    ticket.map(|ticket| Claim { ticket })
}

/// Returns the ticket of the claimed slot, and the processes to wake.
fn claim_in(shared: &mut Shared, party: Party, session: i32) -> (Option<u64>, Vec<i32>) {
    let is_mine =
        |place: &Option<Waiter>| place.is_some_and(|w| w.session == session && w.party == party);
    let waiters = &shared.slots.waiters;
    let place = waiters
        .iter()
        .position(is_mine)
        .or_else(|| waiters.iter().position(Option::is_none));
    // without a place to wait in, the process that asks when a slot is free gets it
    let Some(place) = place else {
        return (None, vec![]);
    };
    let is_new = waiters[place].is_none();
    if is_new {
        let arrival = shared.slots.next();
        shared.slots.waiters[place] = Some(Waiter {
            session,
            party,
            arrival,
            since: uptime(),
            offered: 0,
        });
    }
    let mut to_wake = offer(shared, Some(place));
    if is_new {
        // the launcher has another run give way in time
        to_wake.push(shared.launcher());
    }
    let Some(waiter) =
        shared.slots.waiters[place].filter(|waiter| waiter.offered != 0 && shared.slots.free() > 0)
    else {
        return (None, to_wake);
    };
    if uptime() >= shared::after(waiter.offered, OFFER_TIMEOUT) {
        return (None, to_wake);
    }
    shared.slots.waiters[place] = None;
    let (ticket, turn) = (shared.slots.next(), shared.slots.next());
    let slot = Slot {
        ticket,
        pid: my_pid(),
        party,
        is_adopted: false,
        wants_worker: false,
        gives_way: false,
    };
    if let Some(place) = shared.slots.slots.iter_mut().find(|place| place.is_none()) {
        *place = Some(slot);
    }
    if let Some(database) = shared.database(party.database) {
        (database.served, database.served_session) = (turn, session != 0);
    }
    (Some(ticket), to_wake)
}

/// Claims a slot that no run waits for. Drift checks do this.
pub fn claim_spare(owner: u32) -> Option<Claim> {
    if !shared::is_present() {
        return claim(owner, false, 0);
    }
    let is_spare = shared::exclusively(|shared| {
        shared.slots.free() > shared.slots.waiters.iter().flatten().count()
    });
    let claim = if is_spare {
        claim(owner, false, 0)
    } else {
        None
    };
    if is_spare && claim.is_none() {
        withdraw_if(|waiter| waiter.session == 0 && waiter.party.owner == owner);
    }
    claim
}

fn withdraw_if(is_withdrawn: impl Fn(&Waiter) -> bool) {
    if !shared::is_present() {
        return;
    }
    let database = database().to_u32();
    wake_all(shared::exclusively(|shared| {
        for place in &mut shared.slots.waiters {
            if place
                .is_some_and(|waiter| waiter.party.database == database && is_withdrawn(&waiter))
            {
                *place = None;
            }
        }
        offer(shared, None)
    }));
}

/// Withdraws this session from the waiters.
pub fn withdraw() {
    withdraw_if(|waiter| waiter.session == my_pid());
}

/// Withdraws the queues of all owners in the current database but these.
pub fn set_waiting_owners(owners: &[u32]) {
    withdraw_if(|waiter| waiter.session == 0 && !owners.contains(&waiter.party.owner));
}

/// Returns true if no slot is free.
pub fn are_all_taken() -> bool {
    if shared::is_present() {
        shared::exclusively(|shared| shared.slots.free() == 0)
    } else {
        lock::free_slots() == 0
    }
}

/// Returns the number of slots that are taken. The shared memory exists.
pub fn number_taken() -> usize {
    shared::exclusively(|shared| shared.slots.taken().count())
}

// -- for runners

/// A slot that a runner holds.
pub enum RunnerSlot {
    Shared(u64),
    Lock(Lock),
}

impl RunnerSlot {
    /// Releases the slot before the runner ends.
    pub fn release(self) {
        match self {
            Self::Shared(ticket) => release(|slot| slot.ticket == ticket),
            Self::Lock(lock) => lock.release(),
        }
    }
}

/// Takes the slot that was claimed for this runner, or without the shared memory any free one.
/// Returns `None` if there is none.
pub fn adopt(ticket: u64) -> Option<RunnerSlot> {
    if !shared::is_present() {
        return lock::try_acquire_slot().map(RunnerSlot::Lock);
    }
    let is_adopted = shared::exclusively(|shared| {
        let mut slots = shared.slots.taken_mut();
        slots
            .find(|slot| slot.ticket == ticket && !slot.is_adopted)
            .is_some_and(|slot| {
                (slot.pid, slot.is_adopted, slot.wants_worker) = (my_pid(), true, false);
                true
            })
    });
    is_adopted.then_some(RunnerSlot::Shared(ticket))
}

/// Returns true if this runner was asked to give its slot to another run.
pub fn must_give_way() -> bool {
    shared::is_present()
        && shared::exclusively(|shared| {
            shared
                .slots
                .taken()
                .any(|slot| slot.pid == my_pid() && slot.gives_way)
        })
}

// -- when processes and databases go

/// Removes a process that exits. Returns the processes to wake.
pub fn leave(shared: &mut Shared, pid: i32) -> Vec<i32> {
    let had_slot = shared.slots.remove(|slot| slot.pid == pid);
    let mut has_waited = false;
    for place in &mut shared.slots.waiters {
        if place.is_some_and(|waiter| waiter.session == pid && pid != 0) {
            *place = None;
            has_waited = true;
        }
    }
    if had_slot || has_waited {
        offer(shared, None)
    } else {
        vec![]
    }
}

/// Removes the queues of a database that was dropped.
pub fn forget_database(shared: &mut Shared, database: u32) {
    for place in &mut shared.slots.waiters {
        if place.is_some_and(|waiter| waiter.party.database == database && waiter.session == 0) {
            *place = None;
        }
    }
}
