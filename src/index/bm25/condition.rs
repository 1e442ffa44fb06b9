//! Conditions that the planner gets beside those of the statement.
//!
//! * A search ([`level`]) gets `column @@@ query`. So all plans return the same rows, and the
//!   planner knows how many match. This is added when the planner has read the table. Where that
//!   would be too late, the search gets `score < 0` before it is planned. It means the same,
//!   because the scores of rows that match are not 0. The planner makes the other condition of it
//!   as soon as it knows the table.
//! * A threshold such as `column <@> query < -5`, which only rows that match satisfy, gets the
//!   condition as well, so that the index finds the rows.
#![allow(unsafe_code)] // nodes of the parser and the planner

use std::ffi::{c_int, c_void};

use pgrx::{FromDatum, PgList, is_a, pg_sys};

use super::{
    Bm25,
    column::{Followed, follow},
    descending,
    level::{self, condition_of, has_column, order_operator, search_of},
    query::query_type,
    union,
};
use crate::{index::am::order, pg::planner::each_query_of_expressions};

/// The operator `>` of double precision.
const GREATER: u32 = 674;

// -- before planning

/// Adds conditions to those searches of a statement that need them before they are planned.
///
/// # Safety
/// A statement that is about to be planned, and its parameters.
pub unsafe fn prepare(query: *mut pg_sys::Query, parameters: pg_sys::ParamListInfo) {
    // SAFETY: the caller's promise.
    unsafe { prepare_level(&mut vec![], query, parameters) }
}

/// `levels` are the queries around this one.
///
/// # Safety
/// Queries of the parser's.
unsafe fn prepare_level(
    levels: &mut Vec<*mut pg_sys::Query>,
    query: *mut pg_sys::Query,
    parameters: pg_sys::ParamListInfo,
) {
    // SAFETY: the caller's promise. The kind of an entry says which of its members are set.
    unsafe {
        levels.push(query);
        union::order_parts(levels);
        if level::may_search(&*query) {
            add_condition(levels, parameters);
        }
        for entry in PgList::<pg_sys::RangeTblEntry>::from_pg((*query).rtable).iter_ptr() {
            if (*entry).rtekind == pg_sys::RTEKind::RTE_SUBQUERY && !(*entry).subquery.is_null() {
                prepare_level(levels, (*entry).subquery, parameters);
            }
        }
        for table in PgList::<pg_sys::CommonTableExpr>::from_pg((*query).cteList).iter_ptr() {
            if is_a((*table).ctequery, pg_sys::NodeTag::T_Query) {
                prepare_level(levels, (*table).ctequery.cast(), parameters);
            }
        }
        if (*query).hasSubLinks {
            each_query_of_expressions(query, |inner| prepare_level(levels, inner, parameters));
        }
        levels.pop();
    }
}

/// Adds the condition to the last of the levels if it is such a search.
///
/// # Safety
/// Queries of the parser's, which may be searches, and the parameters of the statement.
unsafe fn add_condition(
    levels: &[*mut pg_sys::Query],
    parameters: pg_sys::ParamListInfo,
) -> Option<()> {
    // SAFETY: the caller's promise.
    unsafe {
        let query = *levels.last()?;
        let (key, found) = order::sort_keys(&*query).find_map(|(key, _)| {
            let key = without_group(query, key);
            let found = find_operator(levels, key)?;
            (found.is_of_subquery || has_column(found.operator)).then_some((key, found))
        })?;
        let is_found_later = !found.is_of_subquery
            && !has_outer_join((*query).jointree.cast())
            && is_on_table(query, found.operator)
            && !may_be_null(level::right_argument(found.operator), parameters);
        if is_found_later {
            return None;
        }
        require_match(query, key, found.is_negated);
        Some(())
    }
}

/// Adds the condition that a score, or a negated one, is not 0.
///
/// # Safety
/// A query of the parser's, and an expression of it.
pub unsafe fn require_match(query: *mut pg_sys::Query, score: *mut pg_sys::Node, is_negated: bool) {
    let operator = if is_negated {
        pg_sys::Oid::from(GREATER)
    } else {
        pg_sys::Oid::from(pg_sys::Float8LessOperator)
    };
    let (size, no_type) = (8, pg_sys::InvalidOid);
    let zero = pg_sys::Datum::from(0.0_f64.to_bits());
    // SAFETY: the caller's promise. The expression is copied. Values of double precision are passed
    // by value.
    unsafe {
        let zero = pg_sys::makeConst(pg_sys::FLOAT8OID, -1, no_type, size, zero, false, true);
        let score = pg_sys::copyObjectImpl(score.cast());
        let condition: *mut pg_sys::OpExpr = pg_sys::make_opclause(
            operator,
            pg_sys::BOOLOID,
            false,
            score.cast(),
            zero.cast(),
            no_type,
            no_type,
        )
        .cast();
        (*condition).opfuncid = pg_sys::get_opcode(operator);
        let level = (*query).jointree;
        (*level).quals = pg_sys::make_and_qual((*level).quals, condition.cast());
    }
}

/// Returns what a column of GROUP BY stands for, since PostgreSQL 18.
///
/// # Safety
/// A query of the parser's, and an expression of it.
unsafe fn without_group(query: *mut pg_sys::Query, key: *mut pg_sys::Node) -> *mut pg_sys::Node {
    #[cfg(feature = "pg18")]
    // SAFETY: the caller's promise.
    unsafe {
        if (*query).hasGroupRTE {
            return pg_sys::flatten_group_exprs(std::ptr::null_mut(), query, key);
        }
    }
    let _ = query;
    key
}

/// Returns true if the left argument of an operator has columns of tables only.
///
/// # Safety
/// A query of the parser's, and an operator of it.
unsafe fn is_on_table(query: *mut pg_sys::Query, operator: *mut pg_sys::OpExpr) -> bool {
    // SAFETY: the caller's promise. Columns have an entry in the range table.
    unsafe {
        let left = pg_sys::list_nth((*operator).args, 0);
        let columns = PgList::<pg_sys::Var>::from_pg(pg_sys::pull_vars_of_level(left.cast(), 0));
        columns.iter_ptr().all(|column| {
            let entry = pg_sys::list_nth((*query).rtable, (*column).varno as c_int - 1);
            (*entry.cast::<pg_sys::RangeTblEntry>()).rtekind == pg_sys::RTEKind::RTE_RELATION
        })
    }
}

/// Returns true if an argument may become the constant NULL before the planner reads the table. The
/// planner forgets what it was the argument of.
///
/// # Safety
/// An expression of the parser's, and the parameters of the statement.
unsafe fn may_be_null(node: *mut pg_sys::Node, parameters: pg_sys::ParamListInfo) -> bool {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_Const => (*node.cast::<pg_sys::Const>()).constisnull,
            pg_sys::NodeTag::T_Var | pg_sys::NodeTag::T_SubLink => false,
            pg_sys::NodeTag::T_FuncExpr if pg_sys::exprType(node) == query_type() => {
                let arguments = (*node.cast::<pg_sys::FuncExpr>()).args;
                let arguments = PgList::<pg_sys::Node>::from_pg(arguments);
                let mut arguments = arguments.iter_ptr();
                arguments.any(|argument| may_be_null(argument, parameters))
            }
            pg_sys::NodeTag::T_Param => {
                let parameter = &*node.cast::<pg_sys::Param>();
                if parameter.paramkind != pg_sys::ParamKind::PARAM_EXTERN || parameters.is_null() {
                    return false;
                }
                let number = parameter.paramid;
                if number <= 0 || number > (*parameters).numParams {
                    return false;
                }
                if (*parameters).paramFetch.is_some() {
                    return true;
                }
                let values = (*parameters)
                    .params
                    .as_slice((*parameters).numParams as usize);
                values[number as usize - 1].isnull
            }
            _ => true,
        }
    }
}

/// An operator `<@>` that an expression leads to.
pub struct FoundOperator {
    operator: *mut pg_sys::OpExpr,
    /// The expression is the operator's negative.
    pub is_negated: bool,
    is_of_subquery: bool,
}

/// Follows an expression to the operator that it is, or a column of a subquery.
///
/// # Safety
/// Queries of the parser's, and an expression of the last.
pub unsafe fn find_operator(
    levels: &[*mut pg_sys::Query],
    mut node: *mut pg_sys::Node,
) -> Option<FoundOperator> {
    let mut is_negated = false;
    let mut inner = levels.to_vec();
    // SAFETY: the caller's promise.
    unsafe {
        let (column, _) = order::without_sign(node);
        if is_a(column, pg_sys::NodeTag::T_Var) && (*column.cast::<pg_sys::Var>()).varlevelsup != 0
        {
            return None; // it is the same for all rows of the level
        }
        loop {
            let (unsigned, is_odd) = order::without_sign(node);
            is_negated ^= is_odd;
            let Followed::Expression(reached) = follow(&mut inner, unsigned)? else {
                return None;
            };
            if reached == unsigned {
                return order_operator(reached).map(|operator| FoundOperator {
                    operator,
                    is_negated,
                    is_of_subquery: inner.last() != levels.last(),
                });
            }
            node = reached;
        }
    }
}

/// # Safety
/// Null, or a node of a FROM list.
unsafe fn has_outer_join(node: *mut pg_sys::Node) -> bool {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        if node.is_null() {
            return false;
        }
        match (*node).type_ {
            pg_sys::NodeTag::T_FromExpr => {
                let items = (*node.cast::<pg_sys::FromExpr>()).fromlist;
                let items = PgList::<pg_sys::Node>::from_pg(items);
                items.iter_ptr().any(|item| has_outer_join(item))
            }
            pg_sys::NodeTag::T_JoinExpr => {
                let join = &*node.cast::<pg_sys::JoinExpr>();
                join.jointype != pg_sys::JoinType::JOIN_INNER
                    || has_outer_join(join.larg)
                    || has_outer_join(join.rarg)
            }
            _ => false,
        }
    }
}

// -- while a level is planned

/// Adds conditions to the level of a table whose indexes the planner has read, and says what these
/// indexes are good for.
///
/// # Safety
/// The planner's state, and a relation whose indexes it has read.
pub unsafe fn complete(root: *mut pg_sys::PlannerInfo, relation: *mut pg_sys::RelOptInfo) {
    // SAFETY: the caller's promise.
    unsafe {
        let level = (*(*root).parse).jointree;
        if level.is_null() {
            return; // no statement: CLUSTER, for instance
        }
        let search = search_of(root);
        if (*relation).reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL {
            add_thresholds(level.cast());
            if let Some(condition) = search.and_then(|search| condition_of(search)) {
                (*level).quals = with_condition((*level).quals.cast(), condition).cast();
            }
            descending::prepare(root);
        }
        for index in order::ordering_indexes::<Bm25>(relation) {
            match search {
                // the planner would use the order for itself, where no row may be missing
                None => (*index).amcanorderbyop = false,
                // rows of a bitmap have no scores
                Some(search) if level::is_on(root, index, search) => {
                    (*index).amhasgetbitmap = false
                }
                Some(_) => (),
            }
        }
    }
}

/// Adds a condition to a list of conditions that does not have it.
///
/// # Safety
/// A list of nodes, and a condition.
unsafe fn with_condition(
    list: *mut pg_sys::List,
    condition: *mut pg_sys::OpExpr,
) -> *mut pg_sys::List {
    // SAFETY: the caller's promise.
    unsafe {
        let is_known = PgList::<pg_sys::Node>::from_pg(list)
            .iter_ptr()
            .any(|known| pg_sys::equal(known.cast(), condition.cast()));
        if is_known {
            return list;
        }
        pg_sys::lappend(list, pg_sys::copyObjectImpl(condition.cast()))
    }
}

/// Adds the conditions of thresholds.
///
/// # Safety
/// Null, or a node of a FROM list whose conditions the planner has prepared.
unsafe fn add_thresholds(node: *mut pg_sys::Node) {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        if node.is_null() {
            return;
        }
        match (*node).type_ {
            pg_sys::NodeTag::T_FromExpr => {
                let level = node.cast::<pg_sys::FromExpr>();
                for item in PgList::<pg_sys::Node>::from_pg((*level).fromlist).iter_ptr() {
                    add_thresholds(item);
                }
                (*level).quals = with_thresholds((*level).quals.cast()).cast();
            }
            pg_sys::NodeTag::T_JoinExpr => {
                let join = node.cast::<pg_sys::JoinExpr>();
                add_thresholds((*join).larg);
                add_thresholds((*join).rarg);
                (*join).quals = with_thresholds((*join).quals.cast()).cast();
            }
            _ => (),
        }
    }
}

/// Returns conditions with those that they imply. One that means the same replaces the other.
///
/// # Safety
/// A list of nodes that the planner has prepared.
unsafe fn with_thresholds(mut list: *mut pg_sys::List) -> *mut pg_sys::List {
    // SAFETY: the caller's promise.
    unsafe {
        let nodes: Vec<*mut pg_sys::Node> = PgList::from_pg(list).iter_ptr().collect();
        for node in nodes {
            let Some(threshold) = Threshold::of(node) else {
                continue;
            };
            let Some(condition) = condition_of(threshold.operator) else {
                continue;
            };
            if threshold.is_zero {
                list = pg_sys::list_delete_ptr(list, node.cast::<c_void>());
            }
            list = with_condition(list, condition);
        }
        list
    }
}

/// A condition that only rows that match satisfy.
struct Threshold {
    operator: *mut pg_sys::OpExpr,
    /// All rows that match satisfy it.
    is_zero: bool,
}

impl Threshold {
    /// # Safety
    /// A node that the planner has prepared.
    unsafe fn of(node: *mut pg_sys::Node) -> Option<Self> {
        // SAFETY: the caller's promise; the tags say of which types nodes are.
        unsafe {
            if !is_a(node, pg_sys::NodeTag::T_OpExpr) {
                return None;
            }
            let comparison = &*node.cast::<pg_sys::OpExpr>();
            let (is_less, is_strict) = match comparison.opfuncid.to_u32() {
                pg_sys::F_FLOAT8LT => (true, true),
                pg_sys::F_FLOAT8LE => (true, false),
                pg_sys::F_FLOAT8GT => (false, true),
                pg_sys::F_FLOAT8GE => (false, false),
                _ => return None,
            };
            let arguments = PgList::<pg_sys::Node>::from_pg(comparison.args);
            let (left, right) = (arguments.get_ptr(0)?, arguments.get_ptr(1)?);
            let (score, limit, is_less) = match number(right) {
                Some(limit) => (left, limit, is_less),
                None => (right, number(left)?, !is_less),
            };
            let (score, is_negated) = order::without_sign(score);
            // as a maximum of the negative score
            let maximum = if is_negated { -limit } else { limit };
            let is_maximum = is_less != is_negated;
            let is_implied = if is_strict {
                maximum <= 0.0
            } else {
                maximum < 0.0
            };
            if !is_maximum || !is_implied {
                return None;
            }
            Some(Self {
                operator: order_operator(score)?,
                is_zero: maximum == 0.0,
            })
        }
    }
}

/// Returns the value of a constant of double precision that is not NULL.
///
/// # Safety
/// A node.
unsafe fn number(node: *mut pg_sys::Node) -> Option<f64> {
    // SAFETY: the caller's promise; the tag says of which type the node is.
    unsafe {
        if !is_a(node, pg_sys::NodeTag::T_Const) {
            return None;
        }
        let constant = &*node.cast::<pg_sys::Const>();
        if constant.consttype != pg_sys::FLOAT8OID {
            return None;
        }
        f64::from_datum(constant.constvalue, constant.constisnull)
    }
}
