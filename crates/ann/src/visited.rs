//! Which nodes a search has met.

use crate::memory::{OutOfMemory, Reserve, push};

/// A set of ids, as a bitmap that grows with the ids put in. Emptying it costs as much as was put
/// in, however large the ids were, so that one bitmap serves all searches.
#[derive(Debug, Default)]
pub struct Visited {
    words: Vec<u64>,
    /// Words that are not zero, or were not.
    touched: Vec<u32>,
}

impl Visited {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for the ids below `limit` at once, instead of when they come.
    ///
    /// # Errors
    /// There is no room.
    pub fn reserve(&mut self, limit: usize) -> Result<(), OutOfMemory> {
        let words = limit.div_ceil(64);
        if words > self.words.len() {
            self.words.make_exact_room(words - self.words.len())?;
            self.words.resize(words, 0);
        }
        Ok(())
    }

    /// Forgets all ids.
    pub fn clear(&mut self) {
        for word in self.touched.drain(..) {
            self.words[word as usize] = 0;
        }
    }

    /// Puts an id in; whether it was not there.
    ///
    /// # Errors
    /// There is no room for it.
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

    /// Takes an id out, if it is there.
    pub fn remove(&mut self, id: u32) {
        if let Some(word) = self.words.get_mut(id as usize / 64) {
            *word &= !(1 << (id % 64));
        }
    }

    /// Whether an id is there.
    pub fn contains(&self, id: u32) -> bool {
        self.words
            .get(id as usize / 64)
            .is_some_and(|word| word & 1 << (id % 64) != 0)
    }

    /// All ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.words).flat_map(|(at, &word)| {
            (0..64)
                .filter(move |bit| word & 1 << bit != 0)
                .map(move |bit| at * 64 + bit)
        })
    }

    /// Forgets all ids and gives back the memory of those from `limit` on.
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
        fn visited_is_a_set(rounds in proptest::collection::vec(proptest::collection::vec((0u32..5000, any::<bool>()), 0..60), 1..5)) {
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
