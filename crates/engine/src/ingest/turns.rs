//! The items of several servers in turn: some at once, few of each server.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Condvar, Mutex, PoisonError},
};

/// Maximum number of items that are fetched at once.
pub const FETCHERS: usize = 8;
/// Maximum number of items of one server that are fetched at once.
const OF_A_SERVER: usize = 2;

/// The numbers of the items that are not fetched yet, with their servers.
#[derive(Debug)]
pub struct Turns {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug)]
struct State {
    /// In the order of the listing.
    waiting: VecDeque<(usize, String)>,
    running: HashMap<String, usize>,
}

impl Turns {
    pub fn new(servers: impl Iterator<Item = String>) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: servers.enumerate().collect(),
                running: HashMap::new(),
            }),
            done: Condvar::new(),
        }
    }

    /// Waits for an item whose server has room. Returns its number and its server, or `None` if all
    /// are taken.
    pub fn next(&self) -> Option<(usize, String)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.waiting.is_empty() {
                return None;
            }
            let running = &state.running;
            let has_room = |server: &str| running.get(server).is_none_or(|n| *n < OF_A_SERVER);
            if let Some(place) = state.waiting.iter().position(|(_, it)| has_room(it)) {
                let (number, server) = state.waiting.remove(place)?;
                *state.running.entry(server.clone()).or_default() += 1;
                return Some((number, server));
            }
            state = self
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes room for another item of a server.
    pub fn end(&self, server: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = state.running.get_mut(server) {
            *running = running.saturating_sub(1);
        }
        self.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_server_does_not_hold_up_others() {
        let servers = ["slow", "slow", "slow", "other", "slow"];
        let turns = Turns::new(servers.iter().map(ToString::to_string));
        let next = || turns.next().unwrap();
        let first: Vec<usize> = [next(), next(), next()].map(|(n, _)| n).to_vec();
        assert_eq!(first, [0, 1, 3], "the third of the slow server waits");
        turns.end("slow");
        assert_eq!(next(), (2, "slow".into()));
        std::thread::scope(|scope| {
            let last = scope.spawn(next);
            turns.end("slow");
            assert_eq!(last.join().unwrap(), (4, "slow".into()));
        });
        assert_eq!(turns.next(), None);
    }
}
