//! Heap rows of an index, and the snapshots that see them.
#![allow(unsafe_code)] // heap rows

use std::marker::PhantomData;

use pgrx::pg_sys;
use rag_pages::{HEADER_BYTES, PAGE_BYTES, Tid};

use super::{
    relation::{Index, Relation, Value, ValueType},
    tid,
};
use crate::{
    pg::{memory::OwnedContext, transaction},
    types::indexed::DetoastMemory,
};

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

    /// Returns the snapshot of the current statement. Raises an ERROR if there is none.
    pub fn of_statement() -> Snapshot<'static> {
        // SAFETY: it stays active until the function ends that the statement calls.
        unsafe { Snapshot::from_raw(pg_sys::GetActiveSnapshot()) }
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

    /// Returns true if the table is large enough for a row at `tid`.
    pub fn is_in_table(&mut self, tid: Tid) -> bool {
        if tid.block >= self.blocks {
            self.blocks = self.table.block_count();
        }
        tid.block < self.blocks && tid.offset > 0
    }

    /// Fetches a row into the slot. Returns the place of the version that the snapshot sees, if it
    /// sees one. Versions that differ in no indexed column share the place in the index.
    pub fn visible_version(&mut self, tid: Tid) -> Option<Tid> {
        let mut pointer = tid::to_pointer(tid);
        let (mut again, mut all_dead) = (false, false);
        // SAFETY: what `open` has opened.
        unsafe {
            let found = pg_sys::table_index_fetch_tuple(
                self.fetch,
                &mut pointer,
                self.snapshot.raw,
                self.slot,
                &mut again,
                &mut all_dead,
            );
            found.then(|| tid::from_pointer((*self.slot).tts_tid))
        }
    }

    /// Calls `f` with the vector of a row. Returns `None` if the snapshot does not see the row.
    pub fn with_vector<R>(&mut self, tid: Tid, f: impl FnOnce(&[f32]) -> R) -> Option<R> {
        self.visible_version(tid)?;
        // SAFETY: the slot holds a row. The value is used before it holds another row.
        unsafe {
            let value = Value::from_raw(self.datum()?, self.value_type);
            Some(value.with_vector(&mut self.detoast, f))
        }
    }

    /// Calls `f` with the text of a row. Returns `None` if the snapshot does not see the row.
    pub fn with_text<R>(&mut self, tid: Tid, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.visible_version(tid)?;
        // SAFETY: the slot holds a row. The value is used before it holds another row.
        unsafe {
            let value = Value::from_raw(self.datum()?, self.value_type);
            Some(value.with_text(f))
        }
    }

    /// Returns true if `text` is the indexed text of a row.
    pub fn has_text(&mut self, tid: Tid, text: Value<'_>) -> bool {
        if self.visible_version(tid).is_none() {
            return false;
        }
        // SAFETY: the slot holds a row. The value is used before it holds another row.
        let indexed = unsafe {
            self.datum()
                .map(|datum| Value::from_raw(datum, self.value_type))
        };
        indexed.is_some_and(|indexed| {
            indexed.with_text(|indexed| text.with_text(|text| indexed == text))
        })
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

/// Maximum number of rows on a page of a heap (MaxHeapTuplesPerPage): each has a header of 24 bytes
/// and an item of 4.
const MAX_ROWS_PER_PAGE: usize = (PAGE_BYTES - HEADER_BYTES) / (24 + 4);

/// The version of a row at a place of a page.
struct Version<'a>(&'a pg_sys::HeapTupleHeaderData);

impl<'a> Version<'a> {
    /// Returns `None` if the place is free, or leads to another one.
    ///
    /// # Safety
    /// A page of a heap, which is locked for `'a`.
    unsafe fn at(page: pg_sys::Page, offset: u16) -> Option<Self> {
        // SAFETY: the caller's promise; the item is within the page.
        unsafe {
            if offset == 0 || offset > pg_sys::PageGetMaxOffsetNumber(page) {
                return None;
            }
            let item = pg_sys::PageGetItemId(page, offset);
            let is_row = (*item).lp_flags() == pg_sys::LP_NORMAL;
            is_row.then(|| Self(&*pg_sys::PageGetItem(page, item).cast::<_>()))
        }
    }

    /// Returns false if indexes have its place itself.
    fn is_heap_only(&self) -> bool {
        u32::from(self.0.t_infomask2) & pg_sys::HEAP_ONLY_TUPLE != 0
    }

    /// Returns the transaction that has inserted it, also if it is marked as frozen.
    fn inserted_by(&self) -> pg_sys::TransactionId {
        // SAFETY: on a page a row has this form, not that of a datum.
        unsafe { self.0.t_choice.t_heap.t_xmin }
    }
}

/// Calls `f` with the page of a row, which is locked shared.
///
/// # Safety
/// A heap with the block.
unsafe fn with_page<R>(table: Relation<'_>, block: u32, f: impl FnOnce(pg_sys::Page) -> R) -> R {
    // SAFETY: the page is read while its buffer is pinned and locked.
    unsafe {
        let buffer = pg_sys::ReadBuffer(table.as_raw(), block);
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        let result = f(pg_sys::BufferGetPage(buffer));
        pg_sys::UnlockReleaseBuffer(buffer);
        result
    }
}

/// Returns a function that tells if a (sub)transaction of this transaction has inserted the row at
/// a place that indexes have of it, also if the row was deleted since. If the subtransaction was
/// rolled back, another one may have given the place to its own row. The table is a heap.
pub fn inserted_rows(table: Relation<'_>) -> impl Fn(Tid, pg_sys::TransactionId) -> bool {
    let blocks = table.block_count();
    move |tid, inserter| {
        // SAFETY: a block of the heap. The version is looked at while the page is locked.
        tid.block < blocks
            && unsafe {
                with_page(table, tid.block, |page| {
                    Version::at(page, tid.offset).is_some_and(|version| {
                        !version.is_heap_only()
                            && version.inserted_by() == inserter
                            && transaction::is_current(inserter)
                    })
                })
            }
    }
}

/// Returns the places that indexes have of some rows: those of the oldest versions which differ in
/// no indexed column.
pub fn index_places(table: Relation<'_>, rows: &[Tid]) -> Vec<Tid> {
    if !table.is_heap() {
        return rows.to_vec();
    }
    let blocks = table.block_count();
    let place = |tid: &Tid| match tid.offset > 0 && tid.block < blocks {
        // SAFETY: a row's place in a heap.
        true => unsafe { index_place(table, *tid) },
        false => *tid,
    };
    rows.iter().map(place).collect()
}

/// # Safety
/// A heap with the block.
unsafe fn index_place(table: Relation<'_>, tid: Tid) -> Tid {
    // SAFETY: the caller's promise; the array has an element for each row that a page can have.
    unsafe {
        with_page(table, tid.block, |page| {
            let is_heap_only = Version::at(page, tid.offset).is_some_and(|v| v.is_heap_only());
            let mut root = None;
            if is_heap_only {
                let mut roots = [0; MAX_ROWS_PER_PAGE];
                pg_sys::heap_get_root_tuples(page, roots.as_mut_ptr());
                root = roots.get(usize::from(tid.offset) - 1).copied();
            }
            Tid {
                block: tid.block,
                offset: root.filter(|root| *root != 0).unwrap_or(tid.offset),
            }
        })
    }
}
