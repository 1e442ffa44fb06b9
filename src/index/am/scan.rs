//! Scans of an index.
#![allow(unsafe_code)] // callbacks that PostgreSQL calls with pointers

use std::ffi::c_int;

use pgrx::{PgMemoryContexts, pg_sys, pg_sys::panic::pgrx_extern_c_guard as guard};
use rag_pages::Tid;

use super::{
    AccessMethod, IndexScan, current,
    heap::{HeapRows, Snapshot},
    relation::{Index, LockedIndex, Relation, Value, ValueType},
    tid,
};
use crate::error::Error;

/// Number of rows that are added to a bitmap at once.
const BITMAP_PORTION: usize = 256;

/// What hangs on a scan descriptor. It is dropped with the memory context of the scan.
struct ScanState<S> {
    descriptor: pg_sys::IndexScanDesc,
    scan: S,
    search: SearchState,
    /// Kept from one search to the next. They are open until the scan ends.
    rows: Option<HeapRows<'static>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchState {
    NotStarted,
    Started,
    /// The index has nothing to find.
    Empty,
}

impl<S> Drop for ScanState<S> {
    /// Also called if an ERROR ends the scan.
    fn drop(&mut self) {
        current::forget(self.descriptor);
    }
}

impl<S: IndexScan> ScanState<S> {
    fn end_search(&mut self) {
        current::forget(self.descriptor);
        self.scan.end();
        self.search = SearchState::NotStarted;
    }
}

/// The conditions and orders of a search.
pub struct ScanKeys<'a> {
    descriptor: &'a pg_sys::IndexScanDescData,
}

impl ScanKeys<'_> {
    /// Returns the right argument of each operator that the scan orders by, or `None` for NULL.
    pub fn orders(&self) -> impl ExactSizeIterator<Item = Option<Value<'_>>> {
        let (keys, count) = (
            self.descriptor.orderByData,
            self.descriptor.numberOfOrderBys,
        );
        Self::keys(keys, count).map(|(_, value)| value)
    }

    /// Returns the strategy and the right argument of each operator that rows must satisfy, `None`
    /// for NULL.
    pub fn conditions(&self) -> impl ExactSizeIterator<Item = (u16, Option<Value<'_>>)> {
        Self::keys(self.descriptor.keyData, self.descriptor.numberOfKeys)
    }

    fn keys<'k>(
        keys: pg_sys::ScanKey,
        count: c_int,
    ) -> impl ExactSizeIterator<Item = (u16, Option<Value<'k>>)> {
        let count = if keys.is_null() { 0 } else { count as usize };
        (0..count).map(move |number| {
            // SAFETY: there are as many keys. The operator's right argument is of the key's
            // subtype.
            unsafe {
                let key = &*keys.add(number);
                let is_null = key.sk_flags as u32 & pg_sys::SK_ISNULL != 0;
                let value_type = ValueType::of(key.sk_subtype);
                let value = (!is_null).then(|| Value::from_raw(key.sk_argument, value_type));
                (key.sk_strategy, value)
            }
        })
    }
}

/// The heap rows of a scan. They are opened when they are used first.
pub struct ScanRows<'a> {
    descriptor: &'a pg_sys::IndexScanDescData,
    rows: &'a mut Option<HeapRows<'static>>,
}

impl ScanRows<'_> {
    /// Returns true if the scan fetches rows of the table: it does not if it makes a bitmap.
    pub fn are_fetched(&self) -> bool {
        !self.descriptor.heapRelation.is_null()
    }

    pub fn open(&mut self) -> &mut HeapRows<'static> {
        self.rows.get_or_insert_with(|| {
            // SAFETY: the executor sets table and snapshot before it requests the first row, and
            // keeps them and the index until the scan ends.
            unsafe {
                let table = Relation::from_raw(self.descriptor.heapRelation);
                let index = Index::from_raw(self.descriptor.indexRelation);
                let snapshot = Snapshot::from_raw(self.descriptor.xs_snapshot);
                HeapRows::open(table, index, snapshot)
            }
        })
    }
}

/// Returns the state of a scan. Its references are not kept beyond the call that needs them.
///
/// # Safety
/// A scan of [`begin_scan`]'s that has not ended.
unsafe fn state_of<'a, S>(descriptor: pg_sys::IndexScanDesc) -> &'a mut ScanState<S> {
    // SAFETY: the caller's promise.
    unsafe { &mut *(*descriptor).opaque.cast::<ScanState<S>>() }
}

/// Returns the scan of a descriptor.
///
/// # Safety
/// A scan of an access method with this type of scans that has not ended. The reference is not kept
/// beyond the call that needs it.
pub unsafe fn scan_of<'a, S: IndexScan>(descriptor: pg_sys::IndexScanDesc) -> &'a mut S {
    // SAFETY: the caller's promise.
    unsafe { &mut state_of::<S>(descriptor).scan }
}

/// `ambeginscan`
pub unsafe extern "C-unwind" fn begin_scan<M: AccessMethod>(
    index: pg_sys::Relation,
    keys: c_int,
    orders: c_int,
) -> pg_sys::IndexScanDesc {
    // SAFETY: an open index. The state lives in the memory context that the scan is created in.
    unsafe {
        guard(|| {
            let descriptor = pg_sys::RelationGetIndexScan(index, keys, orders);
            let state: ScanState<M::Scan> = ScanState {
                descriptor,
                scan: M::Scan::default(),
                search: SearchState::NotStarted,
                rows: None,
            };
            (*descriptor).opaque = PgMemoryContexts::CurrentMemoryContext
                .leak_and_drop_on_delete(state)
                .cast();
            descriptor
        })
    }
}

/// `amrescan`
pub unsafe extern "C-unwind" fn rescan<M: AccessMethod>(
    descriptor: pg_sys::IndexScanDesc,
    keys: pg_sys::ScanKey,
    _key_count: c_int,
    orders: pg_sys::ScanKey,
    _order_count: c_int,
) {
    // SAFETY: a scan of `begin_scan`'s, with room for as many keys as it was begun with.
    unsafe {
        guard(|| {
            let scan = &mut *descriptor;
            if !keys.is_null() && scan.numberOfKeys > 0 {
                std::ptr::copy(keys, scan.keyData, scan.numberOfKeys as usize);
            }
            if !orders.is_null() && scan.numberOfOrderBys > 0 {
                std::ptr::copy(orders, scan.orderByData, scan.numberOfOrderBys as usize);
            }
            state_of::<M::Scan>(descriptor).end_search();
        });
    }
}

/// `amgettuple`
pub unsafe extern "C-unwind" fn next_row<M: AccessMethod>(
    descriptor: pg_sys::IndexScanDesc,
    _direction: pg_sys::ScanDirection::Type,
) -> bool {
    // SAFETY: a scan of `begin_scan`'s.
    unsafe {
        guard(|| match next::<M>(descriptor) {
            Ok(Some(tid)) => {
                let rows = &raw mut state_of::<M::Scan>(descriptor).rows;
                current::remember(descriptor, tid, rows);
                (*descriptor).xs_heaptid = tid::to_pointer(tid);
                (*descriptor).xs_recheck = state_of::<M::Scan>(descriptor).scan.needs_recheck();
                (*descriptor).xs_recheckorderby = false;
                true
            }
            Ok(None) => {
                current::forget(descriptor);
                false
            }
            Err(error) => error.raise(),
        })
    }
}

/// `amgetbitmap`
pub unsafe extern "C-unwind" fn fill_bitmap<M: AccessMethod>(
    descriptor: pg_sys::IndexScanDesc,
    bitmap: *mut pg_sys::TIDBitmap,
) -> i64 {
    // SAFETY: a scan of `begin_scan`'s, and a bitmap.
    unsafe {
        guard(|| {
            // no row is fetched, so none is the current one
            current::forget_all();
            let keys = ScanKeys {
                descriptor: &*descriptor,
            };
            if M::Scan::is_for_all_rows(&keys) {
                count_scan(descriptor);
                return add_all_pages((*descriptor).indexRelation, bitmap);
            }
            let mut rows = [pg_sys::ItemPointerData::default(); BITMAP_PORTION];
            let (mut count, mut total) = (0, 0);
            loop {
                let next = next::<M>(descriptor).unwrap_or_else(|error| error.raise());
                if let Some(tid) = next {
                    rows[count] = tid::to_pointer(tid);
                    count += 1;
                }
                if count == BITMAP_PORTION || next.is_none() {
                    let first = rows.as_mut_ptr();
                    let is_checked = state_of::<M::Scan>(descriptor).scan.needs_recheck();
                    pg_sys::tbm_add_tuples(bitmap, first, count as c_int, is_checked);
                    total += count as i64;
                    count = 0;
                }
                if next.is_none() {
                    return total;
                }
            }
        })
    }
}

/// Adds all pages of an index's table to a bitmap: the executor checks each of their rows. Since
/// PostgreSQL 18 the planner prefers this to a plan that a setting disables, whatever it costs.
/// Returns the number of rows, which is not known.
///
/// # Safety
/// An open index whose table is locked, and a bitmap.
unsafe fn add_all_pages(index: pg_sys::Relation, bitmap: *mut pg_sys::TIDBitmap) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        let table = (*(*index).rd_index).indrelid;
        if let Some(open) = LockedIndex::open_for((*index).rd_id, table, pg_sys::NoLock) {
            for block in 0..open.table().block_count() {
                pg_sys::tbm_add_page(bitmap, block);
            }
        }
    }
    0
}

/// # Safety
/// A scan of [`begin_scan`]'s that has not ended.
#[inline]
unsafe fn next<M: AccessMethod>(descriptor: pg_sys::IndexScanDesc) -> Result<Option<Tid>, Error> {
    // SAFETY: the caller's promise. The executor keeps the index open until the scan ends.
    unsafe {
        let state = state_of::<M::Scan>(descriptor);
        let index = Index::from_raw((*descriptor).indexRelation);
        if state.search == SearchState::NotStarted {
            count_scan(descriptor);
            let keys = ScanKeys {
                descriptor: &*descriptor,
            };
            let has_rows = state.scan.start(index, &keys)?;
            check_snapshot::<M>(&*descriptor)?;
            state.search = if has_rows {
                SearchState::Started
            } else {
                SearchState::Empty
            };
        }
        if state.search == SearchState::Empty {
            return Ok(None);
        }
        let mut rows = ScanRows {
            descriptor: &*descriptor,
            rows: &mut state.rows,
        };
        state.scan.next(index, &mut rows)
    }
}

fn check_snapshot<M: AccessMethod>(scan: &pg_sys::IndexScanDescData) -> Result<(), Error> {
    // SAFETY: null or a registered snapshot.
    unsafe { require_mvcc::<M>(scan.xs_snapshot) }
}

/// Rows are fetched from the heap while no page of the index is locked. The place of a row may hold
/// another row by then, which only an MVCC snapshot is sure not to see.
///
/// # Safety
/// Null or a registered snapshot.
pub unsafe fn require_mvcc<M: AccessMethod>(snapshot: pg_sys::Snapshot) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let snapshot = unsafe { snapshot.as_ref() };
    if snapshot.is_some_and(|s| s.snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "non-MVCC snapshots are not supported with {}",
        M::NAME.to_string_lossy()
    )))
}

/// `amendscan`
pub unsafe extern "C-unwind" fn end_scan<M: AccessMethod>(descriptor: pg_sys::IndexScanDesc) {
    // SAFETY: a scan of `begin_scan`'s.
    unsafe {
        guard(|| {
            let state = state_of::<M::Scan>(descriptor);
            state.end_search();
            if let Some(rows) = state.rows.take() {
                rows.close();
            }
        });
    }
}

/// Counts a search in `pg_stat_user_indexes`, and since PostgreSQL 18 in EXPLAIN ANALYZE.
///
/// # Safety
/// A scan that has not ended.
unsafe fn count_scan(descriptor: pg_sys::IndexScanDesc) {
    // SAFETY: the caller's promise.
    unsafe {
        count_search((*descriptor).indexRelation);
        #[cfg(feature = "pg18")]
        if let Some(instrument) = (*descriptor).instrument.as_mut() {
            instrument.nsearches += 1;
        }
    }
}

/// Counts a search in `pg_stat_user_indexes`.
///
/// # Safety
/// An open index.
pub unsafe fn count_search(index: pg_sys::Relation) {
    // SAFETY: the caller's promise. `pgstat_info` is null if nothing is counted.
    unsafe {
        if (*index).pgstat_info.is_null() && (*index).pgstat_enabled {
            pg_sys::pgstat_assoc_relation(index);
        }
        if let Some(statistics) = (*index).pgstat_info.as_mut() {
            #[cfg(feature = "pg15")]
            {
                statistics.t_counts.t_numscans += 1;
            }
            #[cfg(not(feature = "pg15"))]
            {
                statistics.counts.numscans += 1;
            }
        }
    }
}
