//! Functions of the executor that run other nodes of a plan.
//!
//! They are not called through pgrx, which would take every ERROR of the nodes apart and raise it
//! again without its context. An ERROR leaps over the frames of the callers, which have nothing to
//! drop.
#![allow(unsafe_code)] // nodes of a plan

use pgrx::{PgList, pg_sys};

unsafe extern "C-unwind" {
    // executor/executor.h
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
