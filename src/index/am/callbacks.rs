//! The functions of an access method that PostgreSQL calls.
//!
//! Each converts its arguments into safe types, calls [`AccessMethod`] and raises what that returns
//! as an error. The arguments of one call are borrowed for that call, so that an access method
//! cannot keep them.
#![allow(unsafe_code)] // callbacks that PostgreSQL calls with pointers

use std::ffi::{c_char, c_int, c_void};

use pgrx::{
    PgLogLevel, PgSqlErrorCode,
    datum::Internal,
    pg_sys,
    pg_sys::panic::{ErrorReport, pgrx_extern_c_guard as guard},
};
use rag_pages::Tid;

use super::{
    AccessMethod, NewRow,
    cost::estimate_cost,
    options::{OptionSet, OptionType, OptionValues, slot_offset},
    relation::{Index, Relation, Value, ValueType},
    scan::{begin_scan, end_scan, fill_bitmap, next_row, rescan},
    tid,
};
use crate::{
    error::Error,
    index::pages::ReadStrategy,
    pg::memory::{self, OwnedContext},
};

fn raise<R>(error: Error) -> R {
    error.raise()
}

/// Returns what the handler function of an access method returns.
pub fn handler<M: AccessMethod>() -> Internal {
    // SAFETY: a node in the current memory context; fields that are not set here are zero.
    let mut routine = unsafe {
        pgrx::PgBox::<pg_sys::IndexAmRoutine>::alloc_node(pg_sys::NodeTag::T_IndexAmRoutine)
    };
    // operator classes may have any operators
    routine.amstrategies = 0;
    routine.amsupport = M::SUPPORT_FUNCTIONS;
    routine.amcanorderbyop = true;
    // a scan needs no condition on the column; NULLs are not indexed
    routine.amoptionalkey = true;
    routine.amsearchnulls = false;
    routine.amcanmulticol = false;
    // threads build the index, parallel workers do not
    routine.amusemaintenanceworkmem = false;
    routine.amparallelvacuumoptions = pg_sys::VACUUM_OPTION_PARALLEL_BULKDEL as u8;
    routine.amkeytype = pg_sys::InvalidOid;

    routine.ambuild = Some(build::<M>);
    routine.ambuildempty = Some(build_empty::<M>);
    routine.ambuildphasename = Some(phase_name::<M>);
    routine.aminsert = Some(insert::<M>);
    routine.ambulkdelete = Some(bulk_delete::<M>);
    routine.amvacuumcleanup = Some(vacuum_cleanup::<M>);
    routine.amcostestimate = Some(estimate_cost::<M>);
    routine.amoptions = Some(parse_options::<M>);
    routine.amproperty = Some(property);
    routine.amvalidate = Some(validate::<M>);
    routine.ambeginscan = Some(begin_scan::<M>);
    routine.amrescan = Some(rescan::<M>);
    routine.amgettuple = Some(next_row::<M>);
    routine.amgetbitmap = M::MAKES_BITMAPS.then_some(fill_bitmap::<M>);
    routine.amendscan = Some(end_scan::<M>);
    Internal::from(Some(routine.into_pg().into()))
}

// -- options and operator classes

/// Makes options known to PostgreSQL, once for each process.
pub fn register(set: &OptionSet) {
    set.kind.get_or_init(|| {
        let lock = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;
        // SAFETY: names and descriptions are copied.
        unsafe {
            let kind = pg_sys::add_reloption_kind();
            for option in set.options {
                let (name, description) = (option.name.as_ptr(), option.description.as_ptr());
                match option.values {
                    OptionType::Boolean { default } => {
                        pg_sys::add_bool_reloption(kind, name, description, default, lock);
                    }
                    OptionType::Integer { default, min, max } => {
                        pg_sys::add_int_reloption(kind, name, description, default, min, max, lock);
                    }
                    OptionType::Real { default, min, max } => {
                        let add = pg_sys::add_real_reloption;
                        add(kind, name, description, default, min, max, lock);
                    }
                    OptionType::Text => {
                        let none = std::ptr::null();
                        pg_sys::add_string_reloption(kind, name, description, none, None, lock);
                    }
                }
            }
            kind
        }
    });
}

/// `amoptions`
unsafe extern "C-unwind" fn parse_options<M: AccessMethod>(
    given: pg_sys::Datum,
    validate: bool,
) -> *mut pg_sys::bytea {
    let parse = || {
        let set = M::options();
        let Some(kind) = set.kind.get() else {
            Error::internal("the options of the access method are not registered").raise()
        };
        #[allow(clippy::needless_update)] // PostgreSQL 18 has another field
        let table: Vec<_> = set
            .options
            .iter()
            .enumerate()
            .map(|(number, option)| pg_sys::relopt_parse_elt {
                optname: option.name.as_ptr(),
                opttype: match option.values {
                    OptionType::Boolean { .. } => pg_sys::relopt_type::RELOPT_TYPE_BOOL,
                    OptionType::Integer { .. } => pg_sys::relopt_type::RELOPT_TYPE_INT,
                    OptionType::Real { .. } => pg_sys::relopt_type::RELOPT_TYPE_REAL,
                    OptionType::Text => pg_sys::relopt_type::RELOPT_TYPE_STRING,
                },
                offset: slot_offset(number) as c_int,
                ..Default::default()
            })
            .collect();
        let bytes = slot_offset(table.len());
        // SAFETY: the table describes the bytes: a varlena header, then a slot for each option.
        // PostgreSQL adds the texts, and sets the size.
        unsafe {
            let count = table.len() as c_int;
            let stored =
                pg_sys::build_reloptions(given, validate, *kind, bytes, table.as_ptr(), count);
            if validate && !stored.is_null() {
                let size = pgrx::varlena::varsize_4b(stored.cast());
                let stored = std::slice::from_raw_parts(stored.cast::<u8>(), size);
                M::check_options(&OptionValues::new(stored)).unwrap_or_else(raise);
            }
            stored.cast()
        }
    };
    // SAFETY: PostgreSQL's thread.
    unsafe { guard(parse) }
}

/// `amproperty`: that columns can be ordered by distance, which PostgreSQL cannot find out.
unsafe extern "C-unwind" fn property(
    _index: pg_sys::Oid,
    column: c_int,
    property: pg_sys::IndexAMProperty::Type,
    _name: *const c_char,
    result: *mut bool,
    is_null: *mut bool,
) -> bool {
    if property != pg_sys::IndexAMProperty::AMPROP_DISTANCE_ORDERABLE || column == 0 {
        return false;
    }
    // SAFETY: PostgreSQL's variables for the answer.
    unsafe {
        *result = true;
        *is_null = false;
    }
    true
}

/// `amvalidate`: reports what is wrong with an operator class in INFO messages.
unsafe extern "C-unwind" fn validate<M: AccessMethod>(class: pg_sys::Oid) -> bool {
    let validate = || {
        let problems = M::validate(class).unwrap_or_else(raise);
        for problem in &problems {
            let code = PgSqlErrorCode::ERRCODE_INVALID_OBJECT_DEFINITION;
            ErrorReport::from(Error::new(code, problem)).report(PgLogLevel::INFO);
        }
        problems.is_empty()
    };
    // SAFETY: PostgreSQL's thread.
    unsafe { guard(validate) }
}

// -- build

/// What an index is built from.
pub struct BuildInput<'a> {
    table: Relation<'a>,
    index: Index<'a>,
    info: *mut pg_sys::IndexInfo,
}

impl<'a> BuildInput<'a> {
    pub fn table(&self) -> Relation<'a> {
        self.table
    }

    pub fn index(&self) -> Index<'a> {
        self.index
    }

    /// Returns true if the index has a WHERE clause.
    pub fn is_partial(&self) -> bool {
        // SAFETY: PostgreSQL's, for as long as this.
        unsafe { !(*self.info).ii_Predicate.is_null() }
    }

    /// Calls `f` with the value of each row of the table that is to be indexed and not NULL, in the
    /// order of the table. Counts the blocks that are read in `pg_stat_progress_create_index`.
    /// Returns the number of rows in the table.
    ///
    /// # Errors
    /// What `f` returns is raised.
    pub fn each_row<F>(&self, f: F) -> f64
    where
        F: FnMut(Value<'_>, Tid) -> Result<(), Error>,
    {
        let mut state = (self.index.value_type(), f);
        // SAFETY: table and index are open; the scan calls back only until it returns.
        unsafe {
            pg_sys::table_index_build_scan(
                self.table.as_raw(),
                self.index.as_raw(),
                self.info,
                false, // from the start, so that the block tells how far the scan is
                true,
                Some(on_row::<F>),
                (&raw mut state).cast(),
                std::ptr::null_mut(),
            )
        }
    }

    /// Does this for `count` blocks from `start` on, without counting blocks.
    pub fn each_row_of<F>(&self, start: u32, count: u32, f: F)
    where
        F: FnMut(Value<'_>, Tid) -> Result<(), Error>,
    {
        let mut state = (self.index.value_type(), f);
        // SAFETY: as above.
        unsafe {
            pg_sys::table_index_build_range_scan(
                self.table.as_raw(),
                self.index.as_raw(),
                self.info,
                false, // from `start`, not from where another scan is
                false,
                false,
                start,
                count,
                Some(on_row::<F>),
                (&raw mut state).cast(),
                std::ptr::null_mut(),
            );
        }
    }
}

/// Called for each row of a scan of [`BuildInput`].
unsafe extern "C-unwind" fn on_row<F>(
    _index: pg_sys::Relation,
    row: pg_sys::ItemPointer,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    _is_alive: bool,
    state: *mut c_void,
) where
    F: FnMut(Value<'_>, Tid) -> Result<(), Error>,
{
    // SAFETY: the state of the scan, its row, and the only column of the index.
    unsafe {
        guard(|| {
            if !*nulls {
                let (value_type, f) = &mut *state.cast::<(ValueType, F)>();
                let value = Value::from_raw(*values, *value_type);
                f(value, tid::from_pointer(*row)).unwrap_or_else(raise);
            }
        });
    }
}

/// `ambuild`
unsafe extern "C-unwind" fn build<M: AccessMethod>(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    // SAFETY: table and index are open and locked during the call. PostgreSQL frees the result.
    unsafe {
        guard(|| {
            let (table, index) = (Relation::from_raw(table), Index::from_raw(index));
            let built = M::build(&BuildInput { table, index, info }).unwrap_or_else(raise);
            let size = size_of::<pg_sys::IndexBuildResult>();
            let result: *mut pg_sys::IndexBuildResult = pg_sys::palloc0(size).cast();
            (*result).heap_tuples = built.table_rows;
            (*result).index_tuples = built.index_rows;
            result
        })
    }
}

/// `ambuildempty`
unsafe extern "C-unwind" fn build_empty<M: AccessMethod>(index: pg_sys::Relation) {
    // SAFETY: the index is open during the call.
    unsafe { guard(|| M::build_empty(Index::from_raw(index)).unwrap_or_else(raise)) }
}

/// `ambuildphasename`
unsafe extern "C-unwind" fn phase_name<M: AccessMethod>(phase: i64) -> *mut c_char {
    M::phase_name(phase).map_or(std::ptr::null_mut(), |name| name.as_ptr().cast_mut())
}

/// What a build shows in `pg_stat_progress_create_index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildProgress {
    Phase = pg_sys::PROGRESS_CREATEIDX_SUBPHASE as isize,
    TotalRows = pg_sys::PROGRESS_CREATEIDX_TUPLES_TOTAL as isize,
    RowsDone = pg_sys::PROGRESS_CREATEIDX_TUPLES_DONE as isize,
}

pub fn report_progress(what: BuildProgress, value: i64) {
    // SAFETY: writes one of the columns of the slot of this backend, if it has one.
    unsafe { pg_sys::pgstat_progress_update_param(what as c_int, value) };
}

/// Returns true if the next check for interrupts may end the statement or the session.
pub fn may_be_interrupted() -> bool {
    // SAFETY: variables that signal handlers set.
    unsafe {
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        let timed_out = pg_sys::TransactionTimeoutPending != 0;
        #[cfg(not(any(feature = "pg17", feature = "pg18")))]
        let timed_out = false;
        pg_sys::ProcDiePending != 0
            || pg_sys::QueryCancelPending != 0
            || pg_sys::ClientConnectionLost != 0
            || timed_out
    }
}

/// Returns the setting `max_parallel_maintenance_workers`.
pub fn max_build_helpers() -> usize {
    // SAFETY: reads a setting of the session.
    unsafe { pg_sys::max_parallel_maintenance_workers as usize }
}

/// Returns a random number that cannot be predicted.
pub fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: fills the buffer.
    if !unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) } {
        Error::internal("could not generate a random number").raise();
    }
    u64::from_ne_bytes(bytes)
}

// -- insert

/// `aminsert`
#[allow(clippy::too_many_arguments)] // PostgreSQL's
unsafe extern "C-unwind" fn insert<M: AccessMethod>(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    row: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    _check_unique: pg_sys::IndexUniqueCheck::Type,
    _unchanged: bool,
    info: *mut pg_sys::IndexInfo,
) -> bool {
    // SAFETY: PostgreSQL's promise; the index has one column.
    unsafe { guard(|| insert_row::<M>(table, index, *values, *nulls, *row, info)) }
}

/// Inserts a row in a memory context of its own, because the caller's lives until the end of the
/// statement. Returns false: the index is not unique.
///
/// # Safety
/// A table, its open index of this access method and what describes it, and the value of a row.
unsafe fn insert_row<M: AccessMethod>(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    value: pg_sys::Datum,
    is_null: bool,
    row: pg_sys::ItemPointerData,
    info: *const pg_sys::IndexInfo,
) -> bool {
    if is_null {
        return false;
    }
    // SAFETY: the caller's promise. Nothing that `M::insert` allocates is in what it returns.
    unsafe {
        let (table, index) = (Relation::from_raw(table), Index::from_raw(index));
        let value = Value::from_raw(value, index.value_type());
        let row = NewRow {
            tid: tid::from_pointer(row),
            is_of_others: (*info).ii_Concurrent,
        };
        let memory = OwnedContext::new(c"rag index insert");
        let inserted = memory.run(|| M::insert(table, index, value, row));
        drop(memory);
        inserted.unwrap_or_else(raise);
    }
    false
}

// -- vacuum

/// A vacuum of an index.
pub struct Vacuum<'a> {
    info: &'a pg_sys::IndexVacuumInfo,
}

impl<'a> Vacuum<'a> {
    pub fn index(&self) -> Index<'a> {
        // SAFETY: the index is open during the vacuum.
        unsafe { Index::from_raw(self.info.index) }
    }

    pub fn strategy(&self) -> ReadStrategy<'a> {
        // SAFETY: it exists during the vacuum.
        unsafe { ReadStrategy::from_raw(self.info.strategy) }
    }
}

/// `ambulkdelete`. CREATE INDEX CONCURRENTLY calls it with a callback that finds no row dead, to
/// learn which rows are indexed.
unsafe extern "C-unwind" fn bulk_delete<M: AccessMethod>(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    callback: pg_sys::IndexBulkDeleteCallback,
    state: *mut c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: PostgreSQL's vacuum and result; zeros are a valid result. The callback may raise an
    // ERROR, as it may write what it is called with into a file.
    unsafe {
        memory::keep_reserve(); // autovacuum executes no statement
        guard(|| {
            let stats = match stats {
                none if none.is_null() => {
                    pg_sys::palloc0(size_of::<pg_sys::IndexBulkDeleteResult>()).cast()
                }
                some => some,
            };
            let Some(callback) = callback else {
                return stats;
            };
            let mut is_dead = |tid: Tid| {
                let mut pointer = tid::to_pointer(tid);
                pg_sys::ffi::pg_guard_ffi_boundary(|| callback(&mut pointer, state))
            };
            let deletion = M::bulk_delete(&Vacuum { info: &*info }, &mut is_dead);
            let deletion = deletion.unwrap_or_else(raise);
            (*stats).estimated_count = false;
            (*stats).num_index_tuples = deletion.remaining as f64;
            (*stats).tuples_removed += deletion.removed as f64;
            stats
        })
    }
}

/// `amvacuumcleanup`
unsafe extern "C-unwind" fn vacuum_cleanup<M: AccessMethod>(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: PostgreSQL's vacuum, and the result of `bulk_delete` or null if that was not called.
    unsafe {
        memory::keep_reserve();
        guard(|| {
            let vacuum = Vacuum { info: &*info };
            if !vacuum.info.analyze_only {
                M::vacuum_cleanup(&vacuum).unwrap_or_else(raise);
                if let Some(stats) = stats.as_mut() {
                    stats.num_pages = vacuum.index().block_count();
                }
            }
            stats
        })
    }
}
