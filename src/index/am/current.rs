//! The row that an index scan of this backend has returned last.
//!
//! An operator that orders rows is also computed for each row that the scan returns, because the
//! planner puts what a query orders by among its columns. An access method that knows the value can
//! spare the work. Operators get only values, not rows. So this finds out whether a value is the
//! one that is stored in that row: whether both are at the same place in memory. Values of
//! expressions are compared.
#![allow(unsafe_code)] // heap rows on their pages

use std::cell::Cell;

use pgrx::pg_sys;

use rag_pages::Tid;

use super::{
    heap::HeapRows,
    relation::{Index, Value},
};

/// A row that a scan has returned.
#[derive(Clone, Copy)]
struct CurrentRow {
    /// It exists.
    scan: pg_sys::IndexScanDesc,
    /// The place that the index has of the row.
    tid: Tid,
    /// The heap rows of the scan, which exist as long as it does. An access method opens them for
    /// an index on an expression, if it wants the expression to be recognized.
    rows: *mut Option<HeapRows<'static>>,
}

thread_local! {
    /// The row that was returned last.
    static CURRENT: Cell<Option<CurrentRow>> = const { Cell::new(None) };
}

/// Remembers that a scan has returned a row.
///
/// # Safety
/// `rows` exist as long as the scan. [`forget`] is called before it ends.
pub(super) unsafe fn remember(
    scan: pg_sys::IndexScanDesc,
    tid: Tid,
    rows: *mut Option<HeapRows<'static>>,
) {
    CURRENT.set(Some(CurrentRow { scan, tid, rows }));
}

/// Forgets a scan that ends, or that has returned no row.
pub(super) fn forget(scan: pg_sys::IndexScanDesc) {
    if CURRENT.get().is_some_and(|current| current.scan == scan) {
        CURRENT.set(None);
    }
}

/// Forgets the scan that has returned a row last.
pub(super) fn forget_all() {
    CURRENT.set(None);
}

/// Returns the index whose scan has returned a row last, if `value` is what the index has of the
/// row. The text of an expression is compared with the one that the expression gives again, which
/// is far cheaper than making words of it.
pub fn index_of_row_with(value: Value<'_>) -> Option<pg_sys::Oid> {
    let CurrentRow { scan, tid, rows } = CURRENT.get()?;
    // SAFETY: the scan exists, and so do its rows. Nobody else uses them now.
    unsafe {
        let index = Index::from_raw((*scan).indexRelation);
        if index.column().is_none() {
            let has_text = (*rows).as_mut()?.has_text(tid, value);
            return has_text.then(|| index.id());
        }
    }
    // SAFETY: the scan exists. Its table is a heap, so that it has a pin on the page of the row
    // that it has fetched last. The server has written the place of that row into the scan.
    unsafe {
        let scan = &*scan;
        let table = scan.heapRelation;
        if scan.xs_heapfetch.is_null() || (*table).rd_tableam != pg_sys::GetHeapamTableAmRoutine() {
            return None;
        }
        let index = Index::from_raw(scan.indexRelation);
        let column = index.column()?;
        let buffer = (*scan.xs_heapfetch.cast::<pg_sys::IndexFetchHeapData>()).xs_cbuf;
        if buffer == pg_sys::InvalidBuffer as pg_sys::Buffer {
            return None;
        }
        let (block, offset) = pgrx::itemptr::item_pointer_get_both(scan.xs_heaptid);
        if pg_sys::BufferGetBlockNumber(buffer) != block {
            return None;
        }
        let page = pg_sys::BufferGetPage(buffer);
        if offset == 0 || offset > pg_sys::PageGetMaxOffsetNumber(page) {
            return None;
        }
        let item = pg_sys::PageGetItemId(page, offset);
        if (*item).lp_flags() != pg_sys::LP_NORMAL {
            return None; // the place of another version was not found yet
        }
        let mut row = pg_sys::HeapTupleData {
            t_len: (*item).lp_len(),
            t_self: scan.xs_heaptid,
            t_tableOid: (*table).rd_id,
            t_data: pg_sys::PageGetItem(page, item).cast(),
        };
        let mut is_null = false;
        let stored =
            pg_sys::heap_getattr(&mut row, i32::from(column), (*table).rd_att, &mut is_null);
        (!is_null && value.is_at(stored)).then(|| index.id())
    }
}
