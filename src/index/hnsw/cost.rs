//! What a scan costs, in the planner's units.
//!
//! The planner weighs this index against reading the rows that match a filter and sorting them by
//! their exact distance. Of a scan under LIMIT it takes the startup cost and a share of the rest:
//! how many rows it expects to read from the index until enough of them have passed the filter. So
//! the two figures are the cost of the first search and that of going on for one row more.
//!
//! **Vectors stored out of line.** A vector of more than 2 KB is not in its row: it is put together
//! from several rows of the TOAST table. The planner knows nothing of that. For it a sequential
//! scan reads the few pages of what is left in the rows, and computing the distance of a row costs
//! next to nothing, where it takes longer than all else. As the costs of the other ways cannot be
//! raised, those of the index are lowered by as much ([`Cost::less`]): each of the others has to
//! put together the vectors of all rows that pass the filter.

use pgrx::{pg_guard, pg_sys};

use super::{cache, options::Options};
use crate::settings;

/// Nodes whose distance is estimated for each candidate that the first search keeps, at m = 16.
const VISITS_PER_CANDIDATE: f64 = 12.0;
/// Nodes whose distance is estimated on each level above the base, at m = 16.
const VISITS_PER_LEVEL: f64 = 100.0;
/// Going on for one row more, in units of `random_page_cost`: some 25 estimated distances and an
/// exact one, 5 to 9 microseconds. What that is against reads of pages, which are mostly in memory,
/// is measured: with 100,000 vectors of 384 dimensions the index and a sort of what a filter's own
/// index finds take the same time where 3 rows in 100 match, and there the planner must change from
/// one to the other. Far less, and it would search for rare rows along the graph; far more, and it
/// would sort the whole table for the best thousand.
const ROW: f64 = 5.0;
/// An estimated distance, with the visit of its page, in units of `cpu_operator_cost` (0.0025).
const VISIT: f64 = 40.0;
/// The exact distance of a row of the first search, with the visit of its page, in units of
/// `cpu_operator_cost`.
const RERANK: f64 = 120.0;
/// Rows whose exact distance is known before the first is returned.
const RERANKED_FIRST: f64 = 16.0;

/// Putting together a vector that is stored out of line, and each of the pieces that it is in, in
/// units of `random_page_cost`. By the time that it takes: with 1,536 dimensions in memory 7
/// microseconds, where [`ROW`] is 32.
const OUT_OF_LINE: f64 = 0.8;
const PIECE: f64 = 0.06;
/// Rows with more bytes have values moved out of line, in pieces of this size
/// (TOAST_TUPLE_THRESHOLD, and nearly TOAST_MAX_CHUNK_SIZE).
const PIECE_BYTES: f64 = 2000.0;
/// What is left of each cost at least: no scan is free.
const LEFT: f64 = 0.02;

/// Costs of a scan.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cost {
    /// Until the first row.
    startup: f64,
    /// Until the last.
    total: f64,
    /// Nodes visited until the first row.
    visits: f64,
}

impl Cost {
    /// The same, but that the first `wanted` rows of `rows` cost so much less together, as far as
    /// they cost anything. The line from the first row to the last is made to go through there.
    fn less(self, credit: f64, rows: f64, wanted: f64) -> Self {
        let Self {
            startup,
            total,
            visits,
        } = self;
        let share = (wanted / rows.max(1.0)).clamp(f64::EPSILON, 1.0);
        let reached = startup + (total - startup) * share;
        let startup = (startup - credit).max(startup * LEFT);
        let reached = (reached - credit).max(startup + (reached - startup) * LEFT);
        Self {
            startup,
            total: startup + (reached - startup) / share,
            visits,
        }
    }
}

/// The cost of a scan of an index of `rows`; `operator` and `random_page` are the planner's costs
/// of one operator and of a page out of order.
fn of_scan(rows: f64, m: f64, ef_search: f64, operator: f64, random_page: f64) -> Cost {
    let rows = rows.max(1.0);
    let density = m / 16.0;
    let levels = rows.ln() / m.max(2.0).ln();
    let visits = density * (VISITS_PER_CANDIDATE * ef_search + VISITS_PER_LEVEL * levels);
    let visits = visits.min(rows);
    let startup = operator * (VISIT * visits + RERANK * RERANKED_FIRST.min(rows));
    let total = startup + rows * ROW * random_page;
    Cost {
        startup,
        total,
        visits,
    }
}

/// `amcostestimate`
#[pg_guard]
#[allow(clippy::too_many_arguments)] // Postgres's
pub unsafe extern "C-unwind" fn estimate(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup_cost: *mut pg_sys::Cost,
    total_cost: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    // SAFETY: the planner's path of an index of this access method, and its variables for the
    // answer.
    unsafe {
        *correlation = 0.0;
        // Without an order there is nothing to search for; by two of them rows cannot be ordered.
        if pg_sys::list_length((*path).indexorderbys) != 1 {
            *startup_cost = f64::INFINITY;
            *total_cost = f64::INFINITY;
            *selectivity = 0.0;
            *pages = 0.0;
            // since then a path that is disabled loses to one that is not, whatever they cost
            #[cfg(feature = "pg18")]
            {
                (*path).path.disabled_nodes = 2;
            }
            return;
        }
        let mut generic = pg_sys::GenericCosts::default();
        pg_sys::genericcostestimate(root, path, loop_count, &mut generic);
        let info = (*path).indexinfo;
        // the planner holds a lock on it
        let index = pg_sys::index_open((*info).indexoid, pg_sys::NoLock as pg_sys::LOCKMODE);
        let m = f64::from(Options::of(index).m);
        let out_of_line = bytes_out_of_line(index);
        pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
        let mut random_page = 0.0;
        pg_sys::get_tablespace_page_costs(
            (*info).reltablespace,
            &mut random_page,
            std::ptr::null_mut(),
        );
        let operator = pg_sys::cpu_operator_cost;
        let cost = of_scan(
            (*info).tuples,
            m,
            settings::ef_search() as f64,
            operator,
            random_page,
        );
        let cost = match out_of_line {
            None => cost,
            Some(bytes) => {
                let passing = (*(*info).rel).rows.max(1.0);
                let vector = (OUT_OF_LINE + PIECE * (bytes / PIECE_BYTES).ceil()) * random_page;
                cost.less(passing * vector, passing, rows_wanted(root, passing))
            }
        };
        *startup_cost = cost.startup;
        *total_cost = cost.total;
        *selectivity = generic.indexSelectivity;
        *pages = f64::from((*info).pages).min(cost.visits);
    }
}

/// How many of the `passing` rows the query is expected to take.
///
/// # Safety
/// The planner's.
unsafe fn rows_wanted(root: *mut pg_sys::PlannerInfo, passing: f64) -> f64 {
    // SAFETY: the caller's promise.
    let (limit, fraction) = unsafe { ((*root).limit_tuples, (*root).tuple_fraction) };
    match (limit, fraction) {
        (limit, _) if limit > 0.0 => limit.min(passing),
        (_, fraction) if fraction >= 1.0 => fraction.min(passing),
        (_, fraction) if fraction > 0.0 => fraction * passing,
        _ => passing,
    }
}

/// The bytes of an indexed vector, if they are stored out of line; of an expression that is not
/// known.
///
/// # Safety
/// An open index of this access method.
unsafe fn bytes_out_of_line(index: pg_sys::Relation) -> Option<f64> {
    // SAFETY: the caller's promise.
    unsafe {
        let table = (*(*index).rd_index).indrelid;
        let column = (*(*index).rd_index).indkey.values.as_slice(1)[0];
        if column == 0 {
            return None;
        }
        let dimensions = cache::open(index).ok()?.index.dimensions()?;
        let bytes = (dimensions * size_of::<f32>()) as f64;
        // As ANALYZE has found them: what is left in the row is shorter. Else they are where they
        // do not fit.
        let out = match pg_sys::get_attavgwidth(table, column) {
            1.. => f64::from(pg_sys::get_attavgwidth(table, column)) < bytes / 2.0,
            _ => bytes > PIECE_BYTES,
        };
        out.then_some(bytes)
    }
}
