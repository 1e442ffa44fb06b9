//! Limits the bytes of requests in progress, over all clients together.
//!
//! A request takes several times its own size in memory while it is read, parsed, tokenized,
//! extracted or split. So a large one is not read from its socket until there is room for it: it
//! waits in the client. Waiting requests are admitted in the order of their parties' turns. Small
//! requests, such as searches, do not wait for large ones.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rag_protocol::embed::Party;

use super::rounds::{Rounds, WaitQueue};

/// Maximum number of bytes in progress. A larger request is admitted alone.
pub const ROOM: usize = 32 << 20;
/// Requests up to this size in bytes are not counted.
pub const UNCOUNTED_BYTES: usize = 64 << 10;
/// Interval at which a waiting request checks whether its client has hung up.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub struct Admission {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    waiting: Rounds<Party, VecDeque<Waiter>>,
    admitted: HashSet<u64>,
    /// Names waiters.
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiter {
    id: u64,
    bytes: usize,
}

/// Room for one request, until dropped.
#[derive(Debug)]
pub struct AdmittedRequest<'a> {
    admission: &'a Admission,
    bytes: usize,
}

impl Admission {
    /// Waits until there is room for a request. Returns `None` if its client has hung up.
    pub fn admit(
        &self,
        party: Party,
        bytes: usize,
        abandoned: &dyn Fn() -> bool,
    ) -> Option<AdmittedRequest<'_>> {
        if bytes <= UNCOUNTED_BYTES {
            return Some(AdmittedRequest {
                admission: self,
                bytes: 0,
            });
        }
        let mut state = self.lock();
        state.count += 1;
        let waiter = Waiter {
            id: state.count,
            bytes,
        };
        state.waiting.of(party).push_back(waiter);
        state.admit();
        while !state.admitted.remove(&waiter.id) {
            state = self
                .changed
                .wait_timeout(state, TICK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if !state.admitted.contains(&waiter.id) && abandoned() {
                state.forget(waiter);
                state.admit();
                self.changed.notify_all();
                return None;
            }
        }
        Some(AdmittedRequest {
            admission: self,
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Admits as many requests as there is room for, in the order of their turns.
    fn admit(&mut self) {
        while let Some(waiter) = self.waiting.first().and_then(VecDeque::front)
            && (self.taken == 0 || self.taken.saturating_add(waiter.bytes) <= ROOM)
            && let Some((_, waiter)) = self.waiting.take()
        {
            self.taken += waiter.bytes;
            self.admitted.insert(waiter.id);
        }
    }

    fn forget(&mut self, waiter: Waiter) {
        for queue in self.waiting.all() {
            queue.retain(|other| *other != waiter);
        }
        self.waiting.tidy();
    }
}

impl Drop for AdmittedRequest<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut state = self.admission.lock();
            state.taken -= self.bytes;
            state.admit();
            self.admission.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(state: &mut State, role: u32, bytes: usize) -> u64 {
        state.count += 1;
        let waiter = Waiter {
            id: state.count,
            bytes,
        };
        state
            .waiting
            .of(Party { database: 1, role })
            .push_back(waiter);
        state.admit();
        waiter.id
    }

    /// Frees room. Returns the requests that are admitted then.
    fn free(state: &mut State, bytes: usize) -> Vec<u64> {
        state.taken -= bytes;
        let before = state.admitted.clone();
        state.admit();
        let mut new: Vec<u64> = state.admitted.difference(&before).copied().collect();
        new.sort_unstable();
        new
    }

    #[test]
    fn a_party_with_many_requests_waits_its_turn() {
        let mut state = State::default();
        waits(&mut state, 7, ROOM);
        let (second, third) = (waits(&mut state, 7, ROOM), waits(&mut state, 7, ROOM));
        let other = waits(&mut state, 8, ROOM);
        assert_eq!(state.admitted.len(), 1);
        assert_eq!(free(&mut state, ROOM), [second]);
        assert_eq!(free(&mut state, ROOM), [other]);
        assert_eq!(free(&mut state, ROOM), [third]);
    }

    #[test]
    fn a_large_request_is_admitted_alone_and_small_ones_together() {
        let mut state = State::default();
        let half = ROOM / 2;
        waits(&mut state, 1, half);
        waits(&mut state, 2, half);
        assert_eq!(state.admitted.len(), 2);
        let huge = waits(&mut state, 3, ROOM * 2);
        let after = waits(&mut state, 4, half);
        assert!(free(&mut state, half).is_empty());
        assert_eq!(free(&mut state, half), [huge]);
        assert_eq!(free(&mut state, ROOM * 2), [after]);
    }

    #[test]
    fn a_model_that_is_dropped_makes_room_for_the_next() {
        let admission = Admission::default();
        let claim = admission.admit(Party::default(), ROOM, &|| false).unwrap();
        assert!(
            admission.admit(Party::default(), ROOM, &|| true).is_none(),
            "its client has gone"
        );
        assert!(
            admission
                .admit(Party::default(), UNCOUNTED_BYTES, &|| true)
                .is_some(),
            "a small one does not wait"
        );
        drop(claim);
        assert!(admission.admit(Party::default(), ROOM, &|| false).is_some());
        assert_eq!(admission.lock().taken, 0);
    }
}
