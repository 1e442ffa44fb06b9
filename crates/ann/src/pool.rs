//! The candidates of a search: the best nodes that were met, in order. Each is marked once it was
//! expanded.
//!
//! A candidate is a **key**, one `u64` that orders as its distance does:
//!
//! | bits | |
//! |---|---|
//! | 63..32 | the distance, by [`order_bits`] |
//! | 31..1 | the node's id |
//! | 0 | whether the node was expanded |

use crate::code::{from_order_bits, order_bits};

/// The limit of ids: keys hold ids below it.
pub const ID_LIMIT: u32 = 1 << 31;

const EXPANDED: u64 = 1;

/// Returns the key of a node that was not expanded. `id` is below [`ID_LIMIT`].
#[inline]
pub fn key(distance: f32, id: u32) -> u64 {
    debug_assert!(id < ID_LIMIT);
    u64::from(order_bits(distance)) << 32 | u64::from(id << 1)
}

/// Returns the distance in a key.
#[inline]
pub fn key_distance(key: u64) -> f32 {
    from_order_bits((key >> 32) as u32)
}

/// Returns the id in a key.
#[inline]
pub fn key_id(key: u64) -> u32 {
    key as u32 >> 1
}

/// Returns true if the node was expanded.
#[inline]
pub fn is_expanded(key: u64) -> bool {
    key & EXPANDED != 0
}

/// Returns the key without the mark, for another search.
#[inline]
pub fn not_expanded(key: u64) -> u64 {
    key & !EXPANDED
}

/// The best candidates that were met, best first. A sorted array: for the few hundred candidates of
/// a search, moving half of it costs less than the jumps of a heap.
#[derive(Debug, Default)]
pub struct Pool {
    keys: Vec<u64>,
    capacity: usize,
    /// All keys before it were expanded.
    next: usize,
}

impl Pool {
    /// Returns a pool without room; see [`reset`](Self::reset).
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties it and makes room for `capacity` keys.
    pub fn reset(&mut self, capacity: usize) {
        self.keys.clear();
        self.keys.reserve(capacity);
        self.capacity = capacity;
        self.next = 0;
    }

    /// Inserts a key at its place. Returns the key that there is no room for: the worst of all,
    /// which may be this one. A node must not be inserted twice.
    #[inline]
    pub fn insert(&mut self, key: u64) -> Option<u64> {
        let mut out = None;
        if self.keys.len() == self.capacity {
            match self.keys.last() {
                Some(&worst) if key < worst => out = self.keys.pop(),
                _ => return Some(key),
            }
        }
        let place = self.keys.partition_point(|&other| other < key);
        self.keys.insert(place, key);
        self.next = self.next.min(place);
        out
    }

    /// Returns the key that is dropped next: a key that is not less has no place. Returns
    /// `u64::MAX` while there is room.
    #[inline]
    pub fn worst(&self) -> u64 {
        if self.keys.len() < self.capacity {
            u64::MAX
        } else {
            self.keys.last().copied().unwrap_or(0)
        }
    }

    /// Returns the best key that was not expanded, and marks it as expanded. Returns `None` when
    /// the search is complete.
    #[inline]
    pub fn next_unexpanded(&mut self) -> Option<u64> {
        while let Some(key) = self.keys.get_mut(self.next) {
            self.next += 1;
            if !is_expanded(*key) {
                let found = *key;
                *key |= EXPANDED;
                return Some(found);
            }
        }
        None
    }

    /// Returns the key that [`next_unexpanded`](Self::next_unexpanded) would return, without
    /// marking it, to prefetch its data.
    #[inline]
    pub fn peek_unexpanded(&self) -> Option<u64> {
        self.keys
            .get(self.next..)?
            .iter()
            .copied()
            .find(|key| !is_expanded(*key))
    }

    /// Returns all keys, best first.
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.keys
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_order_as_distances_do() {
        let distances = [
            f32::NEG_INFINITY,
            -1e30,
            -1.0,
            -1e-40,
            0.0,
            1e-40,
            0.5,
            2.0,
            f32::MAX,
            f32::INFINITY,
        ];
        for pair in distances.windows(2) {
            assert!(key(pair[0], ID_LIMIT - 1) < key(pair[1], 0), "{pair:?}");
        }
        for distance in distances {
            let key = key(distance, 12_345);
            assert_eq!(
                (key_distance(key), key_id(key), is_expanded(key)),
                (distance, 12_345, false)
            );
        }
    }

    #[test]
    fn pool_without_room_rejects_all() {
        let mut pool = Pool::new();
        assert_eq!(pool.insert(2), Some(2));
        assert_eq!((pool.worst(), pool.next_unexpanded()), (0, None));
    }

    proptest! {
        #[test]
        fn pool_keeps_the_best_and_gives_back_the_others(
            keys in proptest::collection::hash_set(0u64..1000, 0..100),
            capacity in 1usize..50,
        ) {
            let mut keys: Vec<u64> = keys.into_iter().map(|key| key << 1).collect();
            let mut pool = Pool::new();
            pool.reset(capacity);
            let mut out: Vec<u64> = keys.iter().filter_map(|key| pool.insert(*key)).collect();
            keys.sort_unstable();
            out.sort_unstable();
            let kept = keys.len().min(capacity);
            prop_assert_eq!(pool.as_slice(), &keys[..kept]);
            prop_assert_eq!(&out, &keys[kept..]);
            prop_assert_eq!(pool.worst(), if kept < capacity { u64::MAX } else { keys[kept - 1] });
        }

        #[test]
        fn each_key_is_expanded_once_and_the_best_first(
            first in 0u64..1000,
            others in proptest::collection::hash_set(0u64..1000, 0..100),
        ) {
            let mut pool = Pool::new();
            pool.reset(200);
            pool.insert(first << 1);
            let mut others: Vec<u64> = others.into_iter().filter(|key| *key != first).collect();
            let total = others.len() + 1;
            let mut expanded = 0;
            while let Some(key) = {
                let peeked = pool.peek_unexpanded();
                let next = pool.next_unexpanded();
                assert_eq!(peeked, next);
                next
            } {
                let mut left = pool.as_slice().iter().filter(|other| !is_expanded(**other));
                prop_assert!(left.all(|other| *other > key));
                expanded += 1;
                for other in others.split_off(others.len().saturating_sub(3)) {
                    pool.insert(other << 1);
                }
            }
            prop_assert_eq!(expanded, total);
        }
    }
}
