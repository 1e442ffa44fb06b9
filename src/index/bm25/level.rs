//! Searches: levels of a statement whose ORDER BY has `column <@> query`.
//!
//! A search returns the rows that match, and no others, as if its WHERE had `column @@@ query`.
//! Otherwise the rows would depend on the plan: a scan of the index returns only those that match,
//! and a sort returns all. The order may also be negated, or come from a subquery. Levels that
//! combine several queries, such as UNION, are no searches, nor are those with grouping sets.
#![allow(unsafe_code)] // nodes of the parser and the planner

use std::{cell::RefCell, ffi::CStr};

use pgrx::{PgList, is_a, pg_sys};

use super::{Bm25, opclass::Strategy};
use crate::{
    index::am::{AccessMethod, cost::PlannedScan, order},
    pg::{lookup, planner::any_node},
};

/// A function of an operator of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnFunction {
    /// That of `<@>`.
    Order,
    /// That of `@@@`.
    Matches,
    /// That of `!@@@`.
    Misses,
}

/// Functions that are known to be the extension's, of the schema that they are in.
struct KnownFunctions {
    schema: pg_sys::Oid,
    functions: Vec<(pg_sys::Oid, OwnFunction)>,
}

thread_local! {
    /// Another extension has another schema.
    static KNOWN: RefCell<KnownFunctions> = const {
        RefCell::new(KnownFunctions {
            schema: pg_sys::InvalidOid,
            functions: vec![],
        })
    };
}

/// Returns the function of this OID if it is one of the operators.
pub fn own_function(function: pg_sys::Oid) -> Option<OwnFunction> {
    let schema = lookup::schema(c"rag_internal")?;
    KNOWN.with_borrow_mut(|known| {
        if known.schema != schema {
            *known = KnownFunctions {
                schema,
                functions: vec![],
            };
        }
        let found = known.functions.iter().find(|(id, _)| *id == function);
        if let Some((_, found)) = found {
            return Some(*found);
        }
        let found = look_up(function, schema)?;
        known.functions.push((function, found));
        Some(found)
    })
}

fn look_up(function: pg_sys::Oid, schema: pg_sys::Oid) -> Option<OwnFunction> {
    // SAFETY: look-ups; a name is null or a C string.
    unsafe {
        if pg_sys::get_func_namespace(function) != schema {
            return None;
        }
        let name = pg_sys::get_func_name(function);
        if name.is_null() {
            return None;
        }
        match CStr::from_ptr(name).to_bytes() {
            b"bm25_order" => Some(OwnFunction::Order),
            b"bm25_matches" => Some(OwnFunction::Matches),
            b"bm25_misses" => Some(OwnFunction::Misses),
            _ => None,
        }
    }
}

/// Returns an operator of the extension with two arguments, the left of which is a text.
///
/// # Safety
/// A node of the parser's or planner's.
unsafe fn own_operator(
    node: *mut pg_sys::Node,
    result: pg_sys::Oid,
    function: OwnFunction,
) -> Option<*mut pg_sys::OpExpr> {
    // SAFETY: the caller's promise; the tag says of which type the node is.
    unsafe {
        if !is_a(node, pg_sys::NodeTag::T_OpExpr) {
            return None;
        }
        let operator: *mut pg_sys::OpExpr = node.cast();
        // most operators are told apart without a look-up
        if (*operator).opresulttype != result || pg_sys::list_length((*operator).args) != 2 {
            return None;
        }
        let left = PgList::<pg_sys::Node>::from_pg((*operator).args).get_ptr(0)?;
        if pg_sys::exprType(left) != pg_sys::TEXTOID {
            return None;
        }
        let id = match (*operator).opfuncid {
            pg_sys::InvalidOid => pg_sys::get_opcode((*operator).opno),
            id => id,
        };
        (own_function(id) == Some(function)).then_some(operator)
    }
}

/// Returns the operator `<@>` that a node is, if its value depends only on a row.
///
/// # Safety
/// A node of the parser's or planner's.
pub unsafe fn order_operator(node: *mut pg_sys::Node) -> Option<*mut pg_sys::OpExpr> {
    // SAFETY: the caller's promise.
    unsafe {
        let operator = own_operator(node, pg_sys::FLOAT8OID, OwnFunction::Order)?;
        let is_of_row = PgList::<pg_sys::Node>::from_pg((*operator).args)
            .iter_ptr()
            .all(|argument| is_simple(argument))
            || !pg_sys::contain_aggs_of_level(node, 0)
                && !pg_sys::contain_windowfuncs(node)
                && !pg_sys::expression_returns_set(node)
                && !pg_sys::contain_volatile_functions(node);
        is_of_row.then_some(operator)
    }
}

/// # Safety
/// A node of the parser's or planner's.
unsafe fn is_simple(node: *mut pg_sys::Node) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        matches!(
            (*node).type_,
            pg_sys::NodeTag::T_Var | pg_sys::NodeTag::T_Const | pg_sys::NodeTag::T_Param
        )
    }
}

/// Returns true if a node, or a part of it, is an operator `<@>`.
///
/// # Safety
/// Null, or a node that the planner has prepared.
pub unsafe fn has_order_operator(node: *mut pg_sys::Node) -> bool {
    // SAFETY: the caller's promise. Names are looked up for few nodes.
    unsafe {
        any_node(node, |part| {
            own_operator(part, pg_sys::FLOAT8OID, OwnFunction::Order).is_some()
        })
    }
}

/// Returns true if the left argument of an operator has a column of the operator's level. Otherwise
/// it is the same for all rows, as a column of an outer level is.
///
/// # Safety
/// An operator with two arguments.
pub unsafe fn has_column(operator: *mut pg_sys::OpExpr) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let left: *mut pg_sys::Node = pg_sys::list_nth((*operator).args, 0).cast();
        pg_sys::contain_vars_of_level(left, 0)
    }
}

/// Returns true if a query may be a search.
pub fn may_search(query: &pg_sys::Query) -> bool {
    query.commandType == pg_sys::CmdType::CMD_SELECT
        && !query.sortClause.is_null()
        && query.setOperations.is_null()
        && query.groupingSets.is_null()
}

/// Returns the operator `<@>` that a level orders by: the first one of its ORDER BY.
///
/// # Safety
/// The planner's state.
pub unsafe fn search_of(root: *mut pg_sys::PlannerInfo) -> Option<*mut pg_sys::OpExpr> {
    // SAFETY: the caller's promise.
    unsafe {
        let query = &*(*root).parse;
        if !may_search(query) {
            return None;
        }
        let search = order::sort_keys(query)
            .filter_map(|(key, _)| order_operator(key))
            .find(|operator| has_column(*operator))?;
        (!is_of_extreme(root)).then_some(search)
    }
}

/// Returns true if the planner has made a level for an aggregate, `min` or `max`. It has the tables
/// of its parent, and orders by the argument.
///
/// # Safety
/// The planner's state.
unsafe fn is_of_extreme(root: *mut pg_sys::PlannerInfo) -> bool {
    // SAFETY: the caller's promise. The name is null or a C string.
    unsafe {
        let (query, parent) = ((*root).parse, (*root).parent_root);
        let columns = PgList::<pg_sys::TargetEntry>::from_pg((*query).targetList);
        match columns.get_ptr(0) {
            Some(only) if columns.len() == 1 && !parent.is_null() => {
                let name = (*only).resname;
                !name.is_null()
                    && CStr::from_ptr(name) == c"agg_target"
                    && pg_sys::equal((*query).rtable.cast(), (*(*parent).parse).rtable.cast())
            }
            _ => false,
        }
    }
}

/// Returns true if a scan has the order of its level's search.
pub fn is_search(scan: &PlannedScan<'_>) -> bool {
    // SAFETY: the planner's state and path.
    unsafe {
        search_of(scan.root())
            .is_some_and(|search| order::is_ordered_by(scan.path(), search.cast()))
    }
}

/// Returns the right argument of an operator.
///
/// # Safety
/// An operator with two arguments.
pub unsafe fn right_argument(operator: *mut pg_sys::OpExpr) -> *mut pg_sys::Node {
    // SAFETY: the caller's promise.
    unsafe { pg_sys::list_nth((*operator).args, 1).cast() }
}

/// Returns true if the rows of a level come with the value of `column <@> query`, because the level
/// is a search for the query, or has the condition that belongs to it. It is asked often, so names
/// are looked up last.
///
/// # Safety
/// The planner's state, the function of the operator, and its right argument.
pub unsafe fn has_scores(
    root: *mut pg_sys::PlannerInfo,
    function: pg_sys::Oid,
    query: *mut pg_sys::Node,
) -> bool {
    // SAFETY: the caller's promise; the tags say of which types nodes are. Conditions are lists of
    // nodes once the planner has prepared them.
    unsafe {
        let has_query = |node: *mut pg_sys::Node| {
            is_a(node, pg_sys::NodeTag::T_OpExpr) && {
                let operator: *mut pg_sys::OpExpr = node.cast();
                pg_sys::list_length((*operator).args) == 2
                    && pg_sys::equal(right_argument(operator).cast(), query.cast())
            }
        };
        let level = &*(*root).parse;
        let is_search = may_search(level)
            && order::sort_keys(level).any(|(key, _)| {
                has_query(key) && (*key.cast::<pg_sys::OpExpr>()).opfuncid == function
            });
        if is_search {
            return true;
        }
        let conditions = level.jointree;
        if conditions.is_null()
            || (*conditions).quals.is_null()
            || !is_a((*conditions).quals, pg_sys::NodeTag::T_List)
        {
            return false;
        }
        PgList::<pg_sys::Node>::from_pg((*conditions).quals.cast())
            .iter_ptr()
            .filter(|node| has_query(*node))
            .any(|node| own_operator(node, pg_sys::BOOLOID, OwnFunction::Matches).is_some())
    }
}

/// Returns true if an index has what a search orders by.
///
/// # Safety
/// The planner's state, an index that it knows, and an operator of the level.
pub unsafe fn is_on(
    root: *mut pg_sys::PlannerInfo,
    index: *mut pg_sys::IndexOptInfo,
    search: *mut pg_sys::OpExpr,
) -> bool {
    // SAFETY: the caller's promise; the tags say of which types nodes are. Each index has a key.
    unsafe {
        let mut left: *mut pg_sys::Node = pg_sys::list_nth((*search).args, 0).cast();
        while is_a(left, pg_sys::NodeTag::T_RelabelType) {
            left = (*left.cast::<pg_sys::RelabelType>()).arg.cast();
        }
        let vars = PgList::<pg_sys::Var>::from_pg(pg_sys::pull_vars_of_level(left, 0));
        let Some(var) = vars.get_ptr(0) else {
            return false;
        };
        let relid = (*(*index).rel).relid;
        let Some(column) = column_in(root, relid, &*var) else {
            return false;
        };
        let key = *(*index).indexkeys;
        if is_a(left, pg_sys::NodeTag::T_Var) {
            key == i32::from(column)
        } else {
            key == 0
        }
    }
}

/// Returns the number that a column has in a table, which may be a partition of the column's.
///
/// # Safety
/// The planner's state, the number of a table of the level, and a column of the level.
unsafe fn column_in(
    root: *mut pg_sys::PlannerInfo,
    relid: pg_sys::Index,
    var: &pg_sys::Var,
) -> Option<i16> {
    if relid as i64 == var.varno as i64 {
        return Some(var.varattno);
    }
    // SAFETY: the caller's promise. The array has a place for each table.
    unsafe {
        if (*root).append_rel_array.is_null() {
            return None;
        }
        let parent = *(*root).append_rel_array.add(relid as usize);
        if parent.is_null() {
            return None;
        }
        let column = column_in(root, (*parent).parent_relid, var)?;
        let number = usize::try_from(column).ok()?.checked_sub(1)?;
        let translated = PgList::<pg_sys::Node>::from_pg((*parent).translated_vars);
        let translated = translated.get_ptr(number)?;
        is_a(translated, pg_sys::NodeTag::T_Var)
            .then(|| (*translated.cast::<pg_sys::Var>()).varattno)
    }
}

/// Returns the condition `column @@@ query` that belongs to `column <@> query`, if the planner has
/// found the index of the query.
///
/// # Safety
/// An operator `<@>` of the planner's. The result shares its arguments.
pub unsafe fn condition_of(operator: *mut pg_sys::OpExpr) -> Option<*mut pg_sys::OpExpr> {
    // SAFETY: the caller's promise.
    unsafe {
        let arguments = PgList::<pg_sys::Node>::from_pg((*operator).args);
        let (left, query) = (arguments.get_ptr(0)?, arguments.get_ptr(1)?);
        let query_type = pg_sys::exprType(query);
        if query_type == pg_sys::TEXTOID {
            return None;
        }
        let family = family_of((*operator).opno)?;
        let number = Strategy::Matches as i16;
        let matches = pg_sys::get_opfamily_member(family, pg_sys::TEXTOID, query_type, number);
        if matches == pg_sys::InvalidOid {
            return None;
        }
        let condition: *mut pg_sys::OpExpr = pg_sys::make_opclause(
            matches,
            pg_sys::BOOLOID,
            false,
            left.cast(),
            query.cast(),
            pg_sys::InvalidOid,
            (*operator).inputcollid,
        )
        .cast();
        (*condition).opfuncid = pg_sys::get_opcode(matches);
        Some(condition)
    }
}

/// Returns an operator family of `rag_bm25` that orders by an operator.
fn family_of(operator: pg_sys::Oid) -> Option<pg_sys::Oid> {
    let none = pg_sys::Datum::null();
    // SAFETY: the list is read before it is released. Its members are rows of pg_amop.
    unsafe {
        let method = pg_sys::get_am_oid(Bm25::NAME.as_ptr(), true);
        let cache = pg_sys::SysCacheIdentifier::AMOPOPID as i32;
        let list = pg_sys::SearchSysCacheList(cache, 1, operator.into(), none, none);
        let members = (*list).members.as_slice((*list).n_members as usize);
        let family = members.iter().find_map(|member| {
            let row = &raw mut (**member).tuple;
            let row = &*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_amop>();
            let is_order = row.amopmethod == method && row.amopstrategy == Strategy::Order as i16;
            is_order.then_some(row.amopfamily)
        });
        pg_sys::ReleaseCatCacheList(list);
        family
    }
}
