//! How the plan is executed and explained.
#![allow(unsafe_code)] // nodes of a plan

use std::ffi::c_int;

use pgrx::{pg_guard, pg_sys};

use super::{NAME, rows};
use crate::{
    index::{
        am::{
            heap::Snapshot,
            relation::{Index, Relation, Value, ValueType},
            scan::{count_search, require_mvcc},
        },
        bm25::{Bm25, scan::query_of},
    },
    pg::{
        compat::lock_for_serializable,
        custom_scan::{explain_index, explain_number, index_of, scan_node},
        executor,
    },
};

scan_node!(NAME, CountScan);

/// The state of a node. It is in the executor's memory context, and has nothing to drop.
#[repr(C)]
struct CountScan {
    node: pg_sys::CustomScanState,
    index: pg_sys::Relation,
    /// The query, and its type.
    argument: *mut pg_sys::ExprState,
    argument_type: pg_sys::Oid,
    is_done: bool,
    /// Number of rows of the table that were read.
    visited: i64,
}

/// `BeginCustomScan`
#[pg_guard]
unsafe extern "C-unwind" fn begin(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    flags: c_int,
) {
    // SAFETY: a state of `create_state`'s, and a plan of `super::path`.
    unsafe {
        let state = &mut *node.cast::<CountScan>();
        let plan = state.node.ss.ps.plan.cast::<pg_sys::CustomScan>();
        if flags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as c_int != 0 {
            return;
        }
        let entry = pg_sys::exec_rt_fetch((*plan).scan.scanrelid, estate);
        state.index = pg_sys::index_open(index_of(plan), (*entry).rellockmode);
        let condition: *mut pg_sys::OpExpr = pg_sys::list_nth((*plan).custom_exprs, 0).cast();
        let argument: *mut pg_sys::Expr = pg_sys::list_nth((*condition).args, 1).cast();
        state.argument_type = pg_sys::exprType(argument.cast());
        state.argument = pg_sys::ExecInitExpr(argument, &raw mut state.node.ss.ps);
    }
}

/// `ExecCustomScan`. See [`executor`] for why it is not guarded.
unsafe extern "C-unwind" fn next_row(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: a node that has begun.
    unsafe { executor::ExecScan(&raw mut (*node).ss, Some(access), Some(recheck)) }
}

/// Returns the row with the count, and then null. An ERROR leaps over this frame.
unsafe extern "C-unwind" fn access(node: *mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: a node that has begun.
    unsafe {
        let state = node.cast::<CountScan>();
        if (*state).is_done {
            return std::ptr::null_mut();
        }
        let context = (*node).ps.ps_ExprContext;
        let mut is_null = false;
        let query = executor::evaluate((*state).argument, context, &mut is_null);
        count(state, query, is_null);
        (*node).ss_ScanTupleSlot
    }
}

/// Counts, and stores the count in the slot of the node.
#[pg_guard]
unsafe extern "C-unwind" fn count(state: *mut CountScan, query: pg_sys::Datum, is_null: bool) {
    // SAFETY: a node that has begun, with its open table and index. The query is of the type of the
    // argument. The slot has a column for each count, and one more.
    unsafe {
        let state = &mut *state;
        let table = state.node.ss.ss_currentRelation;
        let snapshot = (*state.node.ss.ps.state).es_snapshot;
        require_mvcc::<Bm25>(snapshot).unwrap_or_else(|error| error.raise());
        lock_for_serializable(table, snapshot);
        lock_for_serializable(state.index, snapshot);
        count_search(state.index);
        let query_type = ValueType::of(state.argument_type);
        let query = (!is_null).then(|| Value::from_raw(query, query_type));
        let counted = query_of(query).and_then(|query| match query {
            None => Ok(rag_bm25::RowCount::default()),
            Some(query) => rows::count(
                Relation::from_raw(table),
                Index::from_raw(state.index),
                Snapshot::from_raw(snapshot),
                &query,
            ),
        });
        let counted = counted.unwrap_or_else(|error| error.raise());
        state.visited += counted.visited as i64;
        state.is_done = true;

        let slot = state.node.ss.ss_ScanTupleSlot;
        let columns = (*(*slot).tts_tupleDescriptor).natts as usize;
        for column in 0..columns {
            *(*slot).tts_values.add(column) = pg_sys::Datum::from(counted.rows as i64);
            *(*slot).tts_isnull.add(column) = column + 1 == columns;
        }
        pg_sys::ExecStoreVirtualTuple(slot);
    }
}

/// Nothing is to be checked of a count.
unsafe extern "C-unwind" fn recheck(
    _node: *mut pg_sys::ScanState,
    _slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    true
}

/// `ReScanCustomScan`
#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: a node that has begun.
    unsafe {
        pg_sys::ExecScanReScan(&raw mut (*node).ss);
        (*node.cast::<CountScan>()).is_done = false;
    }
}

/// `EndCustomScan`
#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: a node that has begun, and has not ended.
    unsafe {
        let state = &mut *node.cast::<CountScan>();
        if !state.index.is_null() {
            pg_sys::index_close(state.index, pg_sys::NoLock as pg_sys::LOCKMODE);
            state.index = std::ptr::null_mut();
        }
    }
}

/// `ExplainCustomScan`
#[pg_guard]
unsafe extern "C-unwind" fn explain(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    output: *mut pg_sys::ExplainState,
) {
    // SAFETY: a node that has begun.
    unsafe {
        let state = &*node.cast::<CountScan>();
        let plan = state.node.ss.ps.plan.cast::<pg_sys::CustomScan>();
        explain_index(plan, index_of(plan), &[c"Index Cond"], ancestors, output);
        if (*output).analyze {
            explain_number(c"Heap Fetches", state.visited, output);
        }
    }
}
