//! `ORDER BY -(column <@> query) DESC`: the best rows first, by a positive score.
//!
//! An index path orders by `column <@> query`, which is the same order, but the planner does not
//! know that. So it is asked for paths of that order, which get the order that is wanted. Rows
//! whose score is NULL would come first, but a search has none.
#![allow(unsafe_code)] // the planner's nodes

use pgrx::{PgList, pg_sys};

use super::{Bm25, level};
use crate::index::am::order;

/// The operator `=` of double precision.
const EQUAL: u32 = 670;

/// Returns the operator `<@>` that a level orders by first if it orders by its negative.
///
/// # Safety
/// The planner's state.
unsafe fn negated_search(root: *mut pg_sys::PlannerInfo) -> Option<*mut pg_sys::OpExpr> {
    // SAFETY: the caller's promise.
    unsafe {
        let (first, is_negated) = order::sort_keys(&*(*root).parse).next()?;
        if !is_negated {
            return None;
        }
        let search = level::search_of(root)?;
        pg_sys::equal(search.cast(), first.cast()).then_some(search)
    }
}

/// Makes the operator known to the planner as something that rows may be ordered by, before it
/// looks at partitions.
///
/// # Safety
/// The planner's state, while it reads the relations of a level.
pub unsafe fn prepare(root: *mut pg_sys::PlannerInfo) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(search) = negated_search(root) {
            class_of(root, search, true);
        }
    }
}

/// Returns the planner's class of expressions that are equal to an operator, or null.
///
/// # Safety
/// The planner's state, and an operator of its level.
unsafe fn class_of(
    root: *mut pg_sys::PlannerInfo,
    operator: *mut pg_sys::OpExpr,
    creates: bool,
) -> *mut pg_sys::EquivalenceClass {
    // SAFETY: the caller's promise.
    unsafe {
        let none = std::ptr::null_mut();
        let families = pg_sys::get_mergejoin_opfamilies(pg_sys::Oid::from(EQUAL));
        pg_sys::get_eclass_for_sort_expr(
            root,
            operator.cast(),
            #[cfg(feature = "pg15")]
            none,
            families,
            pg_sys::FLOAT8OID,
            pg_sys::InvalidOid,
            0,
            none,
            creates,
        )
    }
}

/// Adds the paths of a relation.
///
/// # Safety
/// The planner's state, and a relation that it has made its own paths for.
pub unsafe fn add_paths(root: *mut pg_sys::PlannerInfo, relation: *mut pg_sys::RelOptInfo) {
    // SAFETY: the caller's promise.
    unsafe {
        let wanted = PgList::<pg_sys::PathKey>::from_pg((*root).query_pathkeys);
        let Some(first) = wanted.get_ptr(0) else {
            return;
        };
        if !is_descending(&*first) || order::ordering_indexes::<Bm25>(relation).next().is_none() {
            return;
        }
        let Some(search) = negated_search(root) else {
            return;
        };
        let is_negative = |expression: *mut pg_sys::Node| {
            let (expression, is_negated) = order::without_sign(expression);
            is_negated && pg_sys::equal(expression.cast(), search.cast())
        };
        let class = class_of(root, search, false);
        if class.is_null() || !order::expressions_of(&*first).any(is_negative) {
            return;
        }
        let family = (*first).pk_opfamily;
        #[cfg(not(feature = "pg18"))]
        let ascending = pg_sys::BTLessStrategyNumber as i32;
        #[cfg(feature = "pg18")]
        let ascending = pg_sys::CompareType::COMPARE_LT;
        let key = pg_sys::make_canonical_pathkey(root, class, family, ascending, false);
        order::add_paths_of_key::<Bm25>(root, relation, key, first);
    }
}

/// Returns true if a key puts the greatest values first.
fn is_descending(key: &pg_sys::PathKey) -> bool {
    #[cfg(not(feature = "pg18"))]
    return key.pk_strategy == pg_sys::BTGreaterStrategyNumber as i32;
    #[cfg(feature = "pg18")]
    return key.pk_cmptype == pg_sys::CompareType::COMPARE_GT;
}
