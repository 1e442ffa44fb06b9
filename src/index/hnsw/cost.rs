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
        relation::{Index, ValueType},
    },
    settings,
};

/// Number of nodes whose distance is estimated for each candidate of the first search, at m = 16.
const VISITS_PER_CANDIDATE: f64 = 12.0;
/// Number of nodes whose distance is estimated on each level above the base, at m = 16.
const VISITS_PER_LEVEL: f64 = 100.0;
/// Cost of each further row, and of each of its dimensions, in units of `random_page_cost`: some 25
/// estimated distances and an exact one. Measured in memory: 6 to 12 microseconds with 48 and 384
/// dimensions, and 27 with 1,536. A unit of the cost of a sequential scan takes 1 microsecond there
/// if rows are wide, and 6 if they are narrow. This is right for 3.
const ROW_COST: f64 = 0.45;
const ROW_DIMENSION_COST: f64 = 0.0011;
/// Cost of an estimated distance, with the visit of its page, in units of `cpu_operator_cost`
/// (0.0025).
const VISIT_COST: f64 = 14.0;
/// Cost of the exact distance of a row of the first search, with the visit of its page, in units of
/// `cpu_operator_cost`.
const RERANK_COST: f64 = 40.0;
/// Number of rows whose exact distance is computed before the first row is returned.
const RERANKED_FIRST: f64 = 16.0;

/// Ranking that costs less than as many first searches is done at once.
const MIN_RANKING: f64 = 3.0;
/// A search that is expected to cost less than ranking may read as many times the rows that it is
/// expected to need, so that it ends before it is looked at.
const EXPECTED_SHARE: f64 = 5.0;
/// Cost of keeping a row in order, in units of `cpu_operator_cost`.
const RANK_COST: f64 = 4.0;
/// Cost of each row that is returned of those that were ranked, in units of `random_page_cost`: it
/// is fetched again.
const RANKED_ROW_COST: f64 = 0.03;
/// The search is preferred to a plan that costs the same and cannot adapt.
const PREFERENCE: f64 = 0.97;

/// Cost of reading a vector that is stored out of line, and of each of its pieces, in units of
/// `random_page_cost`. Measured in memory: with 1,536 dimensions it takes 5 microseconds.
const OUT_OF_LINE_COST: f64 = 0.3;
const PIECE_COST: f64 = 0.025;
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

/// The cost of a search that ranks all rows of a filter if the index does not find enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveCost {
    pub startup: f64,
    /// Until the last row, without what the executor does with each.
    pub total: f64,
    /// Number of rows whose search in the index costs as much as ranking. 0 if ranking costs less
    /// than the first search.
    pub ranking_rows: f64,
    /// Number of rows that are wanted.
    pub wanted: f64,
}

/// Returns the cost of a search that begins with a scan of the index. `read_cost` is the cost of
/// reading the rows that pass the filter, and `distance_cost` that of the distance of one of them.
///
/// The planner cannot know how near the filter's rows are to the query. The cost is that of the
/// scan if they are anywhere, and at most that of ranking. The search may take longer
/// ([`rag_ann::progress`]).
pub fn adaptive_cost(scan: &PlannedScan<'_>, read_cost: f64, distance_cost: f64) -> AdaptiveCost {
    let search = search_cost(scan, f64::from(HnswOptions::of(scan.index).m));
    let matching = scan.matching_rows.max(1.0);
    let row_cost = (search.total - search.startup) / scan.index_rows.max(1.0);
    let vector_cost = vector_cost(scan).unwrap_or(0.0);
    let rank_cost = distance_cost + vector_cost + scan.operator_cost * RANK_COST;
    let ranking = read_cost + matching * rank_cost;

    let wanted = scan.wanted_rows();
    let searched = wanted * scan.table_rows.max(1.0) / matching;
    let search_total = search.startup + row_cost * searched;
    let mut ranking_rows = ((ranking - search.startup * MIN_RANKING) / row_cost).floor();
    if search_total < ranking {
        ranking_rows = ranking_rows.max(EXPECTED_SHARE * searched);
    }
    if ranking_rows < 1.0 {
        return AdaptiveCost {
            startup: ranking,
            total: ranking + matching * RANKED_ROW_COST * scan.random_page_cost,
            ranking_rows: 0.0,
            wanted,
        };
    }
    let reached = search_total.min(ranking) * PREFERENCE;
    let startup = search.startup * PREFERENCE;
    AdaptiveCost {
        startup,
        total: startup + (reached - startup).max(0.0) * (matching / wanted).max(1.0),
        ranking_rows,
        wanted,
    }
}

pub fn scan_cost(scan: &PlannedScan<'_>) -> Option<ScanCost> {
    // Without an order there is nothing to search for. The index cannot order by two operators.
    if scan.order_count() != 1 {
        return None;
    }
    let cost = search_cost(scan, f64::from(HnswOptions::of(scan.index).m));
    let Some(vector_cost) = vector_cost(scan) else {
        return Some(cost);
    };
    let matching = scan.matching_rows.max(1.0);
    Some(cost.reduced_by(matching * vector_cost, matching, scan.wanted_rows()))
}

/// Returns the cost of reading a vector if vectors are stored out of line.
fn vector_cost(scan: &PlannedScan<'_>) -> Option<f64> {
    let bytes = bytes_out_of_line(scan.index)?;
    let pieces = (bytes / PIECE_BYTES).ceil();
    Some((OUT_OF_LINE_COST + PIECE_COST * pieces) * scan.random_page_cost)
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
    let row_cost = ROW_COST + ROW_DIMENSION_COST * dimensions(scan.index).unwrap_or(0) as f64;
    ScanCost {
        startup,
        total: startup + rows * row_cost * scan.random_page_cost,
        pages: visits,
        fetched_fraction: None,
    }
}

/// Returns the size of an indexed vector if vectors are stored out of line. Returns `None` for an
/// expression, of which that is not known.
fn bytes_out_of_line(index: Index<'_>) -> Option<f64> {
    index.column()?;
    let ValueType::Indexed(indexed) = index.value_type() else {
        return None;
    };
    let bytes = indexed.bytes(dimensions(index)?) as f64;
    // As ANALYZE has found them: what is left in the row is shorter than the vector. Before ANALYZE
    // vectors count as out of line if they do not fit into a row.
    let is_out_of_line = match index.average_width() {
        Some(width) => f64::from(width) < bytes / 2.0,
        None => bytes > PIECE_BYTES,
    };
    is_out_of_line.then_some(bytes)
}

/// Returns the dimensions of the vectors of an index that has some and can be read.
fn dimensions(index: Index<'_>) -> Option<usize> {
    cache::try_open(index).ok()?.graph.dimensions()
}
