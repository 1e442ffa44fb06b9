//! What a scan costs, in the planner's units.
//!
//! The planner weighs this index against reading the rows that match a filter and sorting them by their exact distance. Of
//! a scan under LIMIT it takes the startup cost and a share of the rest: how many rows it expects to read from the index
//! until enough of them have passed the filter. So the two figures are the cost of the first search and that of going on
//! for one row more.

use pgrx::{pg_guard, pg_sys};

use super::options::Options;
use crate::settings;

/// Nodes whose distance is estimated for each candidate that the first search keeps, at m = 16.
const VISITS_PER_CANDIDATE: f64 = 12.0;
/// Nodes whose distance is estimated on each level above the base, at m = 16.
const VISITS_PER_LEVEL: f64 = 100.0;
/// Going on for one row more, in units of `random_page_cost`: some 25 estimated distances and an exact one, 5 to 9
/// microseconds. What that is against reads of pages, which are mostly in memory, is measured: with 100,000 vectors of 384
/// dimensions the index and a sort of what a filter's own index finds take the same time where 3 rows in 100 match, and
/// there the planner must change from one to the other. Far less, and it would search for rare rows along the graph;
/// far more, and it would sort the whole table for the best thousand.
const ROW: f64 = 5.0;
/// An estimated distance, with the visit of its page, in units of `cpu_operator_cost` (0.0025).
const VISIT: f64 = 40.0;
/// The exact distance of a row of the first search, with the visit of its page, in units of `cpu_operator_cost`.
const RERANK: f64 = 120.0;
/// Rows whose exact distance is known before the first is returned.
const RERANKED_FIRST: f64 = 16.0;

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

/// The cost of a scan of an index of `rows`; `operator` and `random_page` are the planner's costs of one operator and of a
/// page out of order.
fn of_scan(rows: f64, m: f64, ef_search: f64, operator: f64, random_page: f64) -> Cost {
    let rows = rows.max(1.0);
    let density = m / 16.0;
    let levels = rows.ln() / m.max(2.0).ln();
    let visits = density * (VISITS_PER_CANDIDATE * ef_search + VISITS_PER_LEVEL * levels);
    let visits = visits.min(rows);
    let startup = operator * (VISIT * visits + RERANK * RERANKED_FIRST.min(rows));
    let total = startup + rows * ROW * random_page;
    Cost { startup, total, visits }
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
    // SAFETY: the planner's path of an index of this access method, and its variables for the answer.
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
        pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
        let mut random_page = 0.0;
        pg_sys::get_tablespace_page_costs((*info).reltablespace, &mut random_page, std::ptr::null_mut());
        let operator = pg_sys::cpu_operator_cost;
        let cost = of_scan((*info).tuples, m, settings::ef_search() as f64, operator, random_page);
        *startup_cost = cost.startup;
        *total_cost = cost.total;
        *selectivity = generic.indexSelectivity;
        *pages = f64::from((*info).pages).min(cost.visits);
    }
}
