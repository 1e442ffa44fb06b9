//! When the planner is offered the plan, and what it costs.
#![allow(unsafe_code)] // the planner's nodes

use pgrx::{PgList, is_a, pg_guard, pg_sys};

use super::{NAME, node};
use crate::{
    index::{
        am::{AccessMethod, cost::is_possible},
        bm25::{Bm25, opclass::Strategy},
    },
    pg::{
        custom_scan::Methods,
        planner::{any_node, paths_of_indexes},
    },
    settings,
};

/// Cost of each row that is counted, in units of `cpu_operator_cost`. Measured in memory: 10
/// nanoseconds.
const COUNTED_COST: f64 = 1.0;
/// Cost of each row that is visited, in the same units.
const VISITED_COST: f64 = 80.0;

static METHODS: Methods<pg_sys::CustomPathMethods> = Methods(pg_sys::CustomPathMethods {
    CustomName: NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// Adds a path of the groups of a level if the level only counts the rows of a table that match a
/// query of an index.
///
/// # Safety
/// The planner's state, the relation that has the level's rows, and its groups.
pub unsafe fn add(
    root: *mut pg_sys::PlannerInfo,
    rows: *mut pg_sys::RelOptInfo,
    groups: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: the caller's promise. Paths live as long as the planner's memory context.
    unsafe {
        if !counts_rows(root, rows) || counts_of((*groups).reltarget).is_none() {
            return;
        }
        let Some(scan) = index_path(root, rows) else {
            return;
        };
        let table = &*rows;
        let matching = table.rows.max(1.0);
        let visited = (1.0 - table.allvisfrac).clamp(0.0, 1.0) * matching;
        let pages = (f64::from(table.pages) * visited / table.tuples.max(1.0)).ceil();
        let operators = COUNTED_COST * matching + VISITED_COST * visited;
        let cost = (*scan).path.startup_cost
            + pg_sys::cpu_operator_cost * operators
            + pg_sys::seq_page_cost * pages;

        let size = size_of::<pg_sys::CustomPath>();
        let path: *mut pg_sys::CustomPath = pg_sys::palloc0(size).cast();
        (*path).path.type_ = pg_sys::NodeTag::T_CustomPath;
        (*path).path.pathtype = pg_sys::NodeTag::T_CustomScan;
        (*path).path.parent = groups;
        (*path).path.pathtarget = (*groups).reltarget;
        (*path).path.rows = 1.0;
        (*path).path.startup_cost = cost;
        (*path).path.total_cost = cost;
        (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
        (*path).custom_private = pg_sys::lappend(std::ptr::null_mut(), scan.cast());
        (*path).methods = &raw const METHODS.0;
        pg_sys::add_path(groups, path.cast());
    }
}

/// Returns true if a level has one group of the rows of a table.
///
/// # Safety
/// See [`add`].
unsafe fn counts_rows(root: *mut pg_sys::PlannerInfo, rows: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: the caller's promise. A relation of a table has an entry in the array.
    unsafe {
        let (level, rows) = (&*(*root).parse, &*rows);
        if !level.hasAggs
            || !level.groupClause.is_null()
            || !level.groupingSets.is_null()
            || !level.havingQual.is_null()
            || level.hasTargetSRFs
            || rows.reloptkind != pg_sys::RelOptKind::RELOPT_BASEREL
            || rows.rtekind != pg_sys::RTEKind::RTE_RELATION
            || !rows.lateral_relids.is_null()
            || (*root).qual_security_level > 0
            || !settings::enable_count_scan()
            || !pg_sys::enable_indexscan
            || !pg_sys::enable_indexonlyscan
        {
            return false;
        }
        let entry = &**(*root).simple_rte_array.add(rows.relid as usize);
        !entry.inh && entry.tablesample.is_null()
    }
}

/// Returns the aggregates of a target if each of them is the number of rows: `count(*)`, or
/// `count(1)`.
///
/// # Safety
/// The target of a level's groups.
unsafe fn counts_of(target: *mut pg_sys::PathTarget) -> Option<*mut pg_sys::List> {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        let mut counts = std::ptr::null_mut();
        let has_others = any_node((*target).exprs.cast(), |node| {
            if !is_a(node, pg_sys::NodeTag::T_Aggref) {
                return false;
            }
            counts = pg_sys::list_append_unique(counts, node.cast());
            !is_count(&*node.cast::<pg_sys::Aggref>())
        });
        (!has_others && !counts.is_null()).then_some(counts)
    }
}

/// # Safety
/// An aggregate of the planner's.
unsafe fn is_count(aggregate: &pg_sys::Aggref) -> bool {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        if !aggregate.aggfilter.is_null()
            || !aggregate.aggdistinct.is_null()
            || !aggregate.aggorder.is_null()
            || aggregate.agglevelsup > 0
        {
            return false;
        }
        match aggregate.aggfnoid.to_u32() {
            pg_sys::F_COUNT_ => true,
            pg_sys::F_COUNT_ANY => {
                let argument = PgList::<pg_sys::TargetEntry>::from_pg(aggregate.args);
                argument.get_ptr(0).is_some_and(|argument| {
                    let value: *mut pg_sys::Node = (*argument).expr.cast();
                    is_a(value, pg_sys::NodeTag::T_Const)
                        && !(*value.cast::<pg_sys::Const>()).constisnull
                })
            }
            _ => false,
        }
    }
}

/// Returns the path by which an index finds the rows of a table, if it has the only condition.
///
/// # Safety
/// See [`add`].
unsafe fn index_path(
    root: *mut pg_sys::PlannerInfo,
    rows: *mut pg_sys::RelOptInfo,
) -> Option<*mut pg_sys::IndexPath> {
    // SAFETY: the caller's promise; the tags say of which types nodes are. The planner is asked
    // again, for the indexes that can answer.
    unsafe {
        let mut indexes = std::ptr::null_mut();
        let known = PgList::<pg_sys::IndexOptInfo>::from_pg((*rows).indexlist);
        for index in known.iter_ptr() {
            if pg_sys::list_length((*index).indrestrictinfo) == 1
                && (*index).relam == pg_sys::get_am_oid(Bm25::NAME.as_ptr(), true)
            {
                // its bitmap must not be preferred
                let copy: *mut pg_sys::IndexOptInfo =
                    pg_sys::palloc(size_of::<pg_sys::IndexOptInfo>()).cast();
                std::ptr::copy_nonoverlapping(index, copy, 1);
                (*copy).amhasgetbitmap = false;
                indexes = pg_sys::lappend(indexes, copy.cast());
            }
        }
        if indexes.is_null() {
            return None;
        }
        let paths = paths_of_indexes(root, rows, indexes);
        let is_index = |path: &*mut pg_sys::Path| {
            is_a((*path).cast(), pg_sys::NodeTag::T_IndexPath)
                && (**path).param_info.is_null()
                && is_possible((**path).startup_cost)
        };
        paths
            .iter_ptr()
            .filter(is_index)
            .map(|path| path.cast::<pg_sys::IndexPath>())
            .find(|path| condition_of(&**path).is_some())
    }
}

/// Returns the condition that an index finds rows by, if it has one and no order.
///
/// # Safety
/// The planner's path of an index of `rag_bm25`.
unsafe fn condition_of(path: &pg_sys::IndexPath) -> Option<*mut pg_sys::OpExpr> {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        let clauses = PgList::<pg_sys::IndexClause>::from_pg(path.indexclauses);
        let clause = &*clauses.get_ptr(0)?;
        let quals = PgList::<pg_sys::RestrictInfo>::from_pg(clause.indexquals);
        let condition: *mut pg_sys::Node = (*quals.get_ptr(0)?).clause.cast();
        let is_only = clauses.len() == 1
            && quals.len() == 1
            && !clause.lossy
            && path.indexorderbys.is_null()
            && is_a(condition, pg_sys::NodeTag::T_OpExpr);
        if !is_only {
            return None;
        }
        let (condition, family) = (
            condition.cast::<pg_sys::OpExpr>(),
            *(*path.indexinfo).opfamily,
        );
        let strategy = pg_sys::get_op_opfamily_strategy((*condition).opno, family);
        (strategy == Strategy::Matches as i32).then_some(condition)
    }
}

/// `PlanCustomPath`
#[pg_guard]
unsafe extern "C-unwind" fn plan(
    _root: *mut pg_sys::PlannerInfo,
    groups: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    columns: *mut pg_sys::List,
    _clauses: *mut pg_sys::List,
    _children: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: a path that `add` has added.
    unsafe {
        let none: *mut pg_sys::List = std::ptr::null_mut();
        let found = PgList::<pg_sys::IndexPath>::from_pg((*path).custom_private);
        let found = &*found.get_ptr(0).unwrap_or(none.cast());
        let condition = condition_of(found).unwrap_or(none.cast());
        // What the node returns: the counts, and then what the condition is about, for EXPLAIN.
        let mut returned = none;
        let counts =
            PgList::<pg_sys::Node>::from_pg(counts_of((*groups).reltarget).unwrap_or(none));
        let subject = pg_sys::list_nth((*condition).args, 0).cast();
        for expression in counts.iter_ptr().chain([subject]) {
            let number = pg_sys::list_length(returned) as pg_sys::AttrNumber + 1;
            let copy = pg_sys::copyObjectImpl(expression.cast()).cast();
            let entry = pg_sys::makeTargetEntry(copy, number, none.cast(), false);
            returned = pg_sys::lappend(returned, entry.cast());
        }
        let size = size_of::<pg_sys::CustomScan>();
        let scan: *mut pg_sys::CustomScan = pg_sys::palloc0(size).cast();
        (*scan).scan.plan.type_ = pg_sys::NodeTag::T_CustomScan;
        (*scan).scan.plan.targetlist = columns;
        (*scan).scan.scanrelid = (*found.path.parent).relid;
        (*scan).flags = (*path).flags;
        (*scan).custom_scan_tlist = returned;
        (*scan).custom_exprs = pg_sys::lappend(none, condition.cast());
        (*scan).custom_private = pg_sys::lappend_oid(none, (*found.indexinfo).indexoid);
        (*scan).methods = node::scan_methods();
        scan.cast()
    }
}
