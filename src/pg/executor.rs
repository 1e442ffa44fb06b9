//! Functions of the executor that run other nodes of a plan, and what is called before statements
//! with parallel workers.
//!
//! They are not called through pgrx, which would take every ERROR of the nodes apart and raise it
//! again without its context. An ERROR leaps over the frames of the callers, which have nothing to
//! drop.
#![allow(unsafe_code)] // nodes of a plan

use std::{ffi::c_int, sync::OnceLock};

use pgrx::{PgList, pg_guard, pg_sys};

use super::memory;
use crate::error::Error;

unsafe extern "C-unwind" {
    // executor/executor.h
    fn standard_ExecutorStart(query: *mut pg_sys::QueryDesc, flags: c_int);
    pub fn ExecScan(
        node: *mut pg_sys::ScanState,
        access: pg_sys::ExecScanAccessMtd,
        recheck: pg_sys::ExecScanRecheckMtd,
    ) -> *mut pg_sys::TupleTableSlot;
    pub fn MultiExecProcNode(node: *mut pg_sys::PlanState) -> *mut pg_sys::Node;
    pub fn ExecReScan(node: *mut pg_sys::PlanState);
    // executor/instrument.h
    pub fn InstrStartNode(instrumentation: *mut pg_sys::Instrumentation);
    pub fn InstrStopNode(instrumentation: *mut pg_sys::Instrumentation, tuples: f64);
    // miscadmin.h
    fn ProcessInterrupts();
    // access/genam.h
    pub fn index_getnext_tid(
        scan: pg_sys::IndexScanDesc,
        direction: pg_sys::ScanDirection::Type,
    ) -> pg_sys::ItemPointer;
    pub fn index_getnext_slot(
        scan: pg_sys::IndexScanDesc,
        direction: pg_sys::ScanDirection::Type,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> bool;
    // nodes/tidbitmap.h; raises no ERROR
    #[cfg(not(feature = "pg18"))]
    fn tbm_iterate(iterator: *mut pg_sys::TBMIterator) -> *mut pg_sys::TBMIterateResult;
    #[cfg(feature = "pg18")]
    fn tbm_private_iterate(
        iterator: *mut pg_sys::TBMPrivateIterator,
        found: *mut pg_sys::TBMIterateResult,
    ) -> bool;
    #[cfg(feature = "pg18")]
    fn tbm_extract_page_tuple(
        found: *mut pg_sys::TBMIterateResult,
        offsets: *mut pg_sys::OffsetNumber,
        room: u32,
    ) -> i32;
}

/// Computes an expression in a memory context.
///
/// # Safety
/// An initialized expression, its context, and a memory context.
pub unsafe fn evaluate(
    expression: *mut pg_sys::ExprState,
    context: *mut pg_sys::ExprContext,
    is_null: &mut bool,
) -> pg_sys::Datum {
    // SAFETY: the caller's promise. An ERROR resets the memory context.
    unsafe {
        let Some(function) = (*expression).evalfunc else {
            *is_null = true;
            return pg_sys::Datum::null();
        };
        let before = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = (*context).ecxt_per_tuple_memory;
        let value = function(expression, context, is_null);
        pg_sys::CurrentMemoryContext = before;
        value
    }
}

/// Writes the key of a scan for an operator, without its argument. Returns the argument's
/// expression.
///
/// # Safety
/// A binary operator of a plan.
pub unsafe fn initialize_key(
    key: pg_sys::ScanKey,
    operator: *mut pg_sys::OpExpr,
    flags: i32,
    strategy: u16,
) -> *mut pg_sys::Expr {
    // SAFETY: the caller's promise.
    unsafe {
        let arguments = PgList::<pg_sys::Expr>::from_pg((*operator).args);
        let argument = arguments.get_ptr(1).unwrap_or(std::ptr::null_mut());
        pg_sys::ScanKeyEntryInitialize(
            key,
            flags,
            1,
            strategy,
            pg_sys::exprType(argument.cast()),
            (*operator).inputcollid,
            pg_sys::get_opcode((*operator).opno),
            pg_sys::Datum::null(),
        );
        argument
    }
}

/// Computes the argument of a key. The memory of a context has it until the next one is computed.
/// An ERROR leaps over this frame.
///
/// # Safety
/// A key and its argument, and a context that has no other values.
pub unsafe fn compute_key(
    key: pg_sys::ScanKey,
    argument: *mut pg_sys::ExprState,
    context: *mut pg_sys::ExprContext,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut is_null = false;
        (*key).sk_argument = evaluate(argument, context, &mut is_null);
        let null = pg_sys::SK_ISNULL as i32;
        (*key).sk_flags = ((*key).sk_flags & !null) | if is_null { null } else { 0 };
    }
}

/// Returns the next row of a node, or null at the end. An ERROR leaps over the caller's frame.
///
/// # Safety
/// A node that has begun.
#[inline]
pub unsafe fn next_row(node: *mut pg_sys::PlanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the caller's promise. As the inline function ExecProcNode does it.
    unsafe {
        if !(*node).chgParam.is_null() {
            ExecReScan(node);
        }
        let slot = match (*node).ExecProcNode {
            Some(execute) => execute(node),
            None => std::ptr::null_mut(),
        };
        if is_empty(slot) {
            std::ptr::null_mut()
        } else {
            slot
        }
    }
}

/// Returns true if a slot has no row.
///
/// # Safety
/// Null or a slot.
#[inline]
pub unsafe fn is_empty(slot: *const pg_sys::TupleTableSlot) -> bool {
    // SAFETY: the caller's promise.
    unsafe { slot.is_null() || u32::from((*slot).tts_flags) & pg_sys::TTS_FLAG_EMPTY != 0 }
}

/// Begins the nodes below a custom scan. They are not read backward.
///
/// # Safety
/// A node that begins, with its plan.
pub unsafe fn begin_children(
    node: &mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    flags: i32,
) {
    let unsupported = (pg_sys::EXEC_FLAG_BACKWARD | pg_sys::EXEC_FLAG_MARK) as i32;
    // SAFETY: the caller's promise.
    unsafe {
        let plan = node.ss.ps.plan.cast::<pg_sys::CustomScan>();
        for child in PgList::<pg_sys::Plan>::from_pg((*plan).custom_plans).iter_ptr() {
            let child = pg_sys::ExecInitNode(child, estate, flags & !unsupported);
            node.custom_ps = pg_sys::lappend(node.custom_ps, child.cast());
        }
    }
}

/// Ends the nodes below a custom scan.
///
/// # Safety
/// A node that has begun, and has not ended.
pub unsafe fn end_children(node: &pg_sys::CustomScanState) {
    // SAFETY: the caller's promise.
    unsafe {
        for child in PgList::<pg_sys::PlanState>::from_pg(node.custom_ps).iter_ptr() {
            pg_sys::ExecEndNode(child);
        }
    }
}

/// Gives a scan of a table the slot that the table's rows are stored in, and compiles its columns
/// and conditions again for that. Before PostgreSQL 16 every custom scan has a virtual slot, in
/// which rows lack their system columns.
///
/// # Safety
/// A scan that begins.
pub unsafe fn use_slot_of_table(scan: *mut pg_sys::ScanState, estate: *mut pg_sys::EState) {
    // SAFETY: the caller's promise.
    unsafe {
        let table = (*scan).ss_currentRelation;
        let operations = pg_sys::table_slot_callbacks(table);
        pg_sys::ExecInitScanTupleSlot(estate, scan, (*table).rd_att, operations);
        pg_sys::ExecAssignScanProjectionInfo(scan);
        let plan = (*scan).ps.plan;
        (*scan).ps.qual = pg_sys::ExecInitQual((*plan).qual, &raw mut (*scan).ps);
    }
}

/// Checks whether the statement was cancelled. An ERROR leaps over the frame of the caller.
///
/// # Safety
/// The caller has nothing to drop.
#[inline]
pub unsafe fn check_interrupts() {
    // SAFETY: the caller's promise. A signal may set the variable at any time.
    unsafe {
        if (&raw const pg_sys::InterruptPending).read_volatile() != 0 {
            ProcessInterrupts();
        }
    }
}

/// What counts the searches of an index scan for EXPLAIN, where the server does.
#[cfg(feature = "pg18")]
pub type ScanCounts = pg_sys::IndexScanInstrumentation;
#[cfg(not(feature = "pg18"))]
pub type ScanCounts = std::ffi::c_void;

/// Begins an index scan of a statement. It is in the memory context of the statement, and not that
/// of a row.
///
/// # Safety
/// A statement that is executed, and open relations. `counts` is null, or lives as long as the
/// scan.
pub unsafe fn begin_index_scan(
    estate: *mut pg_sys::EState,
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    counts: *mut ScanCounts,
    conditions: usize,
    orders: usize,
) -> pg_sys::IndexScanDesc {
    let (conditions, orders) = (conditions as i32, orders as i32);
    // SAFETY: the caller's promise.
    unsafe {
        let snapshot = (*estate).es_snapshot;
        let before = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = (*estate).es_query_cxt;
        #[cfg(not(feature = "pg18"))]
        let scan = {
            let _ = counts;
            pg_sys::index_beginscan(table, index, snapshot, conditions, orders)
        };
        #[cfg(feature = "pg18")]
        let scan = pg_sys::index_beginscan(table, index, snapshot, counts, conditions, orders);
        pg_sys::CurrentMemoryContext = before;
        scan
    }
}

/// Calls `f` with the blocks of a bitmap in ascending order: with their rows, or `None` for a block
/// of which all rows may be meant.
///
/// # Safety
/// A bitmap that is not iterated over.
pub unsafe fn each_block<E>(
    bitmap: *mut pg_sys::TIDBitmap,
    mut f: impl FnMut(u32, Option<&[u16]>) -> Result<(), E>,
) -> Result<(), E> {
    // SAFETY: the caller's promise. A block has not more rows than a page has room for.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        {
            let iterator = pg_sys::tbm_begin_iterate(bitmap);
            let mut result = Ok(());
            while let Some(found) = tbm_iterate(iterator).as_ref()
                && result.is_ok()
            {
                let offsets = usize::try_from(found.ntuples).ok();
                let offsets = offsets.map(|count| found.offsets.as_slice(count));
                result = f(found.blockno, offsets);
            }
            pg_sys::tbm_end_iterate(iterator);
            result
        }
        #[cfg(feature = "pg18")]
        {
            let iterator = pg_sys::tbm_begin_private_iterate(bitmap);
            let mut result = Ok(());
            let mut found = pg_sys::TBMIterateResult::default();
            let mut offsets = [0_u16; pg_sys::BLCKSZ as usize / size_of::<pg_sys::ItemIdData>()];
            while result.is_ok() && tbm_private_iterate(iterator, &mut found) {
                if found.lossy {
                    result = f(found.blockno, None);
                    continue;
                }
                let room = offsets.len() as u32;
                let count = tbm_extract_page_tuple(&mut found, offsets.as_mut_ptr(), room);
                let count = usize::try_from(count).unwrap_or(0).min(offsets.len());
                result = f(found.blockno, Some(&offsets[..count]));
            }
            pg_sys::tbm_end_private_iterate(iterator);
            result
        }
    }
}

/// Resets the nodes below a node, so that they compute their rows again with changed parameters.
///
/// # Safety
/// A node, and a list of nodes below it.
pub unsafe fn rescan_children(node: *mut pg_sys::PlanState, children: *mut pg_sys::List) {
    // SAFETY: the caller's promise.
    unsafe {
        for child in PgList::<pg_sys::PlanState>::from_pg(children).iter_ptr() {
            if !(*node).chgParam.is_null() {
                pg_sys::UpdateChangedParamSet(child, (*node).chgParam);
            }
            // otherwise it is scanned again when it is asked for its first row
            if (*child).chgParam.is_null() {
                pg_sys::ExecReScan(child);
            }
        }
    }
}

// -- statements with parallel workers

type BeforeParallel = fn() -> Result<(), Error>;

static BEFORE_PARALLEL: OnceLock<BeforeParallel> = OnceLock::new();
static NEXT_START: OnceLock<pg_sys::ExecutorStart_hook_type> = OnceLock::new();

/// Registers a callback for each statement that may have parallel workers, before it starts, and
/// keeps memory in reserve for the errors of each statement. Called while the library is loaded.
pub fn watch_parallel_statements(callback: BeforeParallel) {
    // SAFETY: a variable of the process, set while the library is being loaded.
    unsafe {
        if BEFORE_PARALLEL.set(callback).is_ok()
            && NEXT_START.set(pg_sys::ExecutorStart_hook).is_ok()
        {
            pg_sys::ExecutorStart_hook = Some(start);
        }
    }
}

unsafe extern "C-unwind" fn start(query: *mut pg_sys::QueryDesc, flags: c_int) {
    // SAFETY: as the server calls it.
    unsafe {
        memory::require_reserve();
        if (*(*query).plannedstmt).parallelModeNeeded {
            before_parallel();
        }
        match NEXT_START.get().copied().flatten() {
            Some(next) => next(query, flags),
            None => standard_ExecutorStart(query, flags),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn before_parallel() {
    if let Some(callback) = BEFORE_PARALLEL.get() {
        callback().unwrap_or_else(|error| error.raise());
    }
}
