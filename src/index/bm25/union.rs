//! UNION ALL of searches.
//!
//! `SELECT ... FROM a UNION ALL SELECT ... FROM b ORDER BY score LIMIT 10` has no table of its own
//! that a condition could be added for. So its parts become searches: they get the order of the
//! whole, if all of them have the operator in this column. The planner merges their rows.
#![allow(unsafe_code)] // nodes of the parser

use pgrx::{PgList, is_a, pg_sys};

use super::condition::{find_operator, require_match};

/// Orders the parts of a query that is to be ordered, or those of a subquery that it is ordered by.
/// `levels` are the queries around the query, and the query itself.
///
/// # Safety
/// Queries of the parser's.
pub unsafe fn order_parts(levels: &[*mut pg_sys::Query]) -> Option<()> {
    // SAFETY: the caller's promise. Each clause has an entry in the target list. The kind of an
    // entry says which of its members are set.
    unsafe {
        let query = *levels.last()?;
        let clauses = PgList::<pg_sys::SortGroupClause>::from_pg((*query).sortClause);
        let clause = clauses.get_ptr(0)?;
        let key = &*pg_sys::get_sortgroupclause_tle(clause, (*query).targetList);
        if !(*query).setOperations.is_null() {
            return order_all(levels, key.resno, clause).map(|_| ());
        }
        if !is_a(key.expr.cast(), pg_sys::NodeTag::T_Var) {
            return None;
        }
        let column = &*key.expr.cast::<pg_sys::Var>();
        if column.varlevelsup != 0 || column.varattno <= 0 {
            return None;
        }
        let entries = PgList::<pg_sys::RangeTblEntry>::from_pg((*query).rtable);
        let entry = &*entries.get_ptr((column.varno as usize).checked_sub(1)?)?;
        if entry.rtekind != pg_sys::RTEKind::RTE_SUBQUERY
            || (*entry.subquery).setOperations.is_null()
            || is_limited(&*entry.subquery)
        {
            return None;
        }
        let mut inner = levels.to_vec();
        inner.push(entry.subquery);
        let is_negated = order_all(&inner, column.varattno, clause)?;
        // an outer join may add rows
        require_match(query, key.expr.cast(), is_negated);
        Some(())
    }
}

/// Orders all parts of the last level by a column. Returns true if it has negated scores.
///
/// # Safety
/// Queries of the parser's, and a clause of ORDER BY.
unsafe fn order_all(
    levels: &[*mut pg_sys::Query],
    column: i16,
    clause: *mut pg_sys::SortGroupClause,
) -> Option<bool> {
    // SAFETY: the caller's promise. The parts are entries of the range table.
    unsafe {
        let query = *levels.last()?;
        let mut parts = vec![];
        add_parts(&mut parts, query, (*query).setOperations)?;
        let mut signs = vec![];
        for part in &parts {
            let entry = pg_sys::get_tle_by_resno((**part).targetList, column);
            if entry.is_null() || is_limited(&**part) || is_grouped(&**part) {
                return None;
            }
            let mut inner = levels.to_vec();
            inner.push(*part);
            signs.push(find_operator(&inner, (*entry).expr.cast())?.is_negated);
        }
        let is_negated = *signs.first()?;
        if signs.contains(&!is_negated) {
            return None;
        }
        for part in parts {
            let entry = pg_sys::get_tle_by_resno((*part).targetList, column);
            let own: *mut pg_sys::SortGroupClause = pg_sys::copyObjectImpl(clause.cast()).cast();
            (*own).tleSortGroupRef = reference_of(entry, (*part).targetList);
            (*part).sortClause = pg_sys::lappend(std::ptr::null_mut(), own.cast());
        }
        Some(is_negated)
    }
}

/// Returns the number by which clauses refer to an entry of a target list.
///
/// # Safety
/// A target list, and an entry of it.
unsafe fn reference_of(entry: *mut pg_sys::TargetEntry, list: *mut pg_sys::List) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        if (*entry).ressortgroupref == 0 {
            let entries = PgList::<pg_sys::TargetEntry>::from_pg(list);
            let last = entries
                .iter_ptr()
                .map(|entry| (*entry).ressortgroupref)
                .max();
            (*entry).ressortgroupref = last.unwrap_or(0) + 1;
        }
        (*entry).ressortgroupref
    }
}

/// Adds the parts of UNION ALL. Returns `None` for other set operations.
///
/// # Safety
/// A query of the parser's, and a node of its set operations.
unsafe fn add_parts(
    parts: &mut Vec<*mut pg_sys::Query>,
    query: *mut pg_sys::Query,
    node: *mut pg_sys::Node,
) -> Option<()> {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        if is_a(node, pg_sys::NodeTag::T_RangeTblRef) {
            let number = (*node.cast::<pg_sys::RangeTblRef>()).rtindex;
            let entries = PgList::<pg_sys::RangeTblEntry>::from_pg((*query).rtable);
            let entry = entries.get_ptr((number as usize).checked_sub(1)?)?;
            let part = (*entry).subquery;
            if part.is_null() || !(*part).setOperations.is_null() {
                return None;
            }
            parts.push(part);
            return Some(());
        }
        let operation = &*node.cast::<pg_sys::SetOperationStmt>();
        if operation.op != pg_sys::SetOperation::SETOP_UNION || !operation.all {
            return None;
        }
        add_parts(parts, query, operation.larg)?;
        add_parts(parts, query, operation.rarg)
    }
}

/// Returns true if the order of a query's rows decides which of them it returns.
fn is_limited(query: &pg_sys::Query) -> bool {
    !query.sortClause.is_null()
        || !query.limitCount.is_null()
        || !query.limitOffset.is_null()
        || !query.rowMarks.is_null()
}

/// Returns true if a query computes its rows of several others.
fn is_grouped(query: &pg_sys::Query) -> bool {
    query.hasAggs
        || query.hasWindowFuncs
        || query.hasTargetSRFs
        || !query.groupClause.is_null()
        || !query.groupingSets.is_null()
        || !query.distinctClause.is_null()
}
