//! When the planner is offered the plan, and what it costs.
#![allow(unsafe_code)] // the planner's nodes

use std::ffi::CStr;

use pgrx::{PgList, is_a, pg_guard, pg_sys};

use super::{Methods, NAME, node};
use crate::{
    index::{
        am::{
            AccessMethod,
            cost::{is_possible, with_planned_scan},
        },
        bm25::{Bm25, cost::filtered_cost},
    },
    pg::planner::paths_of_indexes,
    settings,
};

static METHODS: Methods<pg_sys::CustomPathMethods> = Methods(pg_sys::CustomPathMethods {
    CustomName: NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// Adds a path of a relation if its rows are wanted in the order of a `rag_bm25` index, and another
/// index finds the rows that satisfy a filter.
///
/// # Safety
/// Called by the planner, for a relation that it has made its own paths for.
pub unsafe fn add(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: the caller's promise. Paths live as long as the planner's memory context.
    unsafe {
        if (*entry).rtekind != pg_sys::RTEKind::RTE_RELATION
            || (*relation).baserestrictinfo.is_null()
            || !(*relation).lateral_relids.is_null()
            || !settings::enable_filtered_scan()
            || !pg_sys::enable_indexscan
            || !pg_sys::enable_bitmapscan
        {
            return;
        }
        let Some(ordered) = ordered_path(relation) else {
            return;
        };
        let others = other_than((*relation).baserestrictinfo, &*ordered);
        if others.is_null() {
            return; // nothing to filter by
        }
        let Some(bitmap) = bitmap_path(root, relation) else {
            return;
        };
        let (mut bitmap_cost, mut selectivity) = (0.0, 0.0);
        pg_sys::cost_bitmap_tree_node((*bitmap).bitmapqual, &mut bitmap_cost, &mut selectivity);
        let given = (selectivity * (*relation).tuples).max(1.0);
        let cost = with_planned_scan(root, ordered, |scan| filtered_cost(scan, given));
        let Some((startup, total)) = cost else {
            return;
        };
        let mut conditions = pg_sys::QualCost::default();
        pg_sys::cost_qual_eval(&mut conditions, others, root);
        let per_row = pg_sys::cpu_tuple_cost + conditions.per_tuple;
        let target = (*relation).reltarget;
        let before = bitmap_cost + conditions.startup + (*target).cost.startup;
        let rows = (*ordered).path.rows;

        let size = size_of::<pg_sys::CustomPath>();
        let path: *mut pg_sys::CustomPath = pg_sys::palloc0(size).cast();
        (*path).path.type_ = pg_sys::NodeTag::T_CustomPath;
        (*path).path.pathtype = pg_sys::NodeTag::T_CustomScan;
        (*path).path.parent = relation;
        (*path).path.pathtarget = target;
        (*path).path.rows = rows;
        (*path).path.startup_cost = before + startup;
        (*path).path.total_cost = before + total + (per_row + (*target).cost.per_tuple) * rows;
        (*path).path.pathkeys = (*ordered).path.pathkeys;
        #[cfg(not(any(feature = "pg13", feature = "pg14")))]
        {
            (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
        }
        (*path).custom_paths = pg_sys::lappend(std::ptr::null_mut(), bitmap.cast());
        (*path).custom_private = pg_sys::lappend(std::ptr::null_mut(), ordered.cast());
        (*path).methods = &raw const METHODS.0;
        pg_sys::add_path(relation, path.cast());
    }
}

/// Returns the conditions that are not those of a path of an index.
///
/// # Safety
/// A list of conditions of the planner's, and a path.
unsafe fn other_than(conditions: *mut pg_sys::List, path: &pg_sys::IndexPath) -> *mut pg_sys::List {
    // SAFETY: the caller's promise.
    unsafe {
        let clauses = PgList::<pg_sys::IndexClause>::from_pg(path.indexclauses);
        let known: Vec<_> = clauses.iter_ptr().map(|clause| (*clause).rinfo).collect();
        let mut others = std::ptr::null_mut();
        let all = PgList::<pg_sys::RestrictInfo>::from_pg(conditions);
        for condition in all
            .iter_ptr()
            .filter(|condition| !known.contains(condition))
        {
            others = pg_sys::lappend(others, condition.cast());
        }
        others
    }
}

/// Returns the planner's own path that is ordered by an index of `rag_bm25`.
///
/// # Safety
/// A relation of the planner's.
unsafe fn ordered_path(relation: *mut pg_sys::RelOptInfo) -> Option<*mut pg_sys::IndexPath> {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        let paths = PgList::<pg_sys::Path>::from_pg((*relation).pathlist);
        paths
            .iter_ptr()
            .filter(|path| is_a((*path).cast(), pg_sys::NodeTag::T_IndexPath))
            .map(|path| path.cast::<pg_sys::IndexPath>())
            .find(|path| {
                let path = &**path;
                pg_sys::list_length(path.indexorderbys) == 1
                    && path.path.param_info.is_null()
                    && is_possible(path.path.startup_cost)
                    && is_bm25(path.indexinfo)
                    && search_operators(path).is_some()
            })
    }
}

/// # Safety
/// An index of the planner's.
unsafe fn is_bm25(index: *mut pg_sys::IndexOptInfo) -> bool {
    // SAFETY: the caller's promise; null or a C string.
    unsafe {
        let name = pg_sys::get_am_name((*index).relam);
        !name.is_null() && CStr::from_ptr(name) == Bm25::NAME
    }
}

/// Returns the operator that a path orders by, then its conditions.
///
/// # Safety
/// The planner's path of an index of `rag_bm25`.
unsafe fn search_operators(path: &pg_sys::IndexPath) -> Option<Vec<*mut pg_sys::OpExpr>> {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        let mut found: Vec<*mut pg_sys::Node> =
            PgList::from_pg(path.indexorderbys).iter_ptr().collect();
        let clauses = PgList::<pg_sys::IndexClause>::from_pg(path.indexclauses);
        for clause in clauses.iter_ptr() {
            let quals = PgList::<pg_sys::RestrictInfo>::from_pg((*clause).indexquals);
            found.extend(quals.iter_ptr().map(|qual| (*qual).clause.cast()));
        }
        found
            .into_iter()
            .map(|node: *mut pg_sys::Node| {
                let is_operator = is_a(node, pg_sys::NodeTag::T_OpExpr)
                    && pg_sys::list_length((*node.cast::<pg_sys::OpExpr>()).args) == 2;
                is_operator.then(|| node.cast())
            })
            .collect()
    }
}

/// Returns the cheapest path that reads the rows that satisfy conditions by bitmaps of indexes.
///
/// The planner's own is among its paths only if no other is cheaper. So the planner is asked again,
/// for a copy of the relation whose indexes can only make bitmaps.
///
/// # Safety
/// A relation of the planner's.
unsafe fn bitmap_path(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
) -> Option<*mut pg_sys::BitmapHeapPath> {
    // SAFETY: the caller's promise. The paths keep pointers to the copies, which live as long as
    // the planner's memory context.
    unsafe {
        let none: *mut pg_sys::List = std::ptr::null_mut();
        let mut indexes = none;
        let known = PgList::<pg_sys::IndexOptInfo>::from_pg((*relation).indexlist);
        for index in known.iter_ptr().filter(|index| (**index).amhasgetbitmap) {
            let copy: *mut pg_sys::IndexOptInfo =
                pg_sys::palloc(size_of::<pg_sys::IndexOptInfo>()).cast();
            std::ptr::copy_nonoverlapping(index, copy, 1);
            (*copy).amhasgettuple = false;
            indexes = pg_sys::lappend(indexes, copy.cast());
        }
        if indexes.is_null() {
            return None;
        }
        paths_of_indexes(root, relation, indexes)
            .iter_ptr()
            .filter(|path| is_a((*path).cast(), pg_sys::NodeTag::T_BitmapHeapPath))
            .filter(|path| (**path).param_info.is_null())
            .min_by(|a, b| (**a).total_cost.total_cmp(&(**b).total_cost))
            .map(|path| path.cast())
    }
}

/// `PlanCustomPath`
#[pg_guard]
unsafe extern "C-unwind" fn plan(
    _root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    columns: *mut pg_sys::List,
    clauses: *mut pg_sys::List,
    children: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: a path that `add` has added, and the plan of its bitmap heap path.
    unsafe {
        let none: *mut pg_sys::List = std::ptr::null_mut();
        let ordered = PgList::<pg_sys::IndexPath>::from_pg((*path).custom_private);
        let ordered = ordered.get_ptr(0).unwrap_or(none.cast());
        let size = size_of::<pg_sys::CustomScan>();
        let scan: *mut pg_sys::CustomScan = pg_sys::palloc0(size).cast();
        (*scan).scan.plan.type_ = pg_sys::NodeTag::T_CustomScan;
        (*scan).scan.plan.targetlist = columns;
        let others = other_than(clauses, &*ordered);
        (*scan).scan.plan.qual = pg_sys::extract_actual_clauses(others, false);
        (*scan).scan.scanrelid = (*relation).relid;
        (*scan).flags = (*path).flags;
        let heap_scan = PgList::<pg_sys::Plan>::from_pg(children).get_ptr(0);
        (*scan).custom_plans =
            pg_sys::lappend(none, bitmap_of(heap_scan.unwrap_or(none.cast())).cast());
        for operator in search_operators(&*ordered).unwrap_or_default() {
            (*scan).custom_exprs = pg_sys::lappend((*scan).custom_exprs, operator.cast());
        }
        (*scan).custom_private = pg_sys::lappend_oid(none, (*(*ordered).indexinfo).indexoid);
        (*scan).methods = node::scan_methods();
        scan.cast()
    }
}

/// Returns the plan of the bitmap of a bitmap heap scan. A condition that has no column may have
/// added a node above the scan.
///
/// # Safety
/// A plan of a bitmap heap path.
unsafe fn bitmap_of(mut plan: *mut pg_sys::Plan) -> *mut pg_sys::Plan {
    // SAFETY: the caller's promise.
    unsafe {
        while !plan.is_null() && !is_a(plan.cast(), pg_sys::NodeTag::T_BitmapHeapScan) {
            plan = (*plan).lefttree;
        }
        if plan.is_null() {
            crate::error::Error::internal("a bitmap heap scan has no plan").raise()
        } else {
            (*plan).lefttree
        }
    }
}
