//! The best documents that a search has found so far.

use std::cmp::Ordering;

use rag_pages::memory::{OutOfMemory, push};

/// The worst documents are dropped when one in so many is too much.
const SLACK: usize = 4;

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
///
/// Documents are gathered without an order. From time to time the worst are dropped.
pub struct Best {
    limit: usize,
    after: Option<Hit>,
    hits: Vec<Hit>,
    /// A hit that `limit` ones are not worse than, if there are as many.
    worst: Option<Hit>,
    /// Units that so many documents have at least, as is known before these are found.
    floor: u32,
    takes_floor: bool,
}

impl Best {
    pub fn new(limit: usize, after: Option<Hit>) -> Self {
        Self {
            limit: limit.max(1),
            after,
            hits: vec![],
            worst: None,
            floor: 1,
            takes_floor: true,
        }
    }

    /// Has nothing [expected](Self::expect): all documents count as they are found.
    pub fn without_floor(mut self) -> Self {
        self.takes_floor = false;
        self
    }

    /// Returns true if documents were expected that have not been offered.
    pub fn lacks_expected(&self) -> bool {
        self.floor > 1 && self.hits.len() < self.limit
    }

    /// Returns the number of documents, or `None` if nothing can be expected of them, as of those
    /// that come after another one.
    pub fn wanted(&self) -> Option<usize> {
        (self.takes_floor && self.after.is_none()).then_some(self.limit)
    }

    /// Tells that there are as many documents as [`wanted`](Self::wanted) with this number of units
    /// at least, which will be offered if they are needed.
    pub fn expect(&mut self, units: u32) {
        self.floor = self.floor.max(units);
    }

    /// Returns the units that documents from a place on must have to be among the best, at least 1.
    ///
    /// Of documents with equal units the first in the order of [`Found`] are the best.
    #[inline]
    pub fn needed(&self, from: Found) -> u32 {
        let known = match &self.worst {
            None => 1,
            Some(worst) => worst.units + u32::from(from > worst.found),
        };
        known.max(self.floor)
    }

    /// Offers a document.
    ///
    /// # Errors
    /// Memory runs out.
    #[inline(always)]
    pub fn offer(&mut self, hit: Hit) -> Result<(), OutOfMemory> {
        if self.after.is_some_and(|after| hit >= after) || self.worst.is_some_and(|w| hit <= w) {
            return Ok(());
        }
        push(&mut self.hits, hit)?;
        let count = self.hits.len();
        if count == self.limit || count > self.limit.saturating_add(self.limit / SLACK) {
            self.settle();
        }
        Ok(())
    }

    /// Finds the worst document, or drops those that are too many. It is not inlined, so that
    /// [`offer`](Self::offer) is.
    #[inline(never)]
    fn settle(&mut self) {
        if self.hits.len() == self.limit {
            self.worst = self.hits.iter().min().copied();
        } else {
            self.cut();
        }
    }

    /// Drops all but the best.
    fn cut(&mut self) {
        if self.hits.len() > self.limit {
            let last = self.limit - 1;
            self.hits.select_nth_unstable_by(last, |a, b| b.cmp(a));
            self.hits.truncate(self.limit);
            self.worst = self.hits.last().copied();
        }
    }

    /// Returns the documents, in any order.
    pub fn into_hits(mut self) -> Vec<Hit> {
        self.cut();
        self.hits
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

    fn sorted(best: Best) -> Vec<Hit> {
        let mut hits = best.into_hits();
        hits.sort_by(|a, b| b.cmp(a));
        hits
    }

    #[test]
    fn the_best_come_first_and_equal_ones_in_order() {
        let offered = [3, 9, 3, 5, 9, 1];
        let take = |limit, after| {
            let mut best = Best::new(limit, after);
            for (document, units) in (0..).zip(offered) {
                if units >= best.needed(hit(units, document).found) {
                    best.offer(hit(units, document)).unwrap();
                }
            }
            let in_order = sorted(best);
            let mut best = Best::new(limit, after);
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
            assert_eq!(sorted(best), in_order);
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
