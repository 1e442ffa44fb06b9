//! The cost of a scan, in the planner's units.
//!
//! The planner compares this index with reading the rows that match a filter and sorting them by
//! their exact distance. For a scan under LIMIT it takes the startup cost and a share of the rest:
//! the fraction of rows that it expects to read from the index until enough have passed the filter.
//! So the two figures are the cost of the first search and that of each further row.
//!
//! **Vectors stored out of line.** A vector of more than 2 KB is not in its row, but in several
//! rows of the TOAST table. The planner does not take that into account. For it, a sequential scan
//! reads the few pages of what is left in the rows, and computing a distance costs next to nothing.
//! In fact it takes longer than all else. The costs of other paths cannot be raised, so those of
//! the index are lowered by the same amount ([`ScanCost::reduced_by`]). Each other path has to read
//! the vectors of all rows that pass the filter.

use super::{cache, options::HnswOptions};
use crate::{
    index::am::{
        cost::{PlannedScan, ScanCost},
        relation::Index,
    },
    settings,
};

/// Number of nodes whose distance is estimated for each candidate of the first search, at m = 16.
const VISITS_PER_CANDIDATE: f64 = 12.0;
/// Number of nodes whose distance is estimated on each level above the base, at m = 16.
const VISITS_PER_LEVEL: f64 = 100.0;
/// Cost of each further row, in units of `random_page_cost`: some 25 estimated distances and an
/// exact one, 5 to 9 microseconds. The ratio to a page read, mostly from memory, is measured: with
/// 100,000 vectors of 384 dimensions, the index and a sort of what a filter's own index finds take
/// the same time if 3 rows in 100 match. There the planner must change from one to the other. With
/// a far lower value it would search for rare rows along the graph. With a far higher one it would
/// sort the whole table for the best thousand.
const ROW_COST: f64 = 5.0;
/// Cost of an estimated distance, with the visit of its page, in units of `cpu_operator_cost`
/// (0.0025).
const VISIT_COST: f64 = 40.0;
/// Cost of the exact distance of a row of the first search, with the visit of its page, in units of
/// `cpu_operator_cost`.
const RERANK_COST: f64 = 120.0;
/// Number of rows whose exact distance is computed before the first row is returned.
const RERANKED_FIRST: f64 = 16.0;

/// Cost of reading a vector that is stored out of line, and of each of its pieces, in units of
/// `random_page_cost`. Measured in memory: with 1,536 dimensions it takes 7 microseconds, while
/// [`ROW_COST`] is 32.
const OUT_OF_LINE_COST: f64 = 0.8;
const PIECE_COST: f64 = 0.06;
/// Values of rows above this size are moved out of line, in pieces of this size
/// (TOAST_TUPLE_THRESHOLD, and nearly TOAST_MAX_CHUNK_SIZE).
const PIECE_BYTES: f64 = 2000.0;
/// Minimum fraction that is left of a cost: no scan is free.
const MIN_COST_FRACTION: f64 = 0.02;

impl ScanCost {
    /// Returns a cost by which the first `wanted` of `rows` rows together cost `credit` less, as
    /// far as they cost anything. The line from the first row to the last passes through that
    /// point.
    fn reduced_by(self, credit: f64, rows: f64, wanted: f64) -> Self {
        let Self {
            startup,
            total,
            pages,
            fetched_fraction,
        } = self;
        let share = (wanted / rows.max(1.0)).clamp(f64::EPSILON, 1.0);
        let reached = startup + (total - startup) * share;
        let startup = (startup - credit).max(startup * MIN_COST_FRACTION);
        let reached = (reached - credit).max(startup + (reached - startup) * MIN_COST_FRACTION);
        Self {
            startup,
            total: startup + (reached - startup) / share,
            pages,
            fetched_fraction,
        }
    }
}

pub fn scan_cost(scan: &PlannedScan<'_>) -> Option<ScanCost> {
    // Without an order there is nothing to search for. The index cannot order by two operators.
    if scan.order_count() != 1 {
        return None;
    }
    let cost = search_cost(scan, f64::from(HnswOptions::of(scan.index).m));
    let Some(bytes) = bytes_out_of_line(scan.index) else {
        return Some(cost);
    };
    let matching = scan.matching_rows.max(1.0);
    let vector_cost = OUT_OF_LINE_COST + PIECE_COST * (bytes / PIECE_BYTES).ceil();
    let credit = matching * vector_cost * scan.random_page_cost;
    Some(cost.reduced_by(credit, matching, scan.wanted_rows()))
}

/// Returns the cost of a scan, of vectors that are stored in their rows.
fn search_cost(scan: &PlannedScan<'_>, m: f64) -> ScanCost {
    let rows = scan.index_rows.max(1.0);
    let density = m / 16.0;
    let levels = rows.ln() / m.max(2.0).ln();
    let ef_search = settings::ef_search() as f64;
    let visits = density * (VISITS_PER_CANDIDATE * ef_search + VISITS_PER_LEVEL * levels);
    let visits = visits.min(rows);
    let reranked = RERANKED_FIRST.min(rows);
    let startup = scan.operator_cost * (VISIT_COST * visits + RERANK_COST * reranked);
    ScanCost {
        startup,
        total: startup + rows * ROW_COST * scan.random_page_cost,
        pages: visits,
        fetched_fraction: None,
    }
}

/// Returns the size of an indexed vector if vectors are stored out of line. Returns `None` for an
/// expression, of which that is not known.
fn bytes_out_of_line(index: Index<'_>) -> Option<f64> {
    index.column()?;
    let dimensions = cache::try_open(index).ok()?.graph.dimensions()?;
    let bytes = (dimensions * size_of::<f32>()) as f64;
    // As ANALYZE has found them: what is left in the row is shorter than the vector. Before ANALYZE
    // vectors count as out of line if they do not fit into a row.
    let is_out_of_line = match index.average_width() {
        Some(width) => f64::from(width) < bytes / 2.0,
        None => bytes > PIECE_BYTES,
    };
    is_out_of_line.then_some(bytes)
}
