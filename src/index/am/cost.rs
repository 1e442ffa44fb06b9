//! What the planner knows of a scan, and what the scan costs.
#![allow(unsafe_code)] // the planner's nodes

use pgrx::{PgList, pg_sys, pg_sys::panic::pgrx_extern_c_guard as guard};

use super::{
    AccessMethod, order,
    relation::{Index, Value, ValueType},
};

/// Cost of a scan that the index cannot answer: above all others, and without an overflow where the
/// planner computes with it.
const IMPOSSIBLE: f64 = 1e100;

/// Returns true if an index can answer a scan with this cost.
pub fn is_possible(cost: f64) -> bool {
    cost < IMPOSSIBLE
}

/// `amcostestimate`
#[allow(clippy::too_many_arguments)] // PostgreSQL's
pub unsafe extern "C-unwind" fn estimate_cost<M: AccessMethod>(
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
    // answer. The planner holds a lock on the index.
    unsafe {
        guard(|| {
            let cost = with_planned_scan(root, path, |scan| {
                // a scan that only orders does not return all rows
                let is_complete = scan.order_count() == 0 || scan.has_conditions();
                (is_complete || scan.is_order_wanted()).then(|| M::scan_cost(scan))?
            });
            *correlation = 0.0;
            // of a scan that only orders, the planner would make a bitmap for less
            *selectivity = 1.0;
            let Some(cost) = cost else {
                *startup_cost = IMPOSSIBLE;
                *total_cost = IMPOSSIBLE;
                *pages = 0.0;
                // since PostgreSQL 18 a path that is disabled loses against any that is not
                #[cfg(feature = "pg18")]
                {
                    (*path).path.disabled_nodes = 2;
                }
                return;
            };
            let mut generic = pg_sys::GenericCosts::default();
            pg_sys::genericcostestimate(root, path, loop_count, &mut generic);
            *startup_cost = cost.startup;
            *total_cost = cost.total;
            *selectivity = cost.fetched_fraction.unwrap_or(generic.indexSelectivity);
            if (*path).indexorderbys.is_null() {
                *correlation = row_correlation(&*(*(*path).indexinfo).rel, *selectivity);
            }
            *pages = f64::from((*(*path).indexinfo).pages).min(cost.pages);
        });
    }
}

/// Returns the correlation that an index has whose scan returns a fraction of the rows in the order
/// of the table. The planner would expect with 1 that they are side by side, and with 0 that each
/// is read out of order. They are scattered over as many pages as those of a bitmap, which cost the
/// less the more there are.
///
/// # Safety
/// A table of the planner's.
unsafe fn row_correlation(table: &pg_sys::RelOptInfo, fraction: f64) -> f64 {
    let (mut random_cost, mut next_cost) = (0.0, 0.0);
    // SAFETY: a look-up of settings.
    unsafe {
        let space = table.reltablespace;
        pg_sys::get_tablespace_page_costs(space, &mut random_cost, &mut next_cost);
    }
    let pages = f64::from(table.pages).max(1.0);
    let rows = (fraction * table.tuples).max(1.0);
    let fetched = (2.0 * pages * rows / (2.0 * pages + rows)).clamp(1.0, pages);
    let most = fetched * random_cost;
    let least = random_cost + ((fraction * pages).ceil() - 1.0).max(0.0) * next_cost;
    let right = fetched * (random_cost - (random_cost - next_cost) * (fetched / pages).sqrt());
    if most > least {
        ((most - right) / (most - least)).clamp(0.0, 1.0).sqrt()
    } else {
        0.0
    }
}

/// Calls `f` with what the planner knows of a scan.
///
/// # Safety
/// The planner's path of an index. The planner holds a lock on the index.
pub unsafe fn with_planned_scan<R>(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    f: impl FnOnce(&PlannedScan<'_>) -> R,
) -> R {
    // SAFETY: the caller's promise.
    unsafe {
        let info = &*(*path).indexinfo;
        let no_lock = pg_sys::NoLock as pg_sys::LOCKMODE;
        let index = pg_sys::index_open(info.indexoid, no_lock);
        let mut random_page_cost = 0.0;
        let no_answer = std::ptr::null_mut();
        pg_sys::get_tablespace_page_costs(info.reltablespace, &mut random_page_cost, no_answer);
        let result = f(&PlannedScan {
            root,
            path: &*path,
            index: Index::from_raw(index),
            index_rows: info.tuples,
            table_rows: (*info.rel).tuples,
            matching_rows: (*info.rel).rows,
            limit_rows: (*root).limit_tuples,
            fetched_fraction: (*root).tuple_fraction,
            operator_cost: pg_sys::cpu_operator_cost,
            random_page_cost,
        });
        pg_sys::index_close(index, no_lock);
        result
    }
}

/// The cost of a scan in the planner's units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScanCost {
    /// Until the first row.
    pub startup: f64,
    /// Until the last row.
    pub total: f64,
    /// Number of pages read until the first row.
    pub pages: f64,
    /// Fraction of the table's rows that are fetched for the index until its last row. `None`:
    /// those that satisfy the conditions of the scan.
    pub fetched_fraction: Option<f64>,
}

/// What the planner knows of a scan.
pub struct PlannedScan<'a> {
    root: *mut pg_sys::PlannerInfo,
    path: &'a pg_sys::IndexPath,
    pub index: Index<'a>,
    /// Number of rows in the index.
    pub index_rows: f64,
    /// Number of rows in the table.
    pub table_rows: f64,
    /// Number of rows that match the query's conditions on the table.
    pub matching_rows: f64,
    /// LIMIT of the query, or 0 or less if it has none.
    pub limit_rows: f64,
    /// Fraction of the rows that is expected to be fetched if it is below 1, else their number; 0
    /// means all rows.
    pub fetched_fraction: f64,
    /// Cost of an operator.
    pub operator_cost: f64,
    /// Cost of reading a page out of order.
    pub random_page_cost: f64,
}

impl PlannedScan<'_> {
    /// Returns how many of the matching rows the query is expected to fetch.
    pub fn wanted_rows(&self) -> f64 {
        let matching = self.matching_rows.max(1.0);
        match (self.limit_rows, self.fetched_fraction) {
            (limit, _) if limit > 0.0 => limit.min(matching),
            (_, fraction) if fraction >= 1.0 => fraction.min(matching),
            (_, fraction) if fraction > 0.0 => fraction * matching,
            _ => matching,
        }
    }

    /// Returns true if the scan has the order of the statement's ORDER BY. The planner may also
    /// want an order for itself.
    pub fn is_order_wanted(&self) -> bool {
        // SAFETY: the planner's state, and its path.
        unsafe { order::is_wanted(self.root, &self.path.path) }
    }

    /// Returns the planner's state.
    pub fn root(&self) -> *mut pg_sys::PlannerInfo {
        self.root
    }

    /// Returns the planner's path of the scan.
    pub fn path(&self) -> &pg_sys::Path {
        &self.path.path
    }

    /// Returns true if the scan has a condition.
    pub fn has_conditions(&self) -> bool {
        !self.path.indexclauses.is_null()
    }

    /// Returns the number of operators that the scan orders by.
    pub fn order_count(&self) -> usize {
        // SAFETY: a list of the path, or null.
        unsafe { pg_sys::list_length(self.path.indexorderbys) as usize }
    }

    /// Returns the right argument of each operator that the scan orders by.
    pub fn orders(&self) -> Vec<PlannedArgument> {
        // SAFETY: a list of operators, or null.
        let operators = unsafe { PgList::<pg_sys::Node>::from_pg(self.path.indexorderbys) };
        operators
            .iter_ptr()
            .map(|operator| self.argument(operator))
            .collect()
    }

    /// Returns the strategy and the right argument of each operator that rows must satisfy.
    pub fn conditions(&self) -> Vec<(i32, PlannedArgument)> {
        let mut found = vec![];
        // SAFETY: the path's list of IndexClause, each with a list of RestrictInfo. The index has
        // one column, and so one operator family. The tag says if a clause is an operator.
        unsafe {
            let family = *(*self.path.indexinfo).opfamily;
            let clauses = PgList::<pg_sys::IndexClause>::from_pg(self.path.indexclauses);
            for clause in clauses.iter_ptr() {
                let quals = PgList::<pg_sys::RestrictInfo>::from_pg((*clause).indexquals);
                for qual in quals.iter_ptr() {
                    let node: *mut pg_sys::Node = (*qual).clause.cast();
                    let strategy = if pgrx::is_a(node, pg_sys::NodeTag::T_OpExpr) {
                        let operator = (*node.cast::<pg_sys::OpExpr>()).opno;
                        pg_sys::get_op_opfamily_strategy(operator, family)
                    } else {
                        0
                    };
                    found.push((strategy, self.argument(node)));
                }
            }
        }
        found
    }

    fn argument(&self, operator: *mut pg_sys::Node) -> PlannedArgument {
        // SAFETY: a node of the planner. `pgrx::is_a` looks at its tag.
        unsafe {
            if !pgrx::is_a(operator, pg_sys::NodeTag::T_OpExpr) {
                return PlannedArgument(std::ptr::null_mut());
            }
            let arguments =
                PgList::<pg_sys::Node>::from_pg((*operator.cast::<pg_sys::OpExpr>()).args);
            match arguments.get_ptr(1) {
                // parameters whose values are known count as constants
                Some(node) => PlannedArgument(pg_sys::estimate_expression_value(self.root, node)),
                None => PlannedArgument(std::ptr::null_mut()),
            }
        }
    }
}

/// An argument of an operator, as the planner knows it. The node lives as long as the planner's
/// memory context.
#[derive(Clone, Copy)]
pub struct PlannedArgument(*mut pg_sys::Node);

impl PlannedArgument {
    /// Returns the value of a constant that is not NULL.
    pub fn constant(&self) -> Option<Value<'_>> {
        // SAFETY: null or a node.
        unsafe { constant(self.0) }
    }

    /// Returns the value of a constant argument of a function call.
    pub fn constant_of_call(&self, number: usize) -> Option<Value<'_>> {
        // SAFETY: null or a node.
        unsafe {
            if self.0.is_null() || !pgrx::is_a(self.0, pg_sys::NodeTag::T_FuncExpr) {
                return None;
            }
            let call = self.0.cast::<pg_sys::FuncExpr>();
            let arguments = PgList::<pg_sys::Node>::from_pg((*call).args);
            constant(arguments.get_ptr(number)?)
        }
    }

    /// Returns true if both are the same expression.
    pub fn equals(&self, other: &Self) -> bool {
        // SAFETY: null or nodes.
        unsafe { pg_sys::equal(self.0.cast(), other.0.cast()) }
    }
}

/// Returns the value of a node that is a constant and not NULL.
///
/// # Safety
/// Null, or a node that lives as long as `'a`.
pub unsafe fn constant<'a>(node: *mut pg_sys::Node) -> Option<Value<'a>> {
    // SAFETY: the caller's promise.
    unsafe {
        if node.is_null() || !pgrx::is_a(node, pg_sys::NodeTag::T_Const) {
            return None;
        }
        let constant = &*node.cast::<pg_sys::Const>();
        let value_type = ValueType::of(constant.consttype);
        (!constant.constisnull).then(|| Value::from_raw(constant.constvalue, value_type))
    }
}
