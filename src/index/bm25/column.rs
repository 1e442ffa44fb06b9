//! Finds the index of the left argument of an operator, while a statement is planned.
//!
//! The argument is a column or an expression over the columns of one table. Columns of views,
//! subqueries and common table expressions are followed to the table that they come from. Of
//! several indexes this is the oldest one, of those without WHERE clause if there are any.
//! Otherwise the conditions of the query tell which partial index is meant.
#![allow(unsafe_code)] // the planner's nodes, relation descriptors

use pgrx::{PgList, PgSqlErrorCode, pg_sys};

use super::Bm25;
use crate::{
    error::Error,
    index::am::{AccessMethod, relation::relation_name},
    pg::lookup,
};

/// An index that has the left argument of an operator.
#[derive(Debug, Clone, Copy)]
pub struct ColumnIndex {
    pub id: pg_sys::Oid,
    /// Of its operator class.
    pub family: pg_sys::Oid,
    pub collation: pg_sys::Oid,
    /// The condition of a partial index, for columns of table 1.
    pub predicate: *mut pg_sys::List,
}

/// What an expression computes a value from.
#[derive(Clone, Copy)]
pub enum Origin {
    Column {
        table: pg_sys::Oid,
        /// The number of the table in its query.
        number: i32,
        column: i16,
    },
    Expression {
        table: pg_sys::Oid,
        number: i32,
        expression: *mut pg_sys::Node,
    },
}

/// Returns the index of an expression in a query that is being planned.
///
/// # Errors
/// It has several partial indexes, and the conditions of the query imply the condition of none.
///
/// # Safety
/// The planner's state, and an expression of its query.
pub unsafe fn index_of(
    root: *mut pg_sys::PlannerInfo,
    expression: *mut pg_sys::Node,
) -> Result<Option<ColumnIndex>, Error> {
    // SAFETY: the caller's promise.
    unsafe {
        let mut levels = levels_of(root);
        let Some(origin) = origin(&mut levels, expression) else {
            return Ok(None);
        };
        let mut found = indexes_of(origin);
        found.sort_by_key(|index| (!index.predicate.is_null(), index.id.to_u32()));
        let is_clear = found.len() < 2 || found[0].predicate.is_null();
        if is_clear {
            return Ok(found.first().copied());
        }
        let Some(level) = levels.last() else {
            return Ok(None);
        };
        let implied = super::predicate::first_implied(root, *level, origin.number(), &found);
        implied.map_or_else(|| Err(several(&found)), |index| Ok(Some(index)))
    }
}

/// Returns the error if the index that a query names has another column of the table than the
/// column that it is used for.
///
/// # Safety
/// The planner's state, and an expression of its query.
pub unsafe fn check_named(
    root: *mut pg_sys::PlannerInfo,
    expression: *mut pg_sys::Node,
    named: pg_sys::Oid,
) -> Result<(), Error> {
    // SAFETY: the caller's promise. The index is opened under a lock, and closed; the lock stays.
    unsafe {
        let Some(origin @ Origin::Column { table, .. }) = origin(&mut levels_of(root), expression)
        else {
            return Ok(());
        };
        if lookup::table_of_index(named) != Some(table) {
            return Ok(());
        }
        let index = pg_sys::index_open(named, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
        let is_right = has(index, origin);
        pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
        if is_right {
            return Ok(());
        }
        Err(Error::new(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!(
                "index \"{}\" does not have the column that the query searches",
                relation_name(named)
            ),
        )
        .hint("Name an index of this column, or search the column of the index."))
    }
}

/// Returns the query of the planner's state, the last, and the queries around it.
///
/// # Safety
/// The planner's state.
unsafe fn levels_of(root: *mut pg_sys::PlannerInfo) -> Vec<*mut pg_sys::Query> {
    let mut levels = vec![];
    let mut level = root;
    // SAFETY: the caller's promise.
    unsafe {
        while !level.is_null() {
            levels.push((*level).parse);
            level = (*level).parent_root;
        }
    }
    levels.reverse();
    levels
}

fn several(found: &[ColumnIndex]) -> Error {
    let names: Vec<_> = found
        .iter()
        .map(|index| format!("\"{}\"", relation_name(index.id)))
        .collect();
    Error::undefined("several partial rag_bm25 indexes have the left argument of the operator")
        .detail(format!(
            "These are {}. The conditions of the query imply the condition of none of them.",
            names.join(", ")
        ))
        .hint(
            "Add the condition of one of them to WHERE. Or name it: \
             text <@> rag_bm25_query('words', 'index').",
        )
}

/// Follows an expression to a table. `levels` are the query that it is in, the last, and the
/// queries around that. They become those of the table.
///
/// # Safety
/// Nodes of the parser.
unsafe fn origin(levels: &mut Vec<*mut pg_sys::Query>, node: *mut pg_sys::Node) -> Option<Origin> {
    // SAFETY: the caller's promise.
    unsafe {
        match follow(levels, node)? {
            Followed::Column(origin) => Some(origin),
            Followed::Expression(node) => expression_origin(*levels.last()?, node),
        }
    }
}

/// Where an expression leads to.
pub enum Followed {
    /// The column of a table.
    Column(Origin),
    /// An expression that is no column.
    Expression(*mut pg_sys::Node),
}

/// Follows columns of subqueries, common table expressions and joins to what they are made of.
/// `levels` are the query that the expression is in, the last, and the queries around that. They
/// become those of the result.
///
/// # Safety
/// Nodes of the parser.
pub unsafe fn follow(
    levels: &mut Vec<*mut pg_sys::Query>,
    mut node: *mut pg_sys::Node,
) -> Option<Followed> {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        loop {
            while pgrx::is_a(node, pg_sys::NodeTag::T_RelabelType) {
                node = (*node.cast::<pg_sys::RelabelType>()).arg.cast();
            }
            if !pgrx::is_a(node, pg_sys::NodeTag::T_Var) {
                return Some(Followed::Expression(node));
            }
            let var = &*node.cast::<pg_sys::Var>();
            let depth = levels.len().checked_sub(var.varlevelsup as usize)?;
            levels.truncate(depth);
            let table = table_entry(*levels.last()?, var.varno)?;
            let number = usize::try_from(var.varattno).ok()?.checked_sub(1)?;
            node = match table.rtekind {
                pg_sys::RTEKind::RTE_RELATION => {
                    return Some(Followed::Column(Origin::Column {
                        table: table.relid,
                        number: var.varno,
                        column: var.varattno,
                    }));
                }
                pg_sys::RTEKind::RTE_SUBQUERY => {
                    let column = output(table.subquery, var.varattno)?;
                    levels.push(table.subquery);
                    column
                }
                pg_sys::RTEKind::RTE_CTE => {
                    let depth = levels.len().checked_sub(table.ctelevelsup as usize)?;
                    levels.truncate(depth);
                    let query = common_table(*levels.last()?, table)?;
                    levels.push(query);
                    output(query, var.varattno)?
                }
                pg_sys::RTEKind::RTE_JOIN => {
                    PgList::<pg_sys::Node>::from_pg(table.joinaliasvars).get_ptr(number)?
                }
                #[cfg(feature = "pg18")]
                pg_sys::RTEKind::RTE_GROUP => {
                    PgList::<pg_sys::Node>::from_pg(table.groupexprs).get_ptr(number)?
                }
                _ => return None,
            };
            if node.is_null() {
                return None; // a dropped column of a join
            }
        }
    }
}

/// Returns the origin of an expression that is no column.
///
/// # Safety
/// Nodes of the parser.
unsafe fn expression_origin(query: *mut pg_sys::Query, node: *mut pg_sys::Node) -> Option<Origin> {
    // SAFETY: the caller's promise. The list has columns.
    unsafe {
        let columns = PgList::<pg_sys::Var>::from_pg(pg_sys::pull_vars_of_level(node, 0));
        let first = columns.get_ptr(0)?;
        let number = (*first).varno;
        if columns.iter_ptr().any(|column| (*column).varno != number) {
            return None;
        }
        let table = table_entry(query, number)?;
        if table.rtekind != pg_sys::RTEKind::RTE_RELATION {
            return None;
        }
        // an index has its expression without the outer joins that can make its columns NULL
        #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
        let node = pg_sys::remove_nulling_relids(node, (*first).varnullingrels, std::ptr::null());
        Some(Origin::Expression {
            table: table.relid,
            number,
            // an index has its expression simplified
            expression: pg_sys::eval_const_expressions(std::ptr::null_mut(), node),
        })
    }
}

/// Returns an entry of a query's range table.
///
/// # Safety
/// A query.
unsafe fn table_entry<'a>(
    query: *mut pg_sys::Query,
    number: i32,
) -> Option<&'a pg_sys::RangeTblEntry> {
    // SAFETY: the caller's promise. The list has range table entries.
    unsafe {
        let tables = PgList::<pg_sys::RangeTblEntry>::from_pg((*query).rtable);
        let number = usize::try_from(number).ok()?.checked_sub(1)?;
        tables.get_ptr(number).map(|table| &*table)
    }
}

/// Returns the expression of a column that a query returns, `None` for a UNION.
///
/// # Safety
/// Null, or a query.
unsafe fn output(query: *mut pg_sys::Query, column: i16) -> Option<*mut pg_sys::Node> {
    // SAFETY: the caller's promise.
    unsafe {
        if query.is_null() || !(*query).setOperations.is_null() {
            return None;
        }
        let entry = pg_sys::get_tle_by_resno((*query).targetList, column);
        (!entry.is_null()).then(|| (*entry).expr.cast())
    }
}

/// Returns the query of a common table expression, `None` for a recursive one.
///
/// # Safety
/// A query, and a reference to one of its common table expressions.
unsafe fn common_table(
    query: *mut pg_sys::Query,
    reference: &pg_sys::RangeTblEntry,
) -> Option<*mut pg_sys::Query> {
    // SAFETY: the caller's promise. The list has common table expressions.
    unsafe {
        let all = PgList::<pg_sys::CommonTableExpr>::from_pg((*query).cteList);
        let name = std::ffi::CStr::from_ptr(reference.ctename);
        let found = all
            .iter_ptr()
            .find(|table| std::ffi::CStr::from_ptr((**table).ctename) == name)?;
        let definition = (*found).ctequery;
        let is_query = pgrx::is_a(definition, pg_sys::NodeTag::T_Query);
        (is_query && !(*found).cterecursive).then(|| definition.cast())
    }
}

impl Origin {
    fn number(self) -> i32 {
        let (Self::Column { number, .. } | Self::Expression { number, .. }) = self;
        number
    }
}

/// Returns the valid indexes that have a column or an expression.
///
/// # Safety
/// An origin of this module's.
unsafe fn indexes_of(origin: Origin) -> Vec<ColumnIndex> {
    let (Origin::Column { table, .. } | Origin::Expression { table, .. }) = origin;
    let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    let mut found = vec![];
    // SAFETY: relations are opened under a lock, and closed; the lock stays. The predicate is a
    // copy.
    unsafe {
        let method = pg_sys::get_am_oid(Bm25::NAME.as_ptr(), true);
        let table = pg_sys::try_relation_open(table, lock);
        if table.is_null() {
            return found;
        }
        if (*(*table).rd_rel).relhasindex {
            let indexes = pg_sys::RelationGetIndexList(table);
            for id in PgList::<pg_sys::Oid>::from_pg(indexes).iter_oid() {
                let index = pg_sys::index_open(id, lock);
                let entry = &*(*index).rd_index;
                let is_usable = (*(*index).rd_rel).relam == method && entry.indisvalid;
                if is_usable && has(index, origin) {
                    found.push(ColumnIndex {
                        id,
                        family: *(*index).rd_opfamily,
                        collation: *(*index).rd_indcollation,
                        predicate: pg_sys::RelationGetIndexPredicate(index),
                    });
                }
                pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
            }
        }
        pg_sys::relation_close(table, pg_sys::NoLock as pg_sys::LOCKMODE);
    }
    found
}

/// Returns true if an index has a column or an expression.
///
/// # Safety
/// An open index, and an origin of its table.
unsafe fn has(index: pg_sys::Relation, origin: Origin) -> bool {
    // SAFETY: the caller's promise. Every index has at least one key.
    unsafe {
        let key = (*(*index).rd_index).indkey.values.as_slice(1)[0];
        match origin {
            Origin::Column { column, .. } => key == column,
            Origin::Expression {
                number, expression, ..
            } => {
                let keys = pg_sys::RelationGetIndexExpressions(index);
                let Some(mut indexed) = PgList::<pg_sys::Node>::from_pg(keys).get_ptr(0) else {
                    return false;
                };
                // the list is a copy
                pg_sys::ChangeVarNodes(indexed, 1, number, 0);
                while pgrx::is_a(indexed, pg_sys::NodeTag::T_RelabelType) {
                    indexed = (*indexed.cast::<pg_sys::RelabelType>()).arg.cast();
                }
                key == 0 && pg_sys::equal(indexed.cast(), expression.cast())
            }
        }
    }
}
