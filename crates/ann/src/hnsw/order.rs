//! Returns rows in the order of their exact distance, though the index finds them by an estimated
//! one.
//!
//! [`RowOrder::add`] gets the exact distance of each candidate that the index finds. A row waits
//! until nothing nearer can be expected: until its distance is less, by a margin, than the estimate
//! that the index has reached. The margin is a multiple of the usual error of the estimates,
//! measured on this query's own candidates. So late rows are rare, however many rows the scan
//! returns (see [`deviations`]). The 10 nearest take the exact distances of about 20 rows.
//!
//! A row may still be late, after something farther away was returned. Strict order holds it back
//! until the end. Then the other rows are in order, and none is lost.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{Tid, UnreadRows};
use crate::memory::{OutOfMemory, Reserve, push};

/// The margin of the first rows, in usual errors. Errors are about normally distributed.
const MARGIN: f64 = 3.0;
/// Number of candidates from which the usual error is known.
const MIN_ERRORS: u32 = 8;
/// Number of candidates whose errors count as recent. If vectors differ in length, errors grow with
/// the distance.
const RECENT: f64 = 32.0;

#[derive(Debug)]
struct Row {
    distance: f64,
    tid: Tid,
    rest: Option<Box<UnreadRows>>,
}

/// The nearest row is the greatest, because a heap returns the greatest first.
impl Ord for Row {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .distance
            .total_cmp(&self.distance)
            .then_with(|| other.tid.cmp(&self.tid))
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Row {}

/// Rows that wait to be returned.
pub struct RowOrder {
    strict: bool,
    waiting: BinaryHeap<Row>,
    /// The estimate of the last candidate. Later ones are about as far away, or farther.
    estimate: f64,
    squared_errors: f64,
    /// Mean square of the recent errors.
    recent: f64,
    errors: u32,
    /// Distance of the last returned row.
    last: f64,
    /// Late rows, unordered.
    late: Vec<Row>,
}

impl RowOrder {
    /// If `strict`, late rows are returned at the end instead of at once.
    pub fn new(strict: bool) -> Self {
        Self {
            strict,
            waiting: BinaryHeap::new(),
            estimate: f64::NEG_INFINITY,
            squared_errors: 0.0,
            recent: 0.0,
            errors: 0,
            last: f64::NEG_INFINITY,
            late: vec![],
        }
    }

    /// Records the estimated distance of a candidate and the exact one of its first row.
    pub fn observe(&mut self, estimate: f64, distance: f64) {
        self.estimate = estimate;
        let squared = (distance - estimate).powi(2);
        self.squared_errors += squared;
        self.errors = self.errors.saturating_add(1);
        self.recent += (squared - self.recent) / f64::from(self.errors).min(RECENT);
    }

    /// Adds a row with its exact distance. `rest` are the unread rows of the same vector. They are
    /// requested when this row is returned.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn add(
        &mut self,
        tid: Tid,
        distance: f64,
        rest: Option<Box<UnreadRows>>,
    ) -> Result<(), OutOfMemory> {
        let row = Row {
            distance,
            tid,
            rest,
        };
        if self.strict && distance < self.last {
            push(&mut self.late, row)
        } else {
            self.waiting.make_room(1)?;
            self.waiting.push(row);
            Ok(())
        }
    }

    /// Returns the next row, if it is already known which that is.
    pub fn next_settled(&mut self) -> Option<(Tid, Option<Box<UnreadRows>>)> {
        if self.errors < MIN_ERRORS {
            return None;
        }
        let margin = deviations(self.errors)
            * (self.squared_errors / f64::from(self.errors))
                .max(self.recent)
                .sqrt();
        if !margin.is_finite() {
            return None; // estimates that say nothing: all wait for the end
        }
        if self.waiting.peek()?.distance > self.estimate - margin {
            return None;
        }
        self.next_of_rest()
    }

    /// Returns the next row when the index has found all. Late rows come last.
    pub fn next_of_rest(&mut self) -> Option<(Tid, Option<Box<UnreadRows>>)> {
        if self.waiting.is_empty() {
            self.waiting = std::mem::take(&mut self.late).into(); // in the same place
        }
        let row = self.waiting.pop()?;
        self.last = row.distance;
        Some((row.tid, row.rest))
    }
}

/// Returns the largest expected error of an estimate, in usual errors, after a number of
/// candidates. The probability of a larger error is about 1/35 divided by the number of candidates.
/// So few rows are late in a long scan, too.
fn deviations(errors: u32) -> f64 {
    let growth = 2.0 * (f64::from(errors) / 20.0).ln().max(0.0);
    (MARGIN * MARGIN + growth).sqrt()
}
