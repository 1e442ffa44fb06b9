//! In which order a level of a statement wants its rows: the keys of its ORDER BY, and whether a
//! path of an index has that order.
//!
//! An index that orders by an operator does not return all rows: not those with NULL, and a keyword
//! index only those that match. That is right for ORDER BY. But the planner may also want an order
//! for itself, for GROUP BY, DISTINCT or a window function. Then no row may be missing.
#![allow(unsafe_code)] // the planner's nodes

use pgrx::{PgList, is_a, pg_sys};

use super::{AccessMethod, cost::is_possible};
use crate::pg::planner::paths_of_indexes;

/// Returns the expressions of a query's ORDER BY: without unary minus signs, and true if the order
/// is that of the negative.
///
/// # Safety
/// A query of the parser's or planner's.
pub unsafe fn sort_keys(query: &pg_sys::Query) -> impl Iterator<Item = (*mut pg_sys::Node, bool)> {
    // SAFETY: the caller's promise. Each clause has an entry in the target list.
    unsafe {
        let clauses = PgList::<pg_sys::SortGroupClause>::from_pg(query.sortClause);
        (0..clauses.len()).filter_map(move |number| {
            let clause = clauses.get_ptr(number)?;
            let entry = pg_sys::get_sortgroupclause_tle(clause, query.targetList);
            Some(without_sign((*entry).expr.cast()))
        })
    }
}

/// Returns an expression without unary minus signs of double precision, and true if their number is
/// odd.
///
/// # Safety
/// A node of the parser's or planner's.
pub unsafe fn without_sign(mut node: *mut pg_sys::Node) -> (*mut pg_sys::Node, bool) {
    const MINUS: u32 = pg_sys::F_FLOAT8UM;
    let mut is_negated = false;
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        loop {
            let (function, arguments) = match (*node).type_ {
                pg_sys::NodeTag::T_OpExpr => {
                    let operator = &*node.cast::<pg_sys::OpExpr>();
                    (operator.opfuncid, operator.args)
                }
                pg_sys::NodeTag::T_FuncExpr => {
                    let call = &*node.cast::<pg_sys::FuncExpr>();
                    (call.funcid, call.args)
                }
                _ => return (node, is_negated),
            };
            let argument = PgList::<pg_sys::Node>::from_pg(arguments).get_ptr(0);
            match argument {
                Some(argument) if function.to_u32() == MINUS => node = argument,
                _ => return (node, is_negated),
            }
            is_negated = !is_negated;
        }
    }
}

/// Returns true if a level returns its rows ordered. The planner makes such a level of `min` and
/// `max` as well.
///
/// # Safety
/// The planner's state.
pub unsafe fn is_ordered(root: *mut pg_sys::PlannerInfo) -> bool {
    // SAFETY: the caller's promise.
    unsafe { !(*(*root).parse).sortClause.is_null() }
}

/// Returns true if the first key of a path's order is equal to an expression of the level.
///
/// # Safety
/// The planner's path of a relation, and a node.
pub unsafe fn is_ordered_by(path: &pg_sys::Path, expression: *mut pg_sys::Node) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        PgList::<pg_sys::PathKey>::from_pg(path.pathkeys)
            .get_ptr(0)
            .is_some_and(|key| {
                expressions_of(&*key).any(|equal| pg_sys::equal(equal.cast(), expression.cast()))
            })
    }
}

/// Returns the expressions that are equal to a key of an order.
///
/// # Safety
/// A key of the planner's.
pub unsafe fn expressions_of(key: &pg_sys::PathKey) -> impl Iterator<Item = *mut pg_sys::Node> {
    // SAFETY: the caller's promise. A class that was merged into another one leads to it.
    unsafe {
        let mut class = key.pk_eclass;
        while !(*class).ec_merged.is_null() {
            class = (*class).ec_merged;
        }
        let members = PgList::<pg_sys::EquivalenceMember>::from_pg((*class).ec_members);
        (0..members.len())
            .filter_map(move |number| members.get_ptr(number))
            .map(|member| (*member).em_expr.cast())
    }
}

/// Returns true if a path has the order of a key of its level's ORDER BY.
///
/// # Safety
/// The planner's state, and its path of a relation.
pub unsafe fn is_wanted(root: *mut pg_sys::PlannerInfo, path: &pg_sys::Path) -> bool {
    // SAFETY: the caller's promise.
    unsafe { sort_keys(&*(*root).parse).any(|(key, _)| is_ordered_by(path, key)) }
}

/// Returns the indexes of an access method that the planner may use the order of.
///
/// # Safety
/// A relation of the planner's whose indexes it has read.
pub unsafe fn ordering_indexes<M: AccessMethod>(
    relation: *mut pg_sys::RelOptInfo,
) -> impl Iterator<Item = *mut pg_sys::IndexOptInfo> {
    // SAFETY: the caller's promise. Few indexes of other access methods can order by an operator,
    // so that the name is rarely looked up.
    unsafe {
        let indexes = PgList::<pg_sys::IndexOptInfo>::from_pg((*relation).indexlist);
        (0..indexes.len())
            .filter_map(move |number| indexes.get_ptr(number))
            .filter(|index| {
                (**index).amcanorderbyop
                    && (**index).relam == pg_sys::get_am_oid(M::NAME.as_ptr(), true)
            })
    }
}

/// Returns the planner's paths that have the order of an operator, by an index of an access method.
///
/// # Safety
/// A relation of the planner's.
pub unsafe fn ordered_paths<M: AccessMethod>(
    relation: *mut pg_sys::RelOptInfo,
) -> impl Iterator<Item = *mut pg_sys::IndexPath> {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        let paths = PgList::<pg_sys::Path>::from_pg((*relation).pathlist);
        (0..paths.len())
            .filter_map(move |number| paths.get_ptr(number))
            .filter(|path| is_a((*path).cast(), pg_sys::NodeTag::T_IndexPath))
            .map(|path| path.cast::<pg_sys::IndexPath>())
            .filter(|path| {
                let path = &**path;
                pg_sys::list_length(path.indexorderbys) == 1
                    && path.path.param_info.is_null()
                    && is_possible(path.path.startup_cost)
                    && (*path.indexinfo).relam == pg_sys::get_am_oid(M::NAME.as_ptr(), true)
            })
    }
}

/// Adds paths that have the first key of the order that is wanted, if it has further keys. The
/// planner sorts the rows that are equal in it. Since PostgreSQL 17 the planner makes these paths
/// itself.
///
/// # Safety
/// The planner's state, and a relation that it has made its own paths for.
pub unsafe fn add_prefix_paths<M: AccessMethod>(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
) {
    if cfg!(any(feature = "pg17", feature = "pg18")) {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let wanted = PgList::<pg_sys::PathKey>::from_pg((*root).query_pathkeys);
        if let Some(first) = wanted.get_ptr(0)
            && wanted.len() > 1
        {
            add_paths_of_key::<M>(root, relation, first, first);
        }
    }
}

/// Adds the paths of an access method's indexes that are ordered by a key. They are said to have
/// the order of another key that means the same.
///
/// # Safety
/// The planner's state, and a relation that it has made its own paths for.
pub unsafe fn add_paths_of_key<M: AccessMethod>(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    key: *mut pg_sys::PathKey,
    meaning: *mut pg_sys::PathKey,
) {
    // SAFETY: the caller's promise. The planner is asked again, for another order.
    unsafe {
        let none: *mut pg_sys::List = std::ptr::null_mut();
        let mut indexes = none;
        for index in ordering_indexes::<M>(relation) {
            indexes = pg_sys::lappend(indexes, index.cast());
        }
        if indexes.is_null() {
            return;
        }
        let wanted = (*root).query_pathkeys;
        (*root).query_pathkeys = pg_sys::lappend(none, key.cast());
        let paths = paths_of_indexes(root, relation, indexes);
        (*root).query_pathkeys = wanted;
        for path in paths.iter_ptr() {
            let is_ordered = is_a(path.cast(), pg_sys::NodeTag::T_IndexPath)
                && !(*path).pathkeys.is_null()
                && (*path).param_info.is_null();
            if is_ordered && is_possible((*path).startup_cost) {
                (*path).pathkeys = pg_sys::lappend(none, meaning.cast());
                pg_sys::add_path(relation, path);
            }
        }
    }
}
