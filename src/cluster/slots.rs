//! Slots: as many runs are under way in the whole cluster as `rag.max_running_syncs` allows.
//!
//! With `shared_preload_libraries = 'rag'` slots are in shared memory, with those who wait for one:
//! sessions, and the queues of databases, one for each owner. [`rag_schedule::fair`] says who gets
//! the next one. Whoever starts a runner claims a slot for it first ([`claim`]); the runner adopts
//! it ([`adopt`]) and has it until it ends.
//!
//! ```text
//!  session, scheduler ── claim ──▶ Slot { pid: its own } ── start the runner ──▶ Slot { pid: the runner's } ── ends ──▶ free
//! ```
//!
//! A waiter to whom a slot is open has [`OFFER`] to claim it; then others come first for as long.
//! Without the shared memory slots are locks ([`lock`](super::lock)), which the runner takes
//! itself, and sessions take turns by another.

use std::time::Duration;

use rag_schedule::fair::{self, Party};

use super::{
    lock::{self, Lock},
    shared::{self, Shared},
};
use crate::{
    pg::process::{database, my_pid, now},
    settings,
};

/// The most that `rag.max_running_syncs` can be.
pub const MOST: usize = settings::MAX_SLOTS;
const WAITERS: usize = 256;
/// How long a slot is kept for a waiter that does not take it.
const OFFER: Duration = Duration::from_secs(5);
/// How long workers are left to schedulers where sessions wait for one, too, after a session has
/// got one.
const TURN: Duration = Duration::from_secs(3);

#[derive(Clone, Copy)]
struct Slot {
    ticket: u64,
    /// The runner, or who is about to start it.
    pid: i32,
    party: Party,
    is_adopted: bool,
    /// The session has no worker for its run yet.
    wants_worker: bool,
    /// The run was asked to give way to another one.
    gives_way: bool,
}

#[derive(Clone, Copy)]
struct Waiter {
    /// The session; 0: the queue of the party's database.
    session: i32,
    party: Party,
    arrival: u64,
    since: i64,
    /// When a slot was first open to it; 0: none is.
    offered: i64,
}

/// The part of the shared memory that this module looks after.
#[derive(Clone, Copy)]
pub struct Slots {
    /// In the order in which they were taken.
    slots: [Option<Slot>; MOST],
    waiters: [Option<Waiter>; WAITERS],
    /// Numbers tickets, arrivals and turns.
    counter: u64,
    /// A scheduler could not be started, or could start no runner, because sessions wait for
    /// workers.
    starved: bool,
    /// Sessions leave free workers to schedulers until then.
    turn_ends: i64,
}

impl Slots {
    pub const EMPTY: Self = Self {
        slots: [None; MOST],
        waiters: [None; WAITERS],
        counter: 0,
        starved: false,
        turn_ends: 0,
    };

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn parties(&self) -> Vec<Party> {
        self.slots.iter().flatten().map(|slot| slot.party).collect()
    }

    fn free(&self) -> usize {
        (settings::max_running_syncs() as usize).saturating_sub(self.slots.iter().flatten().count())
    }

    fn remove(&mut self, whether: impl Fn(&Slot) -> bool) -> bool {
        let before = self.slots.iter().flatten().count();
        let left: Vec<Slot> = self
            .slots
            .iter()
            .flatten()
            .filter(|slot| !whether(slot))
            .copied()
            .collect();
        self.slots = [None; MOST];
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

/// Who wait, as the rules for shares look at them; those who have let their offer pass are left out
/// for a while.
fn eligible(shared: &mut Shared, waiters: &[Waiter]) -> Vec<(usize, fair::Waiter)> {
    let now = now();
    let mut found = vec![];
    for (position, waiter) in waiters.iter().enumerate() {
        let (passed, back) = (
            shared::after(waiter.offered, OFFER),
            shared::after(waiter.offered, OFFER * 2),
        );
        if waiter.offered != 0 && passed <= now && now < back {
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

/// Offers the free slots to those whose turn it is; the processes to be told. The waiter in the
/// place `present` is this process, which knows.
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
    let (mut told, now) = (vec![], now());
    for place in 0..WAITERS {
        let Some(mut waiter) = shared.slots.waiters[place] else {
            continue;
        };
        if !granted.contains(&waiter.arrival) {
            let is_eligible = list.iter().any(|other| other.arrival == waiter.arrival);
            waiter.offered = if is_eligible { 0 } else { waiter.offered };
        } else if waiter.offered == 0 || now >= shared::after(waiter.offered, OFFER * 2) {
            waiter.offered = now;
            match waiter.session {
                _ if present == Some(place) => {}
                0 => told.push(shared.wake(waiter.party.database)),
                session => told.push(session),
            }
        }
        shared.slots.waiters[place] = Some(waiter);
    }
    told
}

fn tell(told: Vec<i32>) {
    told.into_iter()
        .for_each(|pid| crate::pg::process::signal(pid, libc::SIGUSR1));
}

/// A slot that is claimed for a run whose runner is about to be started. It is given back when the
/// value is dropped, unless the runner has adopted it by then.
#[derive(Debug)]
pub struct Claim {
    /// 0 without the shared memory: the runner takes a lock.
    ticket: u64,
}

impl Claim {
    /// What the runner is told.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Whether the runner has the slot now; without the shared memory it sees to that itself.
    pub fn is_adopted(&self) -> bool {
        let is_mine = |slot: &Slot| slot.ticket == self.ticket && !slot.is_adopted;
        self.ticket == 0
            || !shared::exclusively(|shared| shared.slots.slots.iter().flatten().any(is_mine))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.ticket != 0 {
            give_back(|slot| slot.ticket == self.ticket && !slot.is_adopted);
        }
    }
}

fn give_back(whether: impl Fn(&Slot) -> bool) {
    tell(shared::exclusively(|shared| {
        match shared.slots.remove(whether) {
            true => offer(shared, None),
            false => vec![],
        }
    }));
}

/// Claims a slot for a run of `owner` in the present database if one is free and it is the turn of
/// this session, or of the queue of the database. Where it is not, it waits from then on, until
/// [`withdraw`] or [`set_waiting`]. `beginning` runs were started by this process and have not
/// begun.
pub fn claim(owner: u32, by_session: bool, beginning: usize) -> Option<Claim> {
    if !shared::is_present() {
        let kept = usize::from(!by_session && !Lock::next_slot().is_free());
        return (lock::free_slots() > beginning + kept).then_some(Claim { ticket: 0 });
    }
    shared::leave_at_exit();
    let (party, session) = (
        Party {
            database: database().to_u32(),
            owner,
        },
        if by_session { my_pid() } else { 0 },
    );
    let (ticket, told) = shared::exclusively(|shared| {
        let is_mine = |place: &Option<Waiter>| {
            place.is_some_and(|w| w.session == session && w.party == party)
        };
        let place = shared
            .slots
            .waiters
            .iter()
            .position(is_mine)
            .or_else(|| shared.slots.waiters.iter().position(Option::is_none));
        // where there is no room to wait whoever comes by when a slot is free gets it
        let Some(place) = place else {
            return (None, vec![]);
        };
        let is_new = shared.slots.waiters[place].is_none();
        if is_new {
            let arrival = shared.slots.next();
            shared.slots.waiters[place] = Some(Waiter {
                session,
                party,
                arrival,
                since: now(),
                offered: 0,
            });
        }
        let mut told = offer(shared, Some(place));
        if is_new {
            // which sees to it that another run gives way in time
            told.push(shared.launcher());
        }
        let Some(waiter) = shared.slots.waiters[place]
            .filter(|waiter| waiter.offered != 0 && shared.slots.free() > 0)
        else {
            return (None, told);
        };
        if now() >= shared::after(waiter.offered, OFFER) {
            return (None, told);
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
            (database.served, database.served_session) = (turn, by_session);
        }
        (Some(ticket), told)
    });
    tell(told);
    ticket.map(|ticket| Claim { ticket })
}

/// Claims a slot for which nobody waits, as checks for drift do.
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

fn withdraw_if(whether: impl Fn(&Waiter) -> bool) {
    if !shared::is_present() {
        return;
    }
    let database = database().to_u32();
    tell(shared::exclusively(|shared| {
        for place in &mut shared.slots.waiters {
            if place.is_some_and(|waiter| waiter.party.database == database && whether(&waiter)) {
                *place = None;
            }
        }
        offer(shared, None)
    }));
}

/// This session waits for no slot any more.
pub fn withdraw() {
    withdraw_if(|waiter| waiter.session == my_pid());
}

/// Of the owners in the present database only these have queued runs that wait for a slot.
pub fn set_waiting(owners: &[u32]) {
    withdraw_if(|waiter| waiter.session == 0 && !owners.contains(&waiter.party.owner));
}

/// Whether as many runs are under way, or about to begin, as there may be.
pub fn are_taken() -> bool {
    match shared::is_present() {
        true => shared::exclusively(|shared| shared.slots.free() == 0),
        false => lock::free_slots() == 0,
    }
}

// -- for runners
// ------------------------------------------------------------------------------------------------------

/// A slot that a runner has.
pub enum Taken {
    Shared(u64),
    Lock(Lock),
}

impl Taken {
    /// Gives the slot back before the runner ends.
    pub fn give_back(self) {
        match self {
            Self::Shared(ticket) => give_back(|slot| slot.ticket == ticket),
            Self::Lock(lock) => lock.give_back(),
        }
    }
}

/// Takes the slot that was claimed for this runner, or without the shared memory one that is free.
/// `None`: there is none (any more).
pub fn adopt(ticket: u64) -> Option<Taken> {
    if !shared::is_present() {
        return lock::take_slot().map(Taken::Lock);
    }
    let is_adopted = shared::exclusively(|shared| {
        let mut slots = shared.slots.slots.iter_mut().flatten();
        slots
            .find(|slot| slot.ticket == ticket && !slot.is_adopted)
            .is_some_and(|slot| {
                (slot.pid, slot.is_adopted, slot.wants_worker) = (my_pid(), true, false);
                true
            })
    });
    is_adopted.then_some(Taken::Shared(ticket))
}

/// Whether this runner was asked to give way.
pub fn gives_way() -> bool {
    shared::is_present()
        && shared::exclusively(|shared| {
            shared
                .slots
                .slots
                .iter()
                .flatten()
                .any(|slot| slot.pid == my_pid() && slot.gives_way)
        })
}

// -- workers, where the server has too few
// ----------------------------------------------------------------------------

/// Notes whether the session that has a claim waits for a worker to start its run with.
pub fn want_worker(claim: &Claim, wants: bool) {
    if claim.ticket == 0 {
        return;
    }
    shared::exclusively(|shared| {
        let mut slots = shared.slots.slots.iter_mut().flatten();
        let Some(slot) = slots.find(|slot| slot.ticket == claim.ticket && !slot.is_adopted) else {
            return;
        };
        let has_waited = std::mem::replace(&mut slot.wants_worker, wants);
        if has_waited && !wants && shared.slots.starved {
            shared.slots.turn_ends = shared::after(now(), TURN);
        }
    });
    if wants {
        shared::set_crowded(true);
    }
}

/// Whether a worker that is free is for this session with this claim: sessions take turns with
/// schedulers, and get workers in the order of their claims.
pub fn may_take_worker(claim: &Claim) -> bool {
    claim.ticket == 0
        || shared::exclusively(|shared| {
            let mut wanting = shared
                .slots
                .slots
                .iter()
                .flatten()
                .filter(|slot| slot.wants_worker);
            now() >= shared.slots.turn_ends && wanting.all(|slot| slot.ticket >= claim.ticket)
        })
}

/// Whether a worker that is free is for schedulers and what they start.
pub fn may_schedule() -> bool {
    !shared::is_present()
        || shared::exclusively(|shared| {
            let is_wanted = shared
                .slots
                .slots
                .iter()
                .flatten()
                .any(|slot| slot.wants_worker);
            shared.slots.starved = is_wanted && now() >= shared.slots.turn_ends;
            !shared.slots.starved
        })
}

// -- for the launcher
// -------------------------------------------------------------------------------------------------

/// Offers free slots again, and asks a run to give way where another party has waited for its share
/// for as long as `rag.fair_wait` says. When to look again, at the latest.
pub fn settle() -> Option<Duration> {
    let (told, victim, next) = shared::exclusively(|shared| {
        let told = offer(shared, None);
        let (runs, waiters, now) = (shared.slots.slots, shared.slots.waiters(), now());
        let runs: Vec<Slot> = runs.into_iter().flatten().collect();
        if waiters.is_empty() {
            return (told, 0, None);
        }
        if shared.slots.free() > 0 {
            return (told, 0, Some(OFFER));
        }
        if runs.iter().any(|slot| slot.gives_way) {
            return (told, 0, None);
        }
        let patience = settings::fair_wait();
        let eligible = eligible(shared, &waiters);
        let list: Vec<fair::Waiter> = eligible.iter().map(|(_, waiter)| *waiter).collect();
        let since = |n: usize| waiters[eligible[n].0].since;
        let parties = shared.slots.parties();
        let is_impatient = |n: usize| shared::after(since(n), patience) <= now;
        let victim = fair::gives_way(&parties, &list, is_impatient).filter(|n| runs[*n].is_adopted);
        if let Some(victim) = victim {
            if let Some(slot) = shared.slots.slots.iter_mut().flatten().nth(victim) {
                slot.gives_way = true;
            }
            return (told, runs[victim].pid, None);
        }
        let next = (0..list.len())
            .map(|n| shared::after(since(n), patience) - now)
            .filter(|left| *left > 0)
            .min();
        (
            told,
            0,
            next.map(|left| Duration::from_micros(left.unsigned_abs())),
        )
    });
    tell(told);
    crate::pg::process::signal(victim, libc::SIGINT);
    next
}

/// Clears what a process has that ends; the processes to be told.
pub fn leave(shared: &mut Shared, pid: i32) -> Vec<i32> {
    let had = shared.slots.remove(|slot| slot.pid == pid);
    let mut waited = false;
    for place in &mut shared.slots.waiters {
        if place.is_some_and(|waiter| waiter.session == pid && pid != 0) {
            *place = None;
            waited = true;
        }
    }
    if had || waited {
        offer(shared, None)
    } else {
        vec![]
    }
}

/// Clears what waits in a database that is gone.
pub fn forget(shared: &mut Shared, database: u32) {
    for place in &mut shared.slots.waiters {
        if place.is_some_and(|waiter| waiter.party.database == database && waiter.session == 0) {
            *place = None;
        }
    }
}
