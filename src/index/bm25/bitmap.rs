//! The cost of bitmaps.
//!
//! The planner charges the conditions of a bitmap for each row, as if all were checked again. They
//! are only if `work_mem` is too small for the places of rows. Making words of texts costs more
//! than all else, so a bitmap of this index would seem to cost a hundred times what it does. A path
//! without these costs is added, unless rows need their score, which only other scans have. Without
//! it, the planner would also compile small statements.
#![allow(unsafe_code)] // the planner's nodes

use pgrx::{PgList, is_a, pg_sys};

use super::{Bm25, level::has_order_operator};
use crate::index::am::AccessMethod;

/// Adds paths of a relation.
///
/// # Safety
/// The planner's state, and a relation that it has made its own paths for.
pub unsafe fn add_paths(root: *mut pg_sys::PlannerInfo, relation: *mut pg_sys::RelOptInfo) {
    // SAFETY: the caller's promise; the tags say of which types nodes are. A path that is not added
    // lives as long as the planner's memory context.
    unsafe {
        let paths: Vec<*mut pg_sys::Path> = PgList::from_pg((*relation).pathlist)
            .iter_ptr()
            .filter(|path: &*mut pg_sys::Path| {
                let node: *mut pg_sys::Node = (*path).cast();
                is_a(node, pg_sys::NodeTag::T_BitmapHeapPath)
            })
            .collect();
        let targets = (*(*root).parse).targetList;
        let restrictions = (*relation).baserestrictinfo;
        if paths.is_empty()
            || has_order_operator(targets.cast())
            || PgList::<pg_sys::RestrictInfo>::from_pg(restrictions)
                .iter_ptr()
                .any(|restriction| has_order_operator((*restriction).clause.cast()))
        {
            return;
        }
        for path in paths {
            let path = path.cast::<pg_sys::BitmapHeapPath>();
            let mut found = vec![];
            add_conditions(&mut found, (*path).bitmapqual);
            if found.is_empty() {
                continue;
            }
            let mut known = std::ptr::null_mut();
            let all = PgList::<pg_sys::RestrictInfo>::from_pg((*relation).baserestrictinfo);
            for condition in all
                .iter_ptr()
                .filter(|condition| is_of(condition.cast(), &found))
            {
                known = pg_sys::lappend(known, condition.cast());
            }
            if known.is_null() {
                continue;
            }
            let mut conditions = pg_sys::QualCost::default();
            pg_sys::cost_qual_eval(&mut conditions, known, root);
            let (mut cost, mut selectivity) = (0.0, 0.0);
            pg_sys::cost_bitmap_tree_node((*path).bitmapqual, &mut cost, &mut selectivity);
            let rows = (selectivity * (*relation).tuples).round().max(1.0);
            let cheaper: *mut pg_sys::BitmapHeapPath =
                pg_sys::palloc(size_of::<pg_sys::BitmapHeapPath>()).cast();
            std::ptr::copy_nonoverlapping(path, cheaper, 1);
            let total = (*path).path.total_cost - conditions.per_tuple * rows;
            (*cheaper).path.total_cost = total.max((*path).path.startup_cost);
            pg_sys::add_path(relation, cheaper.cast());
        }
    }
}

/// Adds the conditions that indexes of `rag_bm25` have in a bitmap.
///
/// # Safety
/// A part of a bitmap path.
unsafe fn add_conditions(found: &mut Vec<*mut pg_sys::RestrictInfo>, part: *mut pg_sys::Path) {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        let parts = match (*part).type_ {
            pg_sys::NodeTag::T_IndexPath => {
                let path = &*part.cast::<pg_sys::IndexPath>();
                if (*path.indexinfo).relam == pg_sys::get_am_oid(Bm25::NAME.as_ptr(), true) {
                    let clauses = PgList::<pg_sys::IndexClause>::from_pg(path.indexclauses);
                    found.extend(clauses.iter_ptr().map(|clause| (*clause).rinfo));
                }
                return;
            }
            pg_sys::NodeTag::T_BitmapAndPath => (*part.cast::<pg_sys::BitmapAndPath>()).bitmapquals,
            pg_sys::NodeTag::T_BitmapOrPath => (*part.cast::<pg_sys::BitmapOrPath>()).bitmapquals,
            _ => return,
        };
        for part in PgList::<pg_sys::Path>::from_pg(parts).iter_ptr() {
            add_conditions(found, part);
        }
    }
}

/// Returns true if a condition is one of a bitmap, or has one of them as an arm of its OR. Then a
/// bitmap has all its arms.
///
/// # Safety
/// A condition of the planner's, or a part of it.
unsafe fn is_of(condition: *mut pg_sys::Node, found: &[*mut pg_sys::RestrictInfo]) -> bool {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        if is_a(condition, pg_sys::NodeTag::T_BoolExpr) {
            let arms = (*condition.cast::<pg_sys::BoolExpr>()).args;
            let arms = PgList::<pg_sys::Node>::from_pg(arms);
            return arms.iter_ptr().any(|arm| is_of(arm, found));
        }
        if !is_a(condition, pg_sys::NodeTag::T_RestrictInfo) {
            return false;
        }
        let condition = condition.cast::<pg_sys::RestrictInfo>();
        let arms: *mut pg_sys::Node = (*condition).orclause.cast();
        found.contains(&condition) || !arms.is_null() && is_of(arms, found)
    }
}
