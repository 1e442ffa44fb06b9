//! The order of tasks.
//!
//! The inference thread takes the next task, works on a slice of it and returns the rest. A slice
//! ends when the task of another client is due. Queries have priority over bulk work, except that
//! bulk work gets one slice after [`QUERIES`] slices of queries. Within each priority, parties (a
//! database and a role) take turns, within a party its clients, and a client's tasks are done in
//! order. So a search waits for a text or two, not for another session's thousand documents or
//! searches. Tasks of a client that hung up cost at most the texts in progress.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use rag_protocol::embed::{Party, Priority};

use super::rounds::{Rounds, WaitQueue};

/// Number of texts that a task is given before the task of another client of the same priority is
/// due.
pub const SLICE: usize = 8;

/// Number of slices of queries in a row while bulk work waits.
pub const QUERIES: u32 = 8;

/// Identifies one connection for the life of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// A task and its owner.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn<T> {
    pub party: Party,
    pub client: ClientId,
    pub priority: Priority,
    pub task: T,
}

/// The waiting tasks, and the thread that waits for them.
#[derive(Debug)]
pub struct Scheduler<T> {
    queue: Mutex<Queue<T>>,
    arrived: Condvar,
}

impl<T> Default for Scheduler<T> {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue::default()),
            arrived: Condvar::new(),
        }
    }
}

impl<T> Scheduler<T> {
    /// Starts accepting a client's tasks.
    pub fn join(&self, client: ClientId) {
        self.lock().connected.insert(client);
    }

    /// Drops everything that waits for a client, and what is returned for it from now on. Returns
    /// the number of dropped tasks.
    pub fn leave(&self, client: ClientId) -> usize {
        self.lock().leave(client)
    }

    pub fn submit(&self, turn: Turn<T>) {
        self.lock().submit(turn);
        self.arrived.notify_one();
    }

    /// Returns an unfinished task. It is the next one of its client, whose turn comes after the
    /// others'.
    pub fn give_back(&self, turn: Turn<T>) {
        self.lock().give_back(turn);
    }

    /// Waits for a task, and returns the one whose turn it is.
    pub fn next(&self) -> Turn<T> {
        let mut queue = self.lock();
        loop {
            if let Some(turn) = queue.take() {
                return turn;
            }
            queue = self
                .arrived
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns true if a slice of this client is to end once so many of its texts are begun: a task
    /// of another client is due, or the client has left.
    pub fn ends_slice(&self, client: ClientId, priority: Priority, texts: usize) -> bool {
        self.lock().ends_slice(client, priority, texts)
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Queue<T> {
    connected: HashSet<ClientId>,
    queries: Lane<T>,
    bulk: Lane<T>,
    /// Number of slices of queries since the last slice of bulk work.
    queries_in_a_row: u32,
}

/// The tasks of one priority.
type Lane<T> = Rounds<Party, Rounds<ClientId, VecDeque<T>>>;

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            connected: HashSet::new(),
            queries: Lane::default(),
            bulk: Lane::default(),
            queries_in_a_row: 0,
        }
    }
}

impl<T> Queue<T> {
    fn lane(&mut self, priority: Priority) -> &mut Lane<T> {
        match priority {
            Priority::Query => &mut self.queries,
            Priority::Bulk => &mut self.bulk,
        }
    }

    fn submit(&mut self, turn: Turn<T>) {
        if self.connected.contains(&turn.client) {
            self.lane(turn.priority)
                .of(turn.party)
                .of(turn.client)
                .push_back(turn.task);
        }
    }

    fn give_back(&mut self, turn: Turn<T>) {
        if self.connected.contains(&turn.client) {
            self.lane(turn.priority)
                .of(turn.party)
                .of(turn.client)
                .push_front(turn.task);
        }
    }

    fn ends_slice(&self, client: ClientId, priority: Priority, texts: usize) -> bool {
        let is_query_due = priority == Priority::Bulk && !self.queries.is_empty();
        let has_other = |lane: &Lane<T>| {
            let mut clients = lane.iter().flat_map(|(_, clients)| clients.iter());
            clients.any(|(other, _)| *other != client)
        };
        let is_other_due = || texts >= SLICE && (has_other(&self.queries) || has_other(&self.bulk));
        is_query_due || is_other_due() || !self.connected.contains(&client)
    }

    fn take(&mut self) -> Option<Turn<T>> {
        let order = if self.queries_in_a_row < QUERIES {
            [Priority::Query, Priority::Bulk]
        } else {
            [Priority::Bulk, Priority::Query]
        };
        let turn = order.into_iter().find_map(|priority| {
            self.lane(priority)
                .take()
                .map(|(party, (client, task))| Turn {
                    party,
                    client,
                    priority,
                    task,
                })
        });
        match turn.as_ref().map(|turn| turn.priority) {
            Some(Priority::Query) => self.queries_in_a_row += 1,
            Some(Priority::Bulk) | None => self.queries_in_a_row = 0,
        }
        turn
    }

    fn leave(&mut self, client: ClientId) -> usize {
        self.connected.remove(&client);
        let mut dropped = 0;
        for lane in [&mut self.queries, &mut self.bulk] {
            let left = lane.all().filter_map(|clients| clients.remove(client));
            dropped += left.map(|tasks| tasks.len()).sum::<usize>();
            lane.tidy();
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(clients: u64) -> Queue<(u64, u32)> {
        let mut queue = Queue::default();
        queue.connected.extend((0..clients).map(ClientId));
        queue
    }

    fn submit(queue: &mut Queue<(u64, u32)>, client: u64, priority: Priority, slices: u32) {
        submit_for(queue, client as u32, client, priority, slices);
    }

    fn submit_for(
        queue: &mut Queue<(u64, u32)>,
        role: u32,
        client: u64,
        priority: Priority,
        slices: u32,
    ) {
        let party = Party { database: 1, role };
        queue.submit(Turn {
            party,
            client: ClientId(client),
            priority,
            task: (client, slices),
        });
    }

    /// Takes turns as the inference thread does until nothing is left. Returns the owners.
    fn run(
        queue: &mut Queue<(u64, u32)>,
        mut each: impl FnMut(&mut Queue<(u64, u32)>, usize),
    ) -> Vec<u64> {
        let mut served = vec![];
        while let Some(mut turn) = queue.take() {
            served.push(turn.task.0);
            turn.task.1 -= 1;
            each(queue, served.len());
            if turn.task.1 > 0 {
                queue.give_back(turn);
            }
        }
        served
    }

    #[test]
    fn bulk_clients_take_turns_slice_by_slice() {
        let mut queue = queue(3);
        submit(&mut queue, 0, Priority::Bulk, 4);
        submit(&mut queue, 1, Priority::Bulk, 2);
        submit(&mut queue, 2, Priority::Bulk, 1);
        assert_eq!(run(&mut queue, |_, _| {}), [0, 1, 2, 0, 1, 0, 0]);
    }

    #[test]
    fn one_clients_tasks_are_done_in_order() {
        let mut queue = queue(1);
        for slices in [2, 1] {
            submit(&mut queue, 0, Priority::Bulk, slices);
        }
        let mut left = vec![];
        while let Some(mut turn) = queue.take() {
            turn.task.1 -= 1;
            left.push(turn.task.1);
            if turn.task.1 > 0 {
                queue.give_back(turn);
            }
        }
        assert_eq!(left, [1, 0, 0]);
    }

    #[test]
    fn a_query_is_always_next() {
        let mut queue = queue(2);
        submit(&mut queue, 0, Priority::Bulk, 5);
        let served = run(&mut queue, |queue, done| {
            if done == 2 {
                submit(queue, 1, Priority::Query, 1);
            }
        });
        assert_eq!(served, [0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn a_party_is_served_once_a_round_however_many_clients_it_has() {
        for priority in [Priority::Query, Priority::Bulk] {
            let mut queue = queue(4);
            for client in 0..3 {
                submit_for(&mut queue, 7, client, priority, 2);
            }
            submit_for(&mut queue, 8, 3, priority, 3);
            assert_eq!(run(&mut queue, |_, _| {}), [0, 3, 1, 3, 2, 3, 0, 1, 2]);
        }
    }

    #[test]
    fn bulk_work_continues_whatever_the_number_of_queries() {
        let mut queue = queue(2);
        submit(&mut queue, 0, Priority::Bulk, 2);
        submit(&mut queue, 1, Priority::Query, 1);
        let served = run(&mut queue, |queue, done| {
            if done < 3 * QUERIES as usize {
                submit(queue, 1, Priority::Query, 1);
            }
        });
        let turns: Vec<usize> = (0..served.len()).filter(|at| served[*at] == 0).collect();
        assert_eq!(turns, [QUERIES as usize, 2 * QUERIES as usize + 1]);
    }

    #[test]
    fn a_slice_ends_when_another_client_is_due() {
        let (bulk, query) = (Priority::Bulk, Priority::Query);
        let mut queue = queue(2);
        let ends =
            |queue: &Queue<_>, priority, texts| queue.ends_slice(ClientId(0), priority, texts);
        submit(&mut queue, 0, bulk, 1); // what this client sent next waits anyway
        assert!(!ends(&queue, bulk, 1000) && !ends(&queue, query, 1000));
        submit(&mut queue, 1, bulk, 1);
        for priority in [bulk, query] {
            assert!(!ends(&queue, priority, SLICE - 1) && ends(&queue, priority, SLICE));
        }
        submit(&mut queue, 1, query, 1);
        assert!(ends(&queue, bulk, 1) && !ends(&queue, query, 1));
        queue.leave(ClientId(1));
        assert!(!ends(&queue, bulk, 1000));
        queue.leave(ClientId(0));
        assert!(ends(&queue, bulk, 1));
    }

    #[test]
    fn a_client_that_hung_up_is_no_longer_served() {
        let mut queue = queue(2);
        submit(&mut queue, 0, Priority::Bulk, 5);
        submit(&mut queue, 0, Priority::Query, 1);
        submit(&mut queue, 1, Priority::Bulk, 2);
        let served = run(&mut queue, |queue, done| {
            if done == 2 {
                queue.leave(ClientId(0)); // while its slice is under way
            }
        });
        assert_eq!(served, [0, 0, 1, 1]);
        submit(&mut queue, 0, Priority::Bulk, 1);
        assert_eq!(queue.take(), None);
    }
}
