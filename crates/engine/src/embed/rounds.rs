//! Queues whose owners take turns.

use std::collections::VecDeque;

/// A queue of waiting items.
pub trait WaitQueue: Default {
    type Item;
    /// Removes the next item.
    fn take(&mut self) -> Option<Self::Item>;
    fn is_empty(&self) -> bool;
}

impl<T> WaitQueue for VecDeque<T> {
    type Item = T;

    fn take(&mut self) -> Option<T> {
        self.pop_front()
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

/// One queue for each waiting owner, in the order of their turns.
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

impl<K: Copy + PartialEq, Q: WaitQueue> Rounds<K, Q> {
    /// Returns the queue of an owner. A new owner's turn comes last.
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

    /// Returns the queue whose turn it is.
    pub fn first(&self) -> Option<&Q> {
        self.queues.front().map(|(_, queue)| queue)
    }

    /// Returns all owners with their queues.
    pub fn iter(&self) -> impl Iterator<Item = &(K, Q)> {
        self.queues.iter()
    }

    /// Removes an owner's queue.
    pub fn remove(&mut self, owner: K) -> Option<Q> {
        let at = self.queues.iter().position(|(other, _)| *other == owner)?;
        self.queues.remove(at).map(|(_, queue)| queue)
    }

    /// Returns all queues. A caller that empties one must call [`Rounds::tidy`].
    pub fn all(&mut self) -> impl Iterator<Item = &mut Q> {
        self.queues.iter_mut().map(|(_, queue)| queue)
    }

    /// Forgets owners that wait for nothing.
    pub fn tidy(&mut self) {
        self.queues.retain(|(_, queue)| !queue.is_empty());
    }
}

impl<K: Copy + PartialEq, Q: WaitQueue> WaitQueue for Rounds<K, Q> {
    type Item = (K, Q::Item);

    fn take(&mut self) -> Option<Self::Item> {
        let (owner, mut queue) = self.queues.pop_front()?;
        let item = queue.take();
        // The rest of the queue waits at the end, and an item that is returned waits there, too.
        if !queue.is_empty() {
            self.queues.push_back((owner, queue));
        }
        item.map(|item| (owner, item))
    }

    fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}
