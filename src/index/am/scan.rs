//! Scans of an index, what they cost, and the heap rows that they fetch.
#![allow(unsafe_code)] // callbacks that PostgreSQL calls with pointers, heap rows

use std::{ffi::c_int, marker::PhantomData};

use pgrx::{PgMemoryContexts, pg_sys, pg_sys::panic::pgrx_extern_c_guard as guard};
use rag_ann::hnsw::Tid;

use super::{
    AccessMethod, IndexScan, PlannedScan,
    relation::{Index, Relation, Value, ValueType},
    tid,
};
use crate::{error::Error, pg::memory::OwnedContext, types::vector::DetoastMemory};

/// `amcostestimate`
#[allow(clippy::too_many_arguments)] // PostgreSQL's
pub unsafe extern "C-unwind" fn estimate_cost<M: AccessMethod>(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup_cost: *mut pg_sys::Cost,
    total_cost: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    // SAFETY: the planner's path of an index of this access method, and its variables for the
    // answer. The planner holds a lock on the index.
    unsafe {
        guard(|| {
            let info = &*(*path).indexinfo;
            let no_lock = pg_sys::NoLock as pg_sys::LOCKMODE;
            let index = pg_sys::index_open(info.indexoid, no_lock);
            let mut random_page_cost = 0.0;
            let no_answer = std::ptr::null_mut();
            pg_sys::get_tablespace_page_costs(info.reltablespace, &mut random_page_cost, no_answer);
            let cost = M::scan_cost(&PlannedScan {
                index: Index::from_raw(index),
                index_rows: info.tuples,
                order_count: pg_sys::list_length((*path).indexorderbys) as usize,
                matching_rows: (*info.rel).rows,
                limit_rows: (*root).limit_tuples,
                fetched_fraction: (*root).tuple_fraction,
                operator_cost: pg_sys::cpu_operator_cost,
                random_page_cost,
            });
            pg_sys::index_close(index, no_lock);
            *correlation = 0.0;
            *selectivity = 0.0;
            let Some(cost) = cost else {
                *startup_cost = f64::INFINITY;
                *total_cost = f64::INFINITY;
                *pages = 0.0;
                // since PostgreSQL 18 a path that is disabled loses against any that is not
                #[cfg(feature = "pg18")]
                {
                    (*path).path.disabled_nodes = 2;
                }
                return;
            };
            let mut generic = pg_sys::GenericCosts::default();
            pg_sys::genericcostestimate(root, path, loop_count, &mut generic);
            *startup_cost = cost.startup;
            *total_cost = cost.total;
            *selectivity = generic.indexSelectivity;
            *pages = f64::from(info.pages).min(cost.pages);
        });
    }
}

/// What hangs on a scan descriptor. It is dropped with the memory context of the scan.
struct ScanState<S> {
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

impl<S: IndexScan> ScanState<S> {
    fn end_search(&mut self) {
        self.scan.end();
        self.search = SearchState::NotStarted;
    }
}

/// The conditions and orders of a search.
pub struct ScanKeys<'a> {
    descriptor: &'a pg_sys::IndexScanDescData,
}

impl ScanKeys<'_> {
    /// Returns the number of operators that the scan orders by.
    pub fn order_count(&self) -> usize {
        if self.descriptor.orderByData.is_null() {
            return 0;
        }
        self.descriptor.numberOfOrderBys as usize
    }

    /// Returns the right argument of an operator that the scan orders by, or `None` for NULL.
    pub fn order_argument(&self, number: usize) -> Option<Value<'_>> {
        assert!(number < self.order_count());
        // SAFETY: there are as many keys. The operator's right argument is of the key's subtype.
        unsafe {
            let key = &*self.descriptor.orderByData.add(number);
            let is_null = key.sk_flags as u32 & pg_sys::SK_ISNULL != 0;
            let value_type = ValueType::of(key.sk_subtype);
            (!is_null).then(|| Value::from_raw(key.sk_argument, value_type))
        }
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
                (*descriptor).xs_heaptid = tid::to_pointer(tid);
                (*descriptor).xs_recheck = false;
                (*descriptor).xs_recheckorderby = false;
                true
            }
            Ok(None) => false,
            Err(error) => error.raise(),
        })
    }
}

/// # Safety
/// A scan of [`begin_scan`]'s that has not ended.
#[inline]
unsafe fn next<M: AccessMethod>(descriptor: pg_sys::IndexScanDesc) -> Result<Option<Tid>, Error> {
    // SAFETY: the caller's promise. The executor sets table and snapshot before it requests the
    // first row, and keeps them and the index until the scan ends.
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
        let rows = state.rows.get_or_insert_with(|| {
            let table = Relation::from_raw((*descriptor).heapRelation);
            HeapRows::open(table, index, Snapshot::from_raw((*descriptor).xs_snapshot))
        });
        state.scan.next(index, rows)
    }
}

/// Rows are fetched from the heap while no page of the index is locked. The place of a row may hold
/// another row by then, which only an MVCC snapshot is sure not to see.
fn check_snapshot<M: AccessMethod>(scan: &pg_sys::IndexScanDescData) -> Result<(), Error> {
    // SAFETY: null or a registered snapshot.
    let snapshot = unsafe { scan.xs_snapshot.as_ref() };
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
    // SAFETY: the caller's promise. `pgstat_info` is null if nothing is counted.
    unsafe {
        let index = (*descriptor).indexRelation;
        #[cfg(not(any(feature = "pg13", feature = "pg14")))]
        if (*index).pgstat_info.is_null() && (*index).pgstat_enabled {
            pg_sys::pgstat_assoc_relation(index);
        }
        if let Some(statistics) = (*index).pgstat_info.as_mut() {
            #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
            {
                statistics.t_counts.t_numscans += 1;
            }
            #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
            {
                statistics.counts.numscans += 1;
            }
        }
        #[cfg(feature = "pg18")]
        if let Some(instrument) = (*descriptor).instrument.as_mut() {
            instrument.nsearches += 1;
        }
    }
}

/// A snapshot that is registered for `'a`.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    raw: pg_sys::Snapshot,
    registered: PhantomData<&'a pg_sys::SnapshotData>,
}

impl Snapshot<'_> {
    /// # Safety
    /// The snapshot is registered for `'a`.
    pub unsafe fn from_raw(raw: pg_sys::Snapshot) -> Self {
        Self {
            raw,
            registered: PhantomData,
        }
    }

    /// Returns the snapshot that sees what this command and transactions that have ended wrote.
    pub fn of_present() -> Snapshot<'static> {
        // SAFETY: a constant of the server.
        unsafe { Snapshot::from_raw(&raw mut pg_sys::SnapshotSelfData) }
    }
}

/// Fetches the indexed values of heap rows, as a snapshot sees them.
///
/// It holds pins and references. [`close`](Self::close) releases them, and so does an ERROR.
pub struct HeapRows<'a> {
    table: Relation<'a>,
    snapshot: Snapshot<'a>,
    value_type: ValueType,
    source: ValueSource,
    /// Number of blocks that the table is known to have.
    blocks: u32,
    fetch: *mut pg_sys::IndexFetchTableData,
    slot: *mut pg_sys::TupleTableSlot,
    detoast: DetoastMemory,
    /// What the pointers point to.
    _memory: OwnedContext,
}

/// What is indexed of a row.
#[derive(Clone, Copy)]
enum ValueSource {
    Column(i16),
    Expression {
        info: *mut pg_sys::IndexInfo,
        executor: *mut pg_sys::EState,
    },
}

impl<'a> HeapRows<'a> {
    pub fn open(table: Relation<'a>, index: Index<'a>, snapshot: Snapshot<'a>) -> Self {
        let memory = OwnedContext::new(c"rag heap rows");
        // SAFETY: table and index are open. What is allocated lives as long as `memory`, which this
        // keeps.
        let (fetch, slot, source) = unsafe {
            memory.run(|| {
                let fetch = pg_sys::table_index_fetch_begin(table.as_raw());
                let slot = pg_sys::table_slot_create(table.as_raw(), std::ptr::null_mut());
                let expression = || ValueSource::Expression {
                    info: pg_sys::BuildIndexInfo(index.as_raw()),
                    executor: pg_sys::CreateExecutorState(),
                };
                let column = index.column();
                (
                    fetch,
                    slot,
                    column.map_or_else(expression, ValueSource::Column),
                )
            })
        };
        Self {
            table,
            snapshot,
            value_type: index.value_type(),
            source,
            blocks: 0,
            fetch,
            slot,
            detoast: DetoastMemory::new(),
            _memory: memory,
        }
    }

    /// Returns whether the table is large enough for a row at `tid`.
    pub fn is_in_table(&mut self, tid: Tid) -> bool {
        if tid.block >= self.blocks {
            self.blocks = self.table.block_count();
        }
        tid.block < self.blocks && tid.offset > 0
    }

    /// Calls `f` with the vector of a row. Returns `None` if the snapshot does not see the row.
    pub fn with_vector<R>(&mut self, tid: Tid, f: impl FnOnce(&[f32]) -> R) -> Option<R> {
        let mut pointer = tid::to_pointer(tid);
        let (mut again, mut all_dead) = (false, false);
        // SAFETY: what `open` has opened. The value is used before the slot holds another row.
        unsafe {
            let found = pg_sys::table_index_fetch_tuple(
                self.fetch,
                &mut pointer,
                self.snapshot.raw,
                self.slot,
                &mut again,
                &mut all_dead,
            );
            if !found {
                return None;
            }
            let value = Value::from_raw(self.datum()?, self.value_type);
            Some(value.with_vector(&mut self.detoast, f))
        }
    }

    /// Returns the indexed datum of the row in the slot, or `None` for NULL.
    ///
    /// # Safety
    /// The slot holds a row.
    unsafe fn datum(&self) -> Option<pg_sys::Datum> {
        let mut is_null = false;
        // SAFETY: the caller's promise.
        let datum = unsafe {
            match self.source {
                ValueSource::Column(column) => {
                    pg_sys::slot_getattr(self.slot, i32::from(column), &mut is_null)
                }
                ValueSource::Expression { info, executor } => {
                    let context = match (*executor).es_per_tuple_exprcontext {
                        context if context.is_null() => pg_sys::MakePerTupleExprContext(executor),
                        context => context,
                    };
                    pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
                    (*context).ecxt_scantuple = self.slot;
                    let mut values = [pg_sys::Datum::null(); pg_sys::INDEX_MAX_KEYS as usize];
                    let mut nulls = [false; pg_sys::INDEX_MAX_KEYS as usize];
                    pg_sys::FormIndexDatum(
                        info,
                        self.slot,
                        executor,
                        values.as_mut_ptr(),
                        nulls.as_mut_ptr(),
                    );
                    is_null = nulls[0];
                    values[0]
                }
            }
        };
        (!is_null).then_some(datum)
    }

    /// Releases what it holds.
    pub fn close(self) {
        // SAFETY: what `open` has opened, in a transaction that has not failed.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::table_index_fetch_end(self.fetch);
            if let ValueSource::Expression { executor, .. } = self.source {
                pg_sys::FreeExecutorState(executor);
            }
        }
    }
}
