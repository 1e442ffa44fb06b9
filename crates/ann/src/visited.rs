//! The nodes that a search has met.

use crate::memory::{OutOfMemory, Reserve, push};

/// A set of ids: a bitmap that grows with the ids inserted. Emptying it costs as much as was
/// inserted, however large the ids were, so that one bitmap serves all searches.
#[derive(Debug, Default)]
pub struct Visited {
    words: Vec<u64>,
    /// Words that are not zero, or were not zero before.
    touched: Vec<u32>,
}

impl Visited {
    /// Returns an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for the ids below `limit` at once, instead of when they are inserted.
    ///
    /// # Errors
    /// The allocation failed.
    pub fn reserve(&mut self, limit: usize) -> Result<(), OutOfMemory> {
        let words = limit.div_ceil(64);
        if words > self.words.len() {
            self.words.make_exact_room(words - self.words.len())?;
            self.words.resize(words, 0);
        }
        Ok(())
    }

    /// Removes all ids.
    pub fn clear(&mut self) {
        for word in self.touched.drain(..) {
            self.words[word as usize] = 0;
        }
    }

    /// Inserts an id. Returns true if it was not in the set.
    ///
    /// # Errors
    /// The allocation failed.
    #[inline]
    pub fn insert(&mut self, id: u32) -> Result<bool, OutOfMemory> {
        let (at, bit) = (id / 64, 1 << (id % 64));
        if at as usize >= self.words.len() {
            self.grow(at as usize)?;
        }
        let word = &mut self.words[at as usize];
        if *word & bit != 0 {
            return Ok(false);
        }
        if *word == 0 {
            push(&mut self.touched, at)?;
        }
        *word |= bit;
        Ok(true)
    }

    /// Removes an id, if it is in the set.
    pub fn remove(&mut self, id: u32) {
        if let Some(word) = self.words.get_mut(id as usize / 64) {
            *word &= !(1 << (id % 64));
        }
    }

    /// Returns true if an id is in the set.
    pub fn contains(&self, id: u32) -> bool {
        self.words
            .get(id as usize / 64)
            .is_some_and(|word| word & 1 << (id % 64) != 0)
    }

    /// Returns all ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.words).flat_map(|(at, &word)| {
            (0..64)
                .filter(move |bit| word & 1 << bit != 0)
                .map(move |bit| at * 64 + bit)
        })
    }

    /// Removes all ids, and releases the memory of those from `limit` on.
    pub fn shrink(&mut self, limit: usize) {
        let words = limit.div_ceil(64);
        if self.words.len() > words {
            self.clear();
            self.words.truncate(words);
            self.words.shrink_to_fit();
            self.touched = vec![];
        }
    }

    #[cold]
    fn grow(&mut self, at: usize) -> Result<(), OutOfMemory> {
        self.reserve((at + 1).next_power_of_two() * 64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn visited_is_a_set(
            rounds in proptest::collection::vec(
                proptest::collection::vec((0u32..5000, any::<bool>()), 0..60),
                1..5,
            ),
        ) {
            let mut visited = Visited::new();
            for round in rounds {
                visited.clear();
                let mut set = HashSet::new();
                for (id, remove) in round {
                    if remove {
                        visited.remove(id);
                        set.remove(&id);
                    } else {
                        prop_assert_eq!(visited.insert(id), Ok(set.insert(id)));
                    }
                }
                for id in 0..5100 {
                    prop_assert_eq!(visited.contains(id), set.contains(&id));
                }
            }
        }
    }
}
