//! Queues whose owners take turns.

use std::collections::VecDeque;

/// What can be waited in.
pub trait Waiting: Default {
    type Item;
    /// Takes what is next.
    fn take(&mut self) -> Option<Self::Item>;
    fn is_empty(&self) -> bool;
}

impl<T> Waiting for VecDeque<T> {
    type Item = T;

    fn take(&mut self) -> Option<T> {
        self.pop_front()
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

/// A queue for each owner that waits for anything, in the order of their turns.
#[derive(Debug)]
pub struct Rounds<K, Q> {
    queues: VecDeque<(K, Q)>,
}

impl<K, Q> Default for Rounds<K, Q> {
    fn default() -> Self {
        Self {
            queues: VecDeque::new(),
        }
    }
}

impl<K: Copy + PartialEq, Q: Waiting> Rounds<K, Q> {
    /// The queue of an owner, whose turn comes after the others' if it did not wait for anything.
    pub fn of(&mut self, owner: K) -> &mut Q {
        let at = self
            .queues
            .iter()
            .position(|(other, _)| *other == owner)
            .unwrap_or_else(|| {
                self.queues.push_back((owner, Q::default()));
                self.queues.len() - 1
            });
        &mut self.queues[at].1
    }

    /// The queue whose turn it is.
    pub fn first(&self) -> Option<&Q> {
        self.queues.front().map(|(_, queue)| queue)
    }

    /// Removes an owner's queue.
    pub fn remove(&mut self, owner: K) -> Option<Q> {
        let at = self.queues.iter().position(|(other, _)| *other == owner)?;
        self.queues.remove(at).map(|(_, queue)| queue)
    }

    /// All queues. What makes one of them empty calls [`Rounds::tidy`].
    pub fn all(&mut self) -> impl Iterator<Item = &mut Q> {
        self.queues.iter_mut().map(|(_, queue)| queue)
    }

    /// Forgets owners that wait for nothing.
    pub fn tidy(&mut self) {
        self.queues.retain(|(_, queue)| !queue.is_empty());
    }
}

impl<K: Copy + PartialEq, Q: Waiting> Waiting for Rounds<K, Q> {
    type Item = (K, Q::Item);

    fn take(&mut self) -> Option<Self::Item> {
        let (owner, mut queue) = self.queues.pop_front()?;
        let item = queue.take();
        // the rest waits at the end, where the item itself goes if it is given back
        if !queue.is_empty() {
            self.queues.push_back((owner, queue));
        }
        item.map(|item| (owner, item))
    }

    fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}
