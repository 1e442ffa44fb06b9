//! How the plan is executed and explained.
#![allow(unsafe_code)] // nodes of a plan

use std::ffi::c_int;

use pgrx::{PgList, PgMemoryContexts, pg_guard, pg_sys};
use rag_ann::{progress::Progress, ranked::RankedRows};
use rag_pages::memory::OutOfMemory;

use super::NAME;
use crate::{
    error::Error,
    index::{
        am::tid::{from_pointer, to_pointer},
        hnsw::opclass::ORDER_STRATEGY,
    },
    pg::{
        custom_scan::{explain_number, explain_search, scan_node},
        executor,
        memory::work_mem,
    },
};

scan_node!(NAME, AdaptiveScan);

/// Where the rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    NotStarted = 0,
    /// The index returns rows.
    Index,
    /// Rows of the filter are ranked.
    Ranking,
    Complete,
}

/// The state of a node. It is in the executor's memory context, and has nothing to drop.
#[repr(C)]
struct AdaptiveScan {
    node: pg_sys::CustomScanState,
    index: pg_sys::Relation,
    /// Null until the first row is wanted.
    scan: pg_sys::IndexScanDesc,
    /// The operator that rows are ordered by, and its right argument.
    key: pg_sys::ScanKeyData,
    argument: *mut pg_sys::ExprState,
    /// Its memory holds the value of the argument, until the next search.
    key_context: *mut pg_sys::ExprContext,
    /// The distance of a row.
    distance: *mut pg_sys::ExprState,
    progress: Progress,
    /// Number of rows of the index that have passed the filter.
    found: usize,
    phase: Phase,
    /// Dropped with the executor's memory context. Null until the first row is wanted.
    rows: *mut RankedRows,
    /// Numbers of rows of all searches, for EXPLAIN.
    index_count: i64,
    ranked_count: i64,
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
        let state = &mut *node.cast::<AdaptiveScan>();
        executor::use_slot_of_table(&raw mut state.node.ss, estate);
        let plan = state.node.ss.ps.plan.cast::<pg_sys::CustomScan>();
        executor::begin_children(&mut state.node, estate, flags);
        if flags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as c_int != 0 {
            return;
        }
        let index = index_of(plan);
        let entry = pg_sys::exec_rt_fetch((*plan).scan.scanrelid, estate);
        state.index = pg_sys::index_open(index, (*entry).rellockmode);

        let operators = PgList::<pg_sys::OpExpr>::from_pg((*plan).custom_exprs);
        let operator = operators.get_ptr(0).unwrap_or(std::ptr::null_mut());
        let order = pg_sys::SK_ORDER_BY as c_int;
        let argument =
            executor::initialize_key(&raw mut state.key, operator, order, ORDER_STRATEGY);
        state.key_context = pg_sys::CreateExprContext(estate);
        state.argument = pg_sys::ExecInitExpr(argument, &raw mut state.node.ss.ps);
        state.distance = pg_sys::ExecInitExpr(operator.cast(), &raw mut state.node.ss.ps);
    }
}

/// Returns the index that a plan scans.
///
/// # Safety
/// A plan of `super::path`.
unsafe fn index_of(plan: *mut pg_sys::CustomScan) -> pg_sys::Oid {
    // SAFETY: the caller's promise: a list with the id, then numbers.
    unsafe {
        let id = PgList::<pg_sys::Oid>::from_pg(pg_sys::list_nth((*plan).custom_private, 0).cast());
        id.get_oid(0).unwrap_or(pg_sys::InvalidOid)
    }
}

/// Returns how a search of a plan begins.
///
/// # Safety
/// A plan of `super::path`.
unsafe fn progress_of(plan: *mut pg_sys::CustomScan) -> Progress {
    // SAFETY: the caller's promise.
    unsafe {
        let number = |place| {
            let number = pg_sys::list_nth((*plan).custom_private, place);
            usize::try_from((*number.cast::<pg_sys::Integer>()).ival).unwrap_or(0)
        };
        Progress::new(number(1), number(2))
    }
}

/// `ExecCustomScan`. See [`executor`] for why it is not guarded.
unsafe extern "C-unwind" fn next_row(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: a node that has begun.
    unsafe {
        let row = executor::ExecScan(&raw mut (*node).ss, Some(access), Some(recheck));
        (*node.cast::<AdaptiveScan>()).found += 1;
        row
    }
}

/// Returns true: a row that was locked and has changed is not ordered again, as in other index
/// scans.
unsafe extern "C-unwind" fn recheck(
    _node: *mut pg_sys::ScanState,
    _slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    true
}

/// Returns the next row, or null at the end. An ERROR leaps over this frame.
unsafe extern "C-unwind" fn access(node: *mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: a node that has begun.
    unsafe {
        let state = node.cast::<AdaptiveScan>();
        let slot = (*node).ss_ScanTupleSlot;
        if (*state).phase == Phase::NotStarted {
            compute_key(state);
            start(state);
        }
        if (*state).phase == Phase::Index {
            let (read, found) = ((*(*state).rows).returned_count(), (*state).found);
            if (*state).progress.goes_on(read, found) {
                let forward = pg_sys::ScanDirection::ForwardScanDirection;
                if executor::index_getnext_slot((*state).scan, forward, slot) {
                    (*state).index_count += 1;
                    let added = (*(*state).rows).add_returned(from_pointer((*slot).tts_tid));
                    raise_if_refused(added);
                    return slot;
                }
                (*state).phase = Phase::Complete;
                return std::ptr::null_mut();
            }
            let last = distance_of(state, slot);
            (*(*state).rows).begin(last);
            rank_rows(state);
            (*state).phase = Phase::Ranking;
        }
        if (*state).phase == Phase::Ranking && next_ranked(state, slot) {
            return slot;
        }
        (*state).phase = Phase::Complete;
        std::ptr::null_mut()
    }
}

/// Fetches the next ranked row. Returns false if there is none. An ERROR leaps over this frame.
///
/// # Safety
/// A node whose rows are ranked.
unsafe fn next_ranked(state: *mut AdaptiveScan, slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        loop {
            while let Some(row) = (*(*state).rows).take() {
                if fetch(state, &mut to_pointer(row), slot) {
                    return true;
                }
            }
            if !(*(*state).rows).needs_rows() {
                return false;
            }
            executor::ExecReScan(filter_node(state));
            rank_rows(state);
        }
    }
}

/// Fetches a row by its place. Returns false if the snapshot does not see it. An ERROR leaps over
/// this frame.
///
/// # Safety
/// A node that has begun.
unsafe fn fetch(
    state: *mut AdaptiveScan,
    place: &mut pg_sys::ItemPointerData,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let table = (*state).node.ss.ss_currentRelation;
        let snapshot = (*(*state).node.ss.ps.state).es_snapshot;
        let fetch = (*(*table).rd_tableam).tuple_fetch_row_version;
        fetch.is_some_and(|fetch| fetch(table, place, snapshot, slot))
    }
}

/// Adds the rows that pass the filter. An ERROR leaps over this frame.
///
/// # Safety
/// A node that has begun. Its child returns the place and the distance of each row.
unsafe fn rank_rows(state: *mut AdaptiveScan) {
    // SAFETY: the caller's promise.
    unsafe {
        let child = filter_node(state);
        while let Some(slot) = executor::next_row(child).as_ref() {
            executor::check_interrupts();
            let values = [*slot.tts_values, *slot.tts_values.add(1)];
            if *slot.tts_isnull.add(1) {
                continue; // the index does not have it
            }
            let place = from_pointer(*values[0].cast_mut_ptr::<pg_sys::ItemPointerData>());
            let distance = f64::from_bits(values[1].value() as u64);
            let added = (*(*state).rows).add(place, distance);
            raise_if_refused(added);
            (*state).ranked_count += 1;
        }
    }
}

/// Returns the distance of the row in a slot, if there is one. An ERROR leaps over this frame.
///
/// # Safety
/// A node that has begun.
unsafe fn distance_of(state: *mut AdaptiveScan, slot: *mut pg_sys::TupleTableSlot) -> Option<f64> {
    // SAFETY: the caller's promise. The value of the operator is a double precision.
    unsafe {
        if executor::is_empty(slot) {
            return None;
        }
        let context = (*state).node.ss.ps.ps_ExprContext;
        (*context).ecxt_scantuple = slot;
        let mut is_null = false;
        let value = executor::evaluate((*state).distance, context, &mut is_null);
        (!is_null).then(|| f64::from_bits(value.value() as u64))
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn raise_refused() {
    Error::out_of_memory("the rows of a filter").raise();
}

#[inline]
fn raise_if_refused(result: Result<(), OutOfMemory>) {
    if result.is_err() {
        // SAFETY: it only raises an ERROR.
        unsafe { raise_refused() };
    }
}

/// Returns the node that reads the rows of the filter.
///
/// # Safety
/// A node that has begun.
unsafe fn filter_node(state: *mut AdaptiveScan) -> *mut pg_sys::PlanState {
    // SAFETY: the caller's promise. `begin` has added one child.
    unsafe { pg_sys::list_nth((*state).node.custom_ps, 0).cast() }
}

/// Computes the argument of the operator. An ERROR leaps over this frame.
///
/// # Safety
/// A node that has begun.
unsafe fn compute_key(state: *mut AdaptiveScan) {
    // SAFETY: the caller's promise.
    unsafe {
        executor::compute_key(
            &raw mut (*state).key,
            (*state).argument,
            (*state).key_context,
        )
    }
}

/// Starts a search.
#[pg_guard]
unsafe extern "C-unwind" fn start(state: *mut AdaptiveScan) {
    // SAFETY: a node that has begun.
    unsafe {
        let state = &mut *state;
        let estate = state.node.ss.ps.state;
        if state.scan.is_null() {
            let (table, index) = (state.node.ss.ss_currentRelation, state.index);
            let counts = std::ptr::null_mut();
            state.scan = executor::begin_index_scan(estate, table, index, counts, 0, 1);
            let mut memory = PgMemoryContexts::For((*estate).es_query_cxt);
            state.rows = memory.leak_and_drop_on_delete(RankedRows::default());
        }
        (*state.rows).reset(work_mem() / RankedRows::BYTES_PER_ROW);
        pg_sys::ExecClearTuple(state.node.ss.ss_ScanTupleSlot);
        let none = std::ptr::null_mut();
        pg_sys::index_rescan(state.scan, none, 0, &raw mut state.key, 1);
        state.progress = progress_of(state.node.ss.ps.plan.cast());
        state.found = 0;
        state.phase = Phase::Index;
    }
}

/// `ReScanCustomScan`
#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: a node that has begun.
    unsafe {
        executor::rescan_children(&raw mut (*node).ss.ps, (*node).custom_ps);
        pg_sys::ExecScanReScan(&raw mut (*node).ss);
        (*node.cast::<AdaptiveScan>()).phase = Phase::NotStarted;
    }
}

/// `EndCustomScan`
#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: a node that has begun, and has not ended.
    unsafe {
        let state = &mut *node.cast::<AdaptiveScan>();
        if !state.scan.is_null() {
            pg_sys::index_endscan(state.scan);
            state.scan = std::ptr::null_mut();
        }
        executor::end_children(&state.node);
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
        let state = &*node.cast::<AdaptiveScan>();
        let plan = state.node.ss.ps.plan.cast::<pg_sys::CustomScan>();
        explain_search(plan, index_of(plan), ancestors, output);
        if (*output).analyze {
            explain_number(c"Rows from Index", state.index_count, output);
            explain_number(c"Ranked Rows", state.ranked_count, output);
        }
    }
}
