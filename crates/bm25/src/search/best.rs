//! The best documents that a search has found so far.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use rag_pages::memory::{OutOfMemory, Reserve};

/// Where a document is: the part of the index (0: pending documents, then the segments), and its
/// number there. Documents of equal score come in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub part: u32,
    pub document: u32,
}

/// A document with its score in units, ordered from the worst to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    pub units: u32,
    pub found: Found,
}

impl Ord for Hit {
    fn cmp(&self, other: &Self) -> Ordering {
        let units = self.units.cmp(&other.units);
        units.then_with(|| other.found.cmp(&self.found))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The best `limit` documents that come after another one.
pub struct Best {
    limit: usize,
    after: Option<Hit>,
    hits: BinaryHeap<Reverse<Hit>>,
    /// The worst of the hits, if there are as many as may be.
    worst: Option<Hit>,
}

impl Best {
    /// # Errors
    /// Memory runs out.
    pub fn new(limit: usize, after: Option<Hit>) -> Result<Self, OutOfMemory> {
        let mut hits = BinaryHeap::new();
        hits.make_exact_room(limit.min(1 << 10))?;
        Ok(Self {
            limit: limit.max(1),
            after,
            hits,
            worst: None,
        })
    }

    /// Returns the units that documents from a place on must have to be among the best, at least 1.
    ///
    /// Of documents with equal units the first in the order of [`Found`] are the best.
    #[inline]
    pub fn needed(&self, from: Found) -> u32 {
        match &self.worst {
            None => 1,
            Some(worst) => worst.units + u32::from(from > worst.found),
        }
    }

    /// Offers a document.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn offer(&mut self, hit: Hit) -> Result<(), OutOfMemory> {
        if self.after.is_some_and(|after| hit >= after) || self.worst.is_some_and(|w| hit <= w) {
            return Ok(());
        }
        if self.hits.len() == self.limit {
            self.hits.pop();
        } else {
            self.hits.make_room(1)?;
        }
        self.hits.push(Reverse(hit));
        if self.hits.len() == self.limit {
            self.worst = self.hits.peek().map(|worst| worst.0);
        }
        Ok(())
    }

    /// Returns the documents, the best first.
    pub fn into_hits(self) -> Vec<Hit> {
        // ascending in the reverse order
        let hits = self.hits.into_sorted_vec();
        hits.into_iter().map(|Reverse(hit)| hit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(units: u32, document: u32) -> Hit {
        Hit {
            units,
            found: Found { part: 0, document },
        }
    }

    #[test]
    fn the_best_come_first_and_equal_ones_in_order() {
        let offered = [3, 9, 3, 5, 9, 1];
        let take = |limit, after| {
            let mut best = Best::new(limit, after).unwrap();
            for (document, units) in (0..).zip(offered) {
                if units >= best.needed(hit(units, document).found) {
                    best.offer(hit(units, document)).unwrap();
                }
            }
            let in_order = best.into_hits();
            let mut best = Best::new(limit, after).unwrap();
            for (document, units) in offered
                .into_iter()
                .enumerate()
                .rev()
                .map(|(d, u)| (d as u32, u))
            {
                if units >= best.needed(hit(units, document).found) {
                    best.offer(hit(units, document)).unwrap();
                }
            }
            assert_eq!(best.into_hits(), in_order);
            in_order
        };
        let all = [
            hit(9, 1),
            hit(9, 4),
            hit(5, 3),
            hit(3, 0),
            hit(3, 2),
            hit(1, 5),
        ];
        assert_eq!(take(6, None), all);
        assert_eq!(take(4, None), all[..4]);
        assert_eq!(take(2, Some(all[1])), all[2..4]);
        assert_eq!(take(9, Some(all[3])), all[4..]);
        assert_eq!(take(9, Some(all[5])), []);
    }
}
