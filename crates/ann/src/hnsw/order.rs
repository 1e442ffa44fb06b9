//! Rows leave in the order of their exact distance, though the index finds them in that of an
//! estimated one.
//!
//! The exact distance of each candidate is computed when the index finds it ([`Order::add`]), and
//! the row waits until nothing nearer can be expected any more: until its distance is less, by a
//! margin, than the estimate that the index has come to. The margin is so many times the usual
//! error of the estimates, as measured on this query's own candidates, that rows which come too
//! late are rare however many the scan returns: see [`deviations`]. For the 10 nearest, the exact
//! distances of some 20 rows are computed.
//!
//! A row that comes too late all the same, as something farther away has left already, is held back
//! until the end in a strict order, so that the others are in order and none is lost.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{Rest, Tid};
use crate::memory::{OutOfMemory, Reserve, push};

/// Usual errors that the margin has for the first rows. Errors are about normally distributed.
const MARGIN: f64 = 3.0;
/// Candidates before the usual error is known well enough.
const MIN_ERRORS: u32 = 8;
/// Candidates whose errors are the recent ones. Where vectors are of different lengths, errors grow
/// with the distance.
const RECENT: f64 = 32.0;

#[derive(Debug)]
struct Row {
    distance: f64,
    tid: Tid,
    rest: Option<Box<Rest>>,
}

/// The nearest is the greatest, as a heap gives out the greatest first.
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

/// Rows that wait for their turn.
pub struct Order {
    strict: bool,
    waiting: BinaryHeap<Row>,
    /// Of what the index found last: what it finds later is about as far away, or farther.
    estimate: f64,
    squared_errors: f64,
    /// The mean square of the recent errors.
    recent: f64,
    errors: u32,
    /// Distance of the row that left last.
    last: f64,
    /// Rows that came too late, in no order.
    late: Vec<Row>,
}

impl Order {
    /// `strict`: rows that come too late leave in the end instead of at once.
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

    /// Notes the estimated distance of the candidate that the index has found, and the exact one of
    /// its first row.
    pub fn observe(&mut self, estimate: f64, distance: f64) {
        self.estimate = estimate;
        let squared = (distance - estimate).powi(2);
        self.squared_errors += squared;
        self.errors = self.errors.saturating_add(1);
        self.recent += (squared - self.recent) / f64::from(self.errors).min(RECENT);
    }

    /// Adds a row with its exact distance. `rest`: rows of the same vector that were not read yet;
    /// they are asked for when this one leaves.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn add(
        &mut self,
        tid: Tid,
        distance: f64,
        rest: Option<Box<Rest>>,
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

    /// The next row, if it is known which that is.
    pub fn next_settled(&mut self) -> Option<(Tid, Option<Box<Rest>>)> {
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

    /// The next row when the index has found all. What came too late comes last.
    pub fn next_of_rest(&mut self) -> Option<(Tid, Option<Box<Rest>>)> {
        if self.waiting.is_empty() {
            self.waiting = std::mem::take(&mut self.late).into(); // in the same place
        }
        let row = self.waiting.pop()?;
        self.last = row.distance;
        Some((row.tid, row.rest))
    }
}

/// Usual errors that an estimate is believed to be off by at most, after so many candidates. An
/// error beyond it has a probability of about 1/35 divided by the number of candidates, so that few
/// rows come too late in a long scan, too.
fn deviations(errors: u32) -> f64 {
    let growth = 2.0 * (f64::from(errors) / 20.0).ln().max(0.0);
    (MARGIN * MARGIN + growth).sqrt()
}
