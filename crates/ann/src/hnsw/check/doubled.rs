//! Rows that an index has more than once.

use rag_pages::{
    Tid,
    memory::{OutOfMemory, push},
};

use crate::random::mix;

/// The places of rows, to find those that come more than once. If they are more than there is
/// memory for, a share is kept, which their places choose: either both of two equal ones are kept,
/// or none.
pub struct RowPlaces {
    kept: Vec<Tid>,
    /// The maximum number of places.
    limit: usize,
    /// Places with any of these bits in their hash are left out.
    left_out: u64,
}

impl RowPlaces {
    /// `bytes` is the memory that may be used.
    pub fn new(bytes: usize) -> Self {
        Self {
            kept: vec![],
            limit: (bytes / size_of::<Tid>()).max(2),
            left_out: 0,
        }
    }

    /// Adds a place.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add(&mut self, place: Tid) -> Result<(), OutOfMemory> {
        if self.kept.len() == self.limit {
            self.left_out = self.left_out << 1 | 1;
            let left_out = self.left_out;
            self.kept.retain(|place| hash(*place) & left_out == 0);
        }
        // nearly all are equal if as many remain: then enough are known
        if hash(place) & self.left_out == 0 && self.kept.len() < self.limit {
            push(&mut self.kept, place)?;
        }
        Ok(())
    }

    /// Returns the first places that came more than once, in order.
    pub fn doubled(mut self, most: usize) -> Vec<Tid> {
        self.kept.sort_unstable();
        let twice = self.kept.windows(2).filter(|pair| pair[0] == pair[1]);
        let mut doubled: Vec<Tid> = twice.map(|pair| pair[0]).take(most).collect();
        doubled.dedup();
        doubled
    }
}

fn hash(place: Tid) -> u64 {
    mix(u64::from(place.block) << 16 | u64::from(place.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubled(bytes: usize, blocks: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut places = RowPlaces::new(bytes);
        for block in blocks {
            places.add(Tid { block, offset: 1 }).unwrap();
        }
        let doubled = places.doubled(1000);
        doubled.iter().map(|place| place.block).collect()
    }

    #[test]
    fn all_are_found_that_memory_is_for() {
        let blocks = || (0..10_000).chain([7, 9_999, 7]);
        assert_eq!(doubled(1 << 20, blocks()), [7, 9_999]);
        assert_eq!(doubled(1 << 20, 0..10_000), []);
    }

    #[test]
    fn a_share_is_found_of_more() {
        // all are doubled, and memory is for a tenth of them
        let found = doubled(16_000, (0..10_000).chain(0..10_000));
        assert!((300..=1000).contains(&found.len()), "{}", found.len());
        assert_eq!(doubled(16_000, 0..10_000), []);
    }

    #[test]
    fn one_place_may_fill_the_memory() {
        assert!(doubled(100, std::iter::repeat_n(5, 100_000)).len() <= 1);
    }
}
