//! How the plan is executed and explained.
#![allow(unsafe_code)] // nodes of a plan

use std::ffi::{c_int, c_void};

use pgrx::{PgList, pg_guard, pg_sys};
use rag_bm25::GivenRows;

use super::{
    NAME,
    rows::{self, FoundRows},
};
use crate::{
    error::Error,
    index::{
        am::scan::scan_of,
        bm25::{opclass::Strategy, scan::Bm25Scan},
    },
    pg::{
        custom_scan::{explain_number, explain_search, index_of, scan_node},
        executor,
    },
};

scan_node!(NAME, FilteredScan);

/// The state of a node. It is in the executor's memory context, and has nothing to drop.
#[repr(C)]
struct FilteredScan {
    node: pg_sys::CustomScanState,
    index: pg_sys::Relation,
    /// Null until the first row is wanted.
    scan: pg_sys::IndexScanDesc,
    /// The operator that rows are ordered by, then the conditions: as many as `key_count`.
    keys: *mut pg_sys::ScanKeyData,
    /// The right arguments of the operators.
    arguments: *mut *mut pg_sys::ExprState,
    key_count: usize,
    /// Its memory holds the values of the arguments, until the next search.
    key_context: *mut pg_sys::ExprContext,
    /// The conditions of the scan, for a row that has changed. Null if there are none.
    conditions: *mut pg_sys::ExprState,
    /// True if the scan has its keys and rows.
    is_started: bool,
    /// Rows of an index that are read without a bitmap.
    found: FoundRows,
    /// Rows that were given so far, and blocks of which all rows may be meant.
    given_rows: i64,
    given_blocks: i64,
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
        let state = &mut *node.cast::<FilteredScan>();
        executor::use_slot_of_table(&raw mut state.node.ss, estate);
        let plan = state.node.ss.ps.plan.cast::<pg_sys::CustomScan>();
        executor::begin_children(&mut state.node, estate, flags);
        if flags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as c_int != 0 {
            return;
        }
        let entry = pg_sys::exec_rt_fetch((*plan).scan.scanrelid, estate);
        state.index = pg_sys::index_open(index_of(plan), (*entry).rellockmode);

        let operators = PgList::<pg_sys::OpExpr>::from_pg((*plan).custom_exprs);
        state.key_count = operators.len();
        state.keys = pg_sys::palloc0(size_of::<pg_sys::ScanKeyData>() * state.key_count).cast();
        state.arguments = pg_sys::palloc0(size_of::<*mut c_void>() * state.key_count).cast();
        state.key_context = pg_sys::CreateExprContext(estate);
        for (number, operator) in operators.iter_ptr().enumerate() {
            let family = *(*state.index).rd_opfamily;
            let (flags, strategy) = match number {
                0 => (pg_sys::SK_ORDER_BY, Strategy::Order as c_int),
                _ => (
                    0,
                    pg_sys::get_op_opfamily_strategy((*operator).opno, family),
                ),
            };
            let (key, flags) = (state.keys.add(number), flags as c_int);
            let argument = executor::initialize_key(key, operator, flags, strategy as u16);
            *state.arguments.add(number) =
                pg_sys::ExecInitExpr(argument, &raw mut state.node.ss.ps);
        }
        let conditions = pg_sys::list_delete_first(pg_sys::list_copy((*plan).custom_exprs));
        state.conditions = pg_sys::ExecInitQual(conditions, &raw mut state.node.ss.ps);
    }
}

/// `ExecCustomScan`. See [`executor`] for why it is not guarded.
unsafe extern "C-unwind" fn next_row(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: a node that has begun.
    unsafe { executor::ExecScan(&raw mut (*node).ss, Some(access), Some(recheck)) }
}

/// Returns the next row, or null at the end. An ERROR leaps over this frame.
unsafe extern "C-unwind" fn access(node: *mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: a node that has begun. Its first child makes a bitmap.
    unsafe {
        let state = node.cast::<FilteredScan>();
        if !(*state).is_started {
            compute_keys(state);
            let child = bitmap_node(state);
            let mut bitmap = std::ptr::null_mut();
            if !rows::find(&raw mut (*state).found, child, (*node).ss_currentRelation) {
                bitmap = executor::MultiExecProcNode(child);
            }
            start(state, bitmap.cast());
        }
        let slot = (*node).ss_ScanTupleSlot;
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        while executor::index_getnext_slot((*state).scan, forward, slot) {
            if !(*(*state).scan).xs_recheck || recheck(node, slot) {
                return slot;
            }
            pg_sys::MemoryContextReset((*(*node).ps.ps_ExprContext).ecxt_per_tuple_memory);
        }
        std::ptr::null_mut()
    }
}

/// Returns true if a row that was locked and has changed satisfies the conditions of the scan. Its
/// order is not checked, as in other index scans. An ERROR leaps over this frame.
unsafe extern "C-unwind" fn recheck(
    node: *mut pg_sys::ScanState,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: a node that has begun. The value of a condition is a boolean.
    unsafe {
        let conditions = (*node.cast::<FilteredScan>()).conditions;
        if conditions.is_null() {
            return true;
        }
        let context = (*node).ps.ps_ExprContext;
        (*context).ecxt_scantuple = slot;
        let mut is_null = false;
        executor::evaluate(conditions, context, &mut is_null).value() != 0
    }
}

/// # Safety
/// A node that has begun.
unsafe fn bitmap_node(state: *mut FilteredScan) -> *mut pg_sys::PlanState {
    // SAFETY: the caller's promise. `begin` has added one child.
    unsafe { pg_sys::list_nth((*state).node.custom_ps, 0).cast() }
}

/// Computes the arguments of the operators. An ERROR leaps over this frame.
///
/// # Safety
/// A node that has begun.
unsafe fn compute_keys(state: *mut FilteredScan) {
    // SAFETY: the caller's promise.
    unsafe {
        let context = (*state).key_context;
        pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
        for number in 0..(*state).key_count {
            let argument = *(*state).arguments.add(number);
            executor::compute_key((*state).keys.add(number), argument, context);
        }
    }
}

/// Starts a search that is restricted to the rows of a bitmap, and frees the bitmap. Without one it
/// is restricted to the rows that were found.
#[pg_guard]
unsafe extern "C-unwind" fn start(state: *mut FilteredScan, bitmap: *mut pg_sys::TIDBitmap) {
    // SAFETY: a node that has begun, and the bitmap that its child has made, or null.
    unsafe {
        let state = &mut *state;
        let estate = state.node.ss.ps.state;
        let conditions = state.key_count - 1;
        if state.scan.is_null() {
            let (table, index) = (state.node.ss.ss_currentRelation, state.index);
            let counts = std::ptr::null_mut();
            state.scan = executor::begin_index_scan(estate, table, index, counts, conditions, 1);
        }
        let mut given = GivenRows::default();
        let filled = if bitmap.is_null() {
            state.found.give(&mut given)
        } else {
            executor::each_block(bitmap, |block, offsets| match offsets {
                Some(offsets) => given.add_rows(block, offsets),
                None => given.add_block(block),
            })
        };
        if filled.is_err() {
            Error::out_of_memory("the rows of a filter").raise();
        }
        if !bitmap.is_null() {
            pg_sys::tbm_free(bitmap);
        }
        let (blocks, rows) = given.count();
        state.given_rows += rows as i64;
        state.given_blocks += blocks as i64;
        pg_sys::index_rescan(
            state.scan,
            state.keys.add(1),
            conditions as c_int,
            state.keys,
            1,
        );
        scan_of::<Bm25Scan>(state.scan).restrict(given);
        state.is_started = true;
    }
}

/// `ReScanCustomScan`
#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: a node that has begun.
    unsafe {
        executor::rescan_children(&raw mut (*node).ss.ps, (*node).custom_ps);
        pg_sys::ExecScanReScan(&raw mut (*node).ss);
        (*node.cast::<FilteredScan>()).is_started = false;
    }
}

/// `EndCustomScan`
#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: a node that has begun, and has not ended.
    unsafe {
        let state = &mut *node.cast::<FilteredScan>();
        if !state.scan.is_null() {
            pg_sys::index_endscan(state.scan);
            state.scan = std::ptr::null_mut();
        }
        rows::end(&raw mut state.found);
        if !state.index.is_null() {
            pg_sys::index_close(state.index, pg_sys::NoLock as pg_sys::LOCKMODE);
            state.index = std::ptr::null_mut();
        }
        executor::end_children(&state.node);
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
        let state = &*node.cast::<FilteredScan>();
        let plan = state.node.ss.ps.plan.cast::<pg_sys::CustomScan>();
        explain_search(plan, index_of(plan), ancestors, output);
        if (*output).analyze {
            explain_number(c"Filtered Rows", state.given_rows, output);
            if state.given_blocks > 0 {
                explain_number(c"Lossy Heap Blocks", state.given_blocks, output);
            }
        }
    }
}
