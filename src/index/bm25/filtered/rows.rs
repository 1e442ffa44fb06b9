//! Rows that a single index has for a filter.
//!
//! A bitmap of a few thousand rows takes longer to fill and to read than the scan of the index that
//! it is for. So the rows are read one by one, and put in order.
#![allow(unsafe_code)] // nodes of a plan

use pgrx::{is_a, pg_guard, pg_sys};
use rag_bm25::GivenRows;
use rag_pages::{Tid, memory::OutOfMemory};

use crate::{
    index::am::tid::from_pointer,
    pg::{executor, memory::work_mem},
};

/// Bytes of `work_mem` that a row may take, here and where it is given to the search.
const BYTES_PER_ROW: usize = 32;
/// Number of rows that there is room for at first.
const FIRST_ROOM: usize = 1024;

/// The rows, and the scan that has found them. All zeros before the first search. It is in the
/// executor's memory context, and has nothing to drop.
#[derive(Debug)]
pub struct FoundRows {
    scan: pg_sys::IndexScanDesc,
    places: *mut Tid,
    count: usize,
    /// Number of places that there is memory for.
    room: usize,
}

impl FoundRows {
    /// Adds the rows to those that a search is restricted to.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn give(&mut self, given: &mut GivenRows) -> Result<(), OutOfMemory> {
        if self.count == 0 {
            return Ok(());
        }
        // SAFETY: `find` has written so many.
        let places = unsafe { std::slice::from_raw_parts_mut(self.places, self.count) };
        places.sort_unstable_by_key(|place| place.key());
        let mut last = None;
        for place in places.iter().copied() {
            // an index may return a row twice
            if last.replace(place) != Some(place) {
                given.add_row(place)?;
            }
        }
        Ok(())
    }
}

/// Ends the scan.
///
/// # Safety
/// `find` has begun it, or it is null.
#[pg_guard]
pub unsafe extern "C-unwind" fn end(rows: *mut FoundRows) {
    // SAFETY: the caller's promise.
    unsafe {
        if !(*rows).scan.is_null() {
            pg_sys::index_endscan((*rows).scan);
            (*rows).scan = std::ptr::null_mut();
        }
    }
}

/// Reads the rows of a node that would fill a bitmap. Returns false if that is to do it, because it
/// is not the scan of a single index, the index only has bitmaps, or `work_mem` has no room for the
/// rows. An ERROR leaps over this frame.
///
/// # Safety
/// The rows found before, if any, were those of the same node. The node has begun.
pub unsafe fn find(
    rows: *mut FoundRows,
    node: *mut pg_sys::PlanState,
    table: pg_sys::Relation,
) -> bool {
    // SAFETY: the caller's promise; the tag says of which type the node is. The keys are those of
    // the node's own scan, and have no arrays that only it can go through.
    unsafe {
        if !is_a(node.cast(), pg_sys::NodeTag::T_BitmapIndexScanState) {
            return false;
        }
        let bitmap = node.cast::<pg_sys::BitmapIndexScanState>();
        let index = (*bitmap).biss_RelationDesc;
        let limit = work_mem() / BYTES_PER_ROW;
        if (*bitmap).biss_NumArrayKeys != 0
            || (*(*index).rd_indam).amgettuple.is_none()
            || (*(*node).plan).plan_rows > limit as f64
        {
            return false;
        }
        let lacks_keys = (*bitmap).biss_NumRuntimeKeys != 0 && !(*bitmap).biss_RuntimeKeysReady;
        if lacks_keys || !(*node).chgParam.is_null() {
            executor::ExecReScan(node);
        }
        let instrumentation = (*node).instrument;
        if !instrumentation.is_null() {
            executor::InstrStartNode(instrumentation);
        }
        begin(rows, bitmap, table);
        let is_complete = read(rows, limit, (*(*node).state).es_query_cxt);
        if !is_complete {
            end(rows); // it may have a page pinned
        }
        if !instrumentation.is_null() {
            let count = if is_complete { (*rows).count } else { 0 };
            executor::InstrStopNode(instrumentation, count as f64);
        }
        is_complete
    }
}

/// Begins a scan with the keys of a node.
#[pg_guard]
unsafe extern "C-unwind" fn begin(
    rows: *mut FoundRows,
    bitmap: *mut pg_sys::BitmapIndexScanState,
    table: pg_sys::Relation,
) {
    // SAFETY: the promise of `find`'s caller.
    unsafe {
        let count = (*bitmap).biss_NumScanKeys;
        if (*rows).scan.is_null() {
            let estate = (*bitmap).ss.ps.state;
            #[cfg(feature = "pg18")]
            let counts = &raw mut (*bitmap).biss_Instrument;
            #[cfg(not(feature = "pg18"))]
            let counts = std::ptr::null_mut();
            let (index, conditions) = ((*bitmap).biss_RelationDesc, count as usize);
            (*rows).scan = executor::begin_index_scan(estate, table, index, counts, conditions, 0);
        }
        let none = std::ptr::null_mut();
        pg_sys::index_rescan((*rows).scan, (*bitmap).biss_ScanKeys, count, none, 0);
    }
}

/// Reads rows, at most as many as `limit`. Returns whether these are all. An ERROR leaps over this
/// frame.
unsafe fn read(rows: *mut FoundRows, limit: usize, memory: pg_sys::MemoryContext) -> bool {
    let forward = pg_sys::ScanDirection::ForwardScanDirection;
    // SAFETY: a scan that `begin` has begun.
    unsafe {
        (*rows).count = 0;
        while let Some(row) = executor::index_getnext_tid((*rows).scan, forward).as_ref() {
            executor::check_interrupts();
            if (*rows).count == (*rows).room {
                if (*rows).count >= limit {
                    return false;
                }
                make_room(rows, limit, memory);
            }
            *(*rows).places.add((*rows).count) = from_pointer(*row);
            (*rows).count += 1;
        }
        true
    }
}

/// Makes room for more rows.
#[pg_guard]
unsafe extern "C-unwind" fn make_room(
    rows: *mut FoundRows,
    limit: usize,
    memory: pg_sys::MemoryContext,
) {
    // SAFETY: the promise of `find`'s caller. The places stay in their memory context.
    unsafe {
        let rows = &mut *rows;
        let room = (rows.room * 2).max(FIRST_ROOM).min(limit);
        let bytes = room * size_of::<Tid>();
        rows.places = if rows.places.is_null() {
            pg_sys::MemoryContextAllocHuge(memory, bytes)
        } else {
            pg_sys::repalloc_huge(rows.places.cast(), bytes)
        }
        .cast();
        rows.room = room;
    }
}
