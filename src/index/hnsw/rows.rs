//! Reading the vectors of heap rows: of those that Postgres hands over, and of others for their
//! exact distance.

use pgrx::pg_sys;
use rag_ann::hnsw::Tid;

use super::pointer_to;
use crate::types::vector::Vector;

/// Memory for what belongs to one row: a vector that was stored elsewhere.
#[derive(Clone, Copy)]
pub struct RowMemory(pg_sys::MemoryContext);

impl RowMemory {
    /// In the current memory context, with which it is freed.
    pub fn new() -> Self {
        // SAFETY: allocates.
        Self(unsafe {
            pg_sys::AllocSetContextCreateInternal(
                pg_sys::CurrentMemoryContext,
                c"rag_hnsw row".as_ptr(),
                pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            )
        })
    }

    /// Gives a vector to `f`, which must keep nothing that it allocates of Postgres.
    ///
    /// # Safety
    /// A datum of type `rag_types.vector`, not NULL. The memory context that this was made in is
    /// still there.
    pub unsafe fn with_vector<R>(&self, datum: pg_sys::Datum, f: impl FnOnce(&[f32]) -> R) -> R {
        // SAFETY: the caller's promise; the vector is used before its memory is freed.
        unsafe {
            let before = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = self.0;
            let result = f(Vector::from_raw(datum).as_slice());
            pg_sys::CurrentMemoryContext = before;
            pg_sys::MemoryContextReset(self.0);
            result
        }
    }

    /// Frees it before its time.
    pub fn free(self) {
        // SAFETY: made by `new`.
        unsafe { pg_sys::MemoryContextDelete(self.0) };
    }
}

/// Fetches rows of the table of an index, as a snapshot sees them.
///
/// It holds what must be given back by [`close`](Self::close); an ERROR gives it back, too.
pub struct Rows {
    table: pg_sys::Relation,
    /// Pages that the table is known to have.
    blocks: u32,
    fetch: *mut pg_sys::IndexFetchTableData,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
    memory: RowMemory,
    value: Value,
}

/// What is indexed.
#[derive(Clone, Copy)]
enum Value {
    Column(i32),
    Expression {
        info: *mut pg_sys::IndexInfo,
        executor: *mut pg_sys::EState,
    },
}

impl Rows {
    /// # Safety
    /// `table` and its `index` are open, and the snapshot is registered, until
    /// [`close`](Self::close).
    pub unsafe fn open(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        snapshot: pg_sys::Snapshot,
    ) -> Self {
        // SAFETY: the caller's promise; all is allocated in the current memory context, which lives
        // as long as the scan.
        unsafe {
            let column = (*(*index).rd_index).indkey.values.as_slice(1)[0];
            let value = if column != 0 {
                Value::Column(i32::from(column))
            } else {
                Value::Expression {
                    info: pg_sys::BuildIndexInfo(index),
                    executor: pg_sys::CreateExecutorState(),
                }
            };
            Self {
                table,
                blocks: 0,
                fetch: pg_sys::table_index_fetch_begin(table),
                snapshot,
                slot: pg_sys::table_slot_create(table, std::ptr::null_mut()),
                memory: RowMemory::new(),
                value,
            }
        }
    }

    /// Whether a row can be where `tid` says.
    pub fn is_in_table(&mut self, tid: Tid) -> bool {
        if tid.block >= self.blocks {
            // SAFETY: the open table.
            self.blocks = unsafe {
                pg_sys::RelationGetNumberOfBlocksInFork(
                    self.table,
                    pg_sys::ForkNumber::MAIN_FORKNUM,
                )
            };
        }
        tid.block < self.blocks && tid.offset > 0
    }

    /// Gives the vector of a row to `f`; `None` where the snapshot does not see the row.
    pub fn with_vector<R>(&mut self, tid: Tid, f: impl FnOnce(&[f32]) -> R) -> Option<R> {
        let mut pointer = pointer_to(tid);
        let (mut again, mut all_dead) = (false, false);
        // SAFETY: what `open` has opened. The vector is used before the slot is filled anew.
        unsafe {
            let found = pg_sys::table_index_fetch_tuple(
                self.fetch,
                &mut pointer,
                self.snapshot,
                self.slot,
                &mut again,
                &mut all_dead,
            );
            if !found {
                return None;
            }
            self.datum().map(|datum| self.memory.with_vector(datum, f))
        }
    }

    /// The indexed value of the row in the slot, unless it is NULL.
    ///
    /// # Safety
    /// The slot holds a row.
    unsafe fn datum(&self) -> Option<pg_sys::Datum> {
        let mut is_null = false;
        // SAFETY: the caller's promise.
        let datum = unsafe {
            match self.value {
                Value::Column(column) => pg_sys::slot_getattr(self.slot, column, &mut is_null),
                Value::Expression { info, executor } => {
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

    /// Gives back what it holds.
    pub fn close(self) {
        // SAFETY: what `open` has opened.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::table_index_fetch_end(self.fetch);
            if let Value::Expression { executor, .. } = self.value {
                pg_sys::FreeExecutorState(executor);
            }
        }
        self.memory.free();
    }
}
