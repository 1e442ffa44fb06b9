//! What the planner asks about the operators: an index for `text <@> text` and `text @@@ text`, the
//! cost of an operator, and the fraction of rows that satisfy `@@@`.
#![allow(unsafe_code)] // the planner's nodes

use std::ffi::c_int;

use pgrx::{PgList, pg_sys};

use super::{
    column::{ColumnIndex, check_named, index_of},
    cost::operator_cost,
    level::{OwnFunction, has_scores, own_function},
    opclass::Strategy,
    predicate::is_simplifying,
    query::{Bm25Query, query_type},
    ranking::{Purpose, ranking},
};
use crate::{
    index::am::cost::constant,
    pg::{
        calls::{self, c_function},
        lookup::function_in_schema,
    },
};

/// The fraction of rows that satisfy `@@@` if the query is not known.
pub const DEFAULT_FRACTION: f64 = 0.005;

/// Cost of `<@>` for a row that comes with its score, in units of `cpu_operator_cost`. An index
/// scan has computed it ([`super::scan::last_score`]).
const KNOWN_SCORE_COST: f64 = 10.0;

/// Called for support functions. The callbacks of [`c_function`] are not needed.
fn nothing() {}

c_function!(
    bm25_support_wrapper,
    pg_finfo_bm25_support_wrapper,
    handle_support,
    nothing
);
c_function!(
    bm25_restrict_wrapper,
    pg_finfo_bm25_restrict_wrapper,
    handle_restrict,
    nothing
);
c_function!(
    bm25_restrict_not_wrapper,
    pg_finfo_bm25_restrict_not_wrapper,
    handle_restrict_not,
    nothing
);

/// Handles the planner support function of the operators. A call with a text as query is replaced
/// by one that names the index of the left argument. For a call with an index, its cost is
/// estimated.
///
/// # Safety
/// Called by Postgres.
unsafe fn handle_support(call: pg_sys::FunctionCallInfo, _: fn()) -> pg_sys::Datum {
    // SAFETY: the planner passes a node, whose tag says of which type it is.
    let answer = unsafe {
        pgrx::pg_getarg_datum(call, 0).and_then(|request| {
            let node = request.cast_mut_ptr::<pg_sys::Node>();
            match (*node).type_ {
                pg_sys::NodeTag::T_SupportRequestSimplify => {
                    with_index(&*node.cast::<pg_sys::SupportRequestSimplify>())
                        .map(pg_sys::Datum::from)
                }
                pg_sys::NodeTag::T_SupportRequestCost => {
                    set_cost(&mut *node.cast::<pg_sys::SupportRequestCost>()).map(|()| request)
                }
                _ => None,
            }
        })
    };
    answer.unwrap_or(pg_sys::Datum::null())
}

/// # Safety
/// A request of the planner's.
unsafe fn set_cost(request: &mut pg_sys::SupportRequestCost) -> Option<()> {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        let node = request.node;
        if node.is_null() {
            return None;
        }
        let arguments = match (*node).type_ {
            pg_sys::NodeTag::T_OpExpr => (*node.cast::<pg_sys::OpExpr>()).args,
            pg_sys::NodeTag::T_FuncExpr => (*node.cast::<pg_sys::FuncExpr>()).args,
            _ => return None,
        };
        let query = PgList::<pg_sys::Node>::from_pg(arguments).get_ptr(1)?;
        let is_known = pg_sys::exprType(node) == pg_sys::FLOAT8OID
            && !request.root.is_null()
            && has_scores(request.root, request.funcid, query);
        let cost = if is_known {
            calls::operator_cost() * KNOWN_SCORE_COST
        } else {
            operator_cost(&constant(query)?.get()?)?
        };
        (request.startup, request.per_tuple) = (0.0, cost);
        Some(())
    }
}

/// Returns the operator with a query that names its index.
///
/// # Safety
/// A request of the planner's.
unsafe fn with_index(request: &pg_sys::SupportRequestSimplify) -> Option<*mut pg_sys::Expr> {
    // SAFETY: the caller's promise; the function has two arguments.
    unsafe {
        let call = &*request.fcall;
        let arguments = PgList::<pg_sys::Node>::from_pg(call.args);
        let (left, words) = (arguments.get_ptr(0)?, arguments.get_ptr(1)?);
        if request.root.is_null() || is_simplifying() {
            return None;
        }
        if pg_sys::exprType(words) != pg_sys::TEXTOID {
            // the query names its index
            let named = constant(words)?.get::<Bm25Query>()?.index;
            check_named(request.root, left, named).unwrap_or_else(|error| error.raise());
            return None;
        }
        let index = index_of(request.root, left).unwrap_or_else(|error| error.raise())?;
        let query_type = query_type();
        let member = |strategy: Strategy| {
            let number = strategy as i16;
            pg_sys::get_opfamily_member(index.family, pg_sys::TEXTOID, query_type, number)
        };
        let operator = match own_function(call.funcid)? {
            OwnFunction::Order => member(Strategy::Order),
            OwnFunction::Matches => member(Strategy::Matches),
            // also of operator classes without it
            OwnFunction::Misses => pg_sys::get_negator(member(Strategy::Matches)),
        };
        if operator == pg_sys::InvalidOid {
            return None;
        }
        let query = query_node(&index, query_type, words)?;
        // the operators ignore the collation, but the planner compares it with the index's
        let replacement = pg_sys::make_opclause(
            operator,
            call.funcresulttype,
            false,
            left.cast(),
            query.cast(),
            pg_sys::InvalidOid,
            index.collation,
        );
        (*replacement.cast::<pg_sys::OpExpr>()).opfuncid = pg_sys::get_opcode(operator);
        Some(replacement)
    }
}

/// Returns the query of an index: a constant if the words are.
///
/// # Safety
/// A node of the planner's of type text.
unsafe fn query_node(
    index: &ColumnIndex,
    query_type: pg_sys::Oid,
    words: *mut pg_sys::Node,
) -> Option<*mut pg_sys::Node> {
    let id = pg_sys::Datum::from(index.id);
    // SAFETY: the caller's promise. Nodes are allocated in the planner's memory context.
    unsafe {
        let (oid_bytes, no_type) = (size_of::<pg_sys::Oid>() as c_int, pg_sys::InvalidOid);
        let index_node =
            pg_sys::makeConst(pg_sys::REGCLASSOID, -1, no_type, oid_bytes, id, false, true);
        let arguments = pg_sys::lappend(std::ptr::null_mut(), words.cast());
        let arguments = pg_sys::lappend(arguments, index_node.cast());
        let types = [pg_sys::TEXTOID, pg_sys::REGCLASSOID];
        let call = pg_sys::makeFuncExpr(
            function_in_schema(c"bm25_query", c"rag_internal", &types)?,
            query_type,
            arguments,
            no_type,
            no_type,
            pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
        );
        let root = std::ptr::null_mut();
        Some(pg_sys::eval_const_expressions(root, call.cast()))
    }
}

/// Handles the function that estimates the selectivity of `text @@@ query`.
///
/// # Safety
/// Called by Postgres.
unsafe fn handle_restrict(call: pg_sys::FunctionCallInfo, _: fn()) -> pg_sys::Datum {
    // SAFETY: the caller's promise.
    pg_sys::Datum::from(unsafe { matching_fraction(call) }.to_bits())
}

/// Handles that of `text !@@@ query`.
///
/// # Safety
/// Called by Postgres.
unsafe fn handle_restrict_not(call: pg_sys::FunctionCallInfo, _: fn()) -> pg_sys::Datum {
    // SAFETY: the caller's promise.
    pg_sys::Datum::from((1.0 - unsafe { matching_fraction(call) }).to_bits())
}

/// # Safety
/// A call of a selectivity estimator of an operator with a query.
unsafe fn matching_fraction(call: pg_sys::FunctionCallInfo) -> f64 {
    // SAFETY: the arguments are the planner's state, the operator, a list of the operator's
    // arguments, and the number of a relation.
    let fraction = unsafe {
        let root = pgrx::pg_getarg_datum(call, 0).map(|root| root.cast_mut_ptr());
        let arguments = pgrx::pg_getarg_datum(call, 2).map(|list| list.cast_mut_ptr());
        let arguments = PgList::<pg_sys::Node>::from_pg(arguments.unwrap_or(std::ptr::null_mut()));
        arguments
            .get_ptr(1)
            .map(|query| {
                let root = root.unwrap_or(std::ptr::null_mut());
                pg_sys::estimate_expression_value(root, query)
            })
            .and_then(|query| constant(query))
            .and_then(|query| query.get::<Bm25Query>())
            .and_then(|query| known_fraction(&query))
    };
    fraction.unwrap_or(DEFAULT_FRACTION)
}

/// Returns the fraction of documents that match a query, if its index can be read.
fn known_fraction(query: &Bm25Query) -> Option<f64> {
    let Some(words) = &query.text else {
        return Some(0.0);
    };
    let known = ranking(Purpose::Operator, query.index, words).ok()?;
    known.matching_fraction()
}
