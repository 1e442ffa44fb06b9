//! Which of several partial indexes the conditions of a query mean.
#![allow(unsafe_code)] // the planner's nodes

use std::cell::Cell;

use pgrx::{PgList, pg_sys};

use super::column::ColumnIndex;

thread_local! {
    /// Conditions are being simplified, so that operators in them need no index.
    static SIMPLIFIES: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while conditions are simplified in order to find an index.
pub fn is_simplifying() -> bool {
    SIMPLIFIES.get()
}

/// Sets the mark until it is dropped, also by an ERROR.
struct Simplifies;

impl Simplifies {
    fn begin() -> Self {
        SIMPLIFIES.set(true);
        Self
    }
}

impl Drop for Simplifies {
    fn drop(&mut self) {
        SIMPLIFIES.set(false);
    }
}

/// Returns the first of some indexes whose condition the conditions of a query imply.
///
/// # Safety
/// The planner's state, a query, and the number of the table that the indexes are on.
pub unsafe fn first_implied(
    root: *mut pg_sys::PlannerInfo,
    query: *mut pg_sys::Query,
    number: i32,
    indexes: &[ColumnIndex],
) -> Option<ColumnIndex> {
    // SAFETY: the caller's promise. The lists are copies.
    unsafe {
        let _mark = Simplifies::begin();
        let mut conditions = std::ptr::null_mut();
        add_conditions(root, &mut conditions, (*query).jointree.cast());
        let is_implied = |index: &&ColumnIndex| {
            let predicate = pg_sys::copyObjectImpl(index.predicate.cast()).cast();
            pg_sys::ChangeVarNodes(predicate, 1, number, 0);
            pg_sys::predicate_implied_by(predicate.cast(), conditions, false)
        };
        indexes.iter().find(is_implied).copied()
    }
}

/// Adds the conditions that all rows of a FROM list satisfy.
///
/// # Safety
/// The planner's state, and null or a node of a FROM list.
unsafe fn add_conditions(
    root: *mut pg_sys::PlannerInfo,
    conditions: &mut *mut pg_sys::List,
    node: *mut pg_sys::Node,
) {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        if node.is_null() {
            return;
        }
        let quals = match (*node).type_ {
            pg_sys::NodeTag::T_FromExpr => {
                let level = &*node.cast::<pg_sys::FromExpr>();
                for item in PgList::<pg_sys::Node>::from_pg(level.fromlist).iter_ptr() {
                    add_conditions(root, conditions, item);
                }
                level.quals
            }
            pg_sys::NodeTag::T_JoinExpr => {
                let join = &*node.cast::<pg_sys::JoinExpr>();
                match join.jointype {
                    pg_sys::JoinType::JOIN_INNER => add_conditions(root, conditions, join.rarg),
                    pg_sys::JoinType::JOIN_LEFT => {
                        return add_conditions(root, conditions, join.larg);
                    }
                    _ => return,
                }
                add_conditions(root, conditions, join.larg);
                join.quals
            }
            _ => return,
        };
        if quals.is_null() {
            return;
        }
        let quals: *mut pg_sys::Node = pg_sys::copyObjectImpl(quals.cast()).cast();
        let list = if pgrx::is_a(quals, pg_sys::NodeTag::T_List) {
            quals.cast() // the planner has prepared them
        } else {
            let simple = pg_sys::eval_const_expressions(root, quals);
            pg_sys::make_ands_implicit(pg_sys::canonicalize_qual(simple.cast(), false))
        };
        *conditions = pg_sys::list_concat(*conditions, list);
    }
}
