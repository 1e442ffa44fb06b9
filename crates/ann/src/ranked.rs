//! Ranks rows by their exact distance, after an index has returned some of them.
//!
//! A row is one number, and the order of numbers is that of the rows: first those that are not
//! nearer than the last row of the index, then those that are, each by its distance, and equal ones
//! by their place. An index, too, returns rows last that it finds too late
//! ([`RowOrder`](crate::hnsw::RowOrder)).
//!
//! If there is no room for all rows, the first are kept. When these have been taken, the caller
//! adds all rows again for the next ones.

use rag_pages::{
    Tid,
    memory::{OutOfMemory, push},
};

/// Number of rows that are put in order at once, at first.
const PORTION: usize = 256;
/// Minimum number of rows that there is room for.
const MIN_ROOM: usize = 4096;

const PLACE_BITS: u32 = 48;
/// Added to the rank of a row that is nearer than the last row of the index.
const LATE: u128 = 1 << (PLACE_BITS + 64);
/// The rank of a distance that is not a number.
const NOT_A_NUMBER: u64 = u64::MAX;

/// Rows in the order of their distance.
#[derive(Debug, Default)]
pub struct RankedRows {
    room: usize,
    /// The keys of the rows that the index has returned. In order while rows are ranked.
    returned: Vec<u64>,
    /// The first [`RankedRows::sorted`] are in order. If `is_cut`, the first that was kept is the
    /// worst until they are sorted.
    ranks: Vec<u128>,
    sorted: usize,
    next: usize,
    /// The last rank that was taken.
    taken: u128,
    /// The rank of the distance of the last row that the index has returned.
    last_returned: u64,
    /// Some rows were not kept.
    is_cut: bool,
    has_numbers: bool,
}

impl RankedRows {
    /// Bytes of memory that a row takes.
    pub const BYTES_PER_ROW: usize = size_of::<u128>();

    /// Forgets all rows. There is room for `room` rows from now on.
    pub fn reset(&mut self, room: usize) {
        self.room = room.max(MIN_ROOM);
        self.returned.clear();
        self.forget_ranks();
        (self.taken, self.last_returned, self.has_numbers) = (0, 0, false);
    }

    fn forget_ranks(&mut self) {
        self.ranks.clear();
        (self.sorted, self.next, self.is_cut) = (0, 0, false);
    }

    /// Adds a row that the index has returned. It is not ranked again.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn add_returned(&mut self, row: Tid) -> Result<(), OutOfMemory> {
        push(&mut self.returned, row.key())
    }

    /// Returns the number of rows that the index has returned.
    pub fn returned_count(&self) -> usize {
        self.returned.len()
    }

    /// Begins to rank rows. `last` is the distance of the last row that the index has returned.
    pub fn begin(&mut self, last: Option<f64>) {
        self.returned.sort_unstable();
        self.last_returned = last.map_or(0, rank_of_distance);
        self.has_numbers = last.is_some_and(|distance| !distance.is_nan());
        self.forget_ranks();
    }

    /// Adds a row.
    ///
    /// # Errors
    /// There is no memory for it.
    #[inline]
    pub fn add(&mut self, row: Tid, distance: f64) -> Result<(), OutOfMemory> {
        self.has_numbers |= !distance.is_nan();
        let near = rank_of_distance(distance);
        let late = if near < self.last_returned { LATE } else { 0 };
        let rank = late | u128::from(near) << PLACE_BITS | u128::from(row.key());
        if rank <= self.taken
            || (self.is_cut && rank > self.ranks[0])
            || self.returned.binary_search(&row.key()).is_ok()
        {
            return Ok(());
        }
        if self.ranks.len() >= self.room {
            self.cut();
            if rank > self.ranks[0] {
                return Ok(());
            }
        }
        push(&mut self.ranks, rank)
    }

    /// Keeps the better half of the rows.
    fn cut(&mut self) {
        let half = self.ranks.len() / 2;
        self.ranks.select_nth_unstable(half);
        self.ranks.swap(0, half);
        self.ranks.truncate(half + 1);
        self.is_cut = true;
    }

    /// Returns the next row, or `None` if no more rows are known
    /// ([`needs_rows`](Self::needs_rows)).
    ///
    /// Distances that are not numbers are those of rows that an index does not have, unless no
    /// distance is a number.
    pub fn take(&mut self) -> Option<Tid> {
        loop {
            if self.next == self.sorted {
                self.sort_more();
            }
            let rank = *self.ranks.get(self.next)?;
            self.next += 1;
            self.taken = rank;
            let is_number = (rank >> PLACE_BITS) as u64 != NOT_A_NUMBER;
            if is_number || !self.has_numbers {
                let key = rank as u64 & ((1 << PLACE_BITS) - 1);
                return Some(Tid {
                    block: (key >> 16) as u32,
                    offset: key as u16,
                });
            }
        }
    }

    /// Puts the next rows in order: as many as are in order already, so that all rows take no
    /// longer than sorting them.
    fn sort_more(&mut self) {
        let rest = &mut self.ranks[self.sorted..];
        let portion = self.sorted.max(PORTION);
        let portion = if portion < rest.len() {
            rest.select_nth_unstable(portion);
            portion
        } else {
            rest.len()
        };
        rest[..portion].sort_unstable();
        self.sorted += portion;
    }

    /// Returns true if there are more rows than there was room for. All rows must then be added
    /// again. Those that were taken are left out. Called when no more rows are known.
    pub fn needs_rows(&mut self) -> bool {
        let is_cut = self.is_cut;
        self.forget_ranks();
        is_cut
    }
}

/// Returns a number that has the order of distances. One that is not a number is the last.
#[inline]
fn rank_of_distance(distance: f64) -> u64 {
    if distance.is_nan() {
        return NOT_A_NUMBER;
    }
    let bits = (distance + 0.0).to_bits(); // -0 is 0
    if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    }
}
