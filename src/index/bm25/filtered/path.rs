//! When the planner is offered the plan, and what it costs.
#![allow(unsafe_code)] // the planner's nodes

use pgrx::{PgList, is_a, pg_guard, pg_sys};

use super::{NAME, node};
use crate::{
    index::{
        am::{cost::with_planned_scan, order::ordered_paths},
        bm25::{Bm25, cost::filtered_cost},
    },
    pg::{
        custom_scan::{Methods, PathCost, new_path, new_scan},
        planner::bitmap_path,
    },
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
        let ordered =
            ordered_paths::<Bm25>(relation).find(|path| search_operators(&**path).is_some());
        let Some(ordered) = ordered else {
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
        let per_row = per_row + (*target).cost.per_tuple;
        let cost = PathCost {
            startup: before + startup,
            total: before + total + per_row * (*ordered).path.rows,
        };
        let private = pg_sys::lappend(std::ptr::null_mut(), ordered.cast());
        let path = new_path(
            &*ordered,
            cost,
            bitmap.cast(),
            private,
            &raw const METHODS.0,
        );
        pg_sys::add_path(relation, path);
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
        let others = other_than(clauses, &*ordered);
        let scan = new_scan(&*relation, &*path, columns, others, node::scan_methods());
        let heap_scan = PgList::<pg_sys::Plan>::from_pg(children).get_ptr(0);
        (*scan).custom_plans =
            pg_sys::lappend(none, bitmap_of(heap_scan.unwrap_or(none.cast())).cast());
        for operator in search_operators(&*ordered).unwrap_or_default() {
            (*scan).custom_exprs = pg_sys::lappend((*scan).custom_exprs, operator.cast());
        }
        (*scan).custom_private = pg_sys::lappend_oid(none, (*(*ordered).indexinfo).indexoid);
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
