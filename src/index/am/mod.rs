//! What all index access methods share.
//!
//! An access method implements [`AccessMethod`], whose functions take safe types. [`callbacks`] has
//! the functions that PostgreSQL calls, generic over the access method, and [`callbacks::handler`]
//! hands them to PostgreSQL.
//!
//! | file | contents |
//! |---|---|
//! | [`collected`] | what a transaction has inserted, and writes later |
//! | [`callbacks`] | the functions that PostgreSQL calls, and their arguments as safe types |
//! | [`scan`] | the functions of a scan |
//! | [`current`] | the row that a scan has returned last |
//! | [`heap`] | the heap rows that a scan or a function fetches |
//! | [`cost`] | what the planner knows of a scan, and what it costs |
//! | [`order`] | in which order a statement wants its rows |
//! | [`relation`] | open relations and indexed values |
//! | [`open`] | an index that a user's function has opened |
//! | [`options`] | options of `WITH (...)` |
//! | [`sample`] | which rows of a table to sample |
//! | [`corruption`] | the errors for an index that cannot be read |
//! | [`tid`] | conversion of row numbers |

pub mod callbacks;
pub mod collected;
pub mod corruption;
pub mod cost;
pub mod current;
pub mod heap;
pub mod open;
pub mod options;
pub mod order;
pub mod relation;
pub mod sample;
pub mod scan;
pub mod tid;

use std::ffi::CStr;

use pgrx::pg_sys;
use rag_pages::Tid;

use self::{
    callbacks::{BuildInput, Vacuum},
    cost::{PlannedScan, ScanCost},
    options::{OptionSet, OptionValues},
    relation::{Index, Relation, Value},
    scan::{ScanKeys, ScanRows},
};
use crate::error::Error;

/// A row that is inserted.
#[derive(Debug, Clone, Copy)]
pub struct NewRow {
    pub tid: Tid,
    /// Another transaction has inserted it into the table. CREATE INDEX CONCURRENTLY adds the rows
    /// that it has missed.
    pub is_of_others: bool,
}

/// An index access method: what its index consists of, and what PostgreSQL calls it for.
///
/// Errors that the functions return are raised as ERRORs.
pub trait AccessMethod: 'static {
    const NAME: &'static CStr;
    /// Number of support functions of an operator class.
    const SUPPORT_FUNCTIONS: u16;
    /// True if a scan with a condition can return its rows as a bitmap.
    const MAKES_BITMAPS: bool = false;

    type Scan: IndexScan;

    fn options() -> &'static OptionSet;

    /// Checks options, of [`options`](Self::options), that a user has given.
    fn check_options(values: &OptionValues) -> Result<(), Error>;

    /// Checks an operator class. Returns what is wrong with it.
    fn validate(class: pg_sys::Oid) -> Result<Vec<String>, Error>;

    fn build(input: &BuildInput<'_>) -> Result<BuildCounts, Error>;

    /// Returns what `pg_stat_progress_create_index` calls a phase of a build.
    fn phase_name(phase: i64) -> Option<&'static CStr>;

    /// Writes the initial fork of an unlogged index, which replaces the index after a crash.
    fn build_empty(index: Index<'_>) -> Result<(), Error>;

    /// Inserts a row. NULLs are not inserted.
    fn insert(
        table: Relation<'_>,
        index: Index<'_>,
        value: Value<'_>,
        row: NewRow,
    ) -> Result<(), Error>;

    /// Removes the rows for which `is_dead` returns true.
    fn bulk_delete(
        vacuum: &Vacuum<'_>,
        is_dead: &mut dyn FnMut(Tid) -> bool,
    ) -> Result<BulkDeletion, Error>;

    /// Ends a vacuum. It is also called if no row was removed.
    fn vacuum_cleanup(vacuum: &Vacuum<'_>) -> Result<(), Error>;

    /// Returns the cost of a scan, or `None` if the index cannot answer it.
    fn scan_cost(scan: &PlannedScan<'_>) -> Option<ScanCost>;
}

/// A scan of an index. It may search several times, once for each row of an outer relation.
pub trait IndexScan: Default + 'static {
    /// Starts a search. Returns false if the index has nothing to find.
    fn start(&mut self, index: Index<'_>, keys: &ScanKeys<'_>) -> Result<bool, Error>;

    /// Returns true if the index cannot find the rows: all may satisfy the conditions.
    fn is_for_all_rows(_keys: &ScanKeys<'_>) -> bool {
        false
    }

    /// Returns the next heap row of the search, or `None` at its end.
    fn next(&mut self, index: Index<'_>, rows: &mut ScanRows<'_>) -> Result<Option<Tid>, Error>;

    /// Returns true if only the executor can tell which of the rows satisfy the conditions.
    fn needs_recheck(&self) -> bool {
        false
    }

    /// Ends a search that has started, if there is one.
    fn end(&mut self);
}

/// Numbers of rows after a build.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BuildCounts {
    pub table_rows: f64,
    pub index_rows: f64,
}

/// Numbers of rows after a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkDeletion {
    pub removed: u64,
    pub remaining: u64,
}
