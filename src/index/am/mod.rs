//! What all index access methods share.
//!
//! An access method implements [`AccessMethod`], whose functions take safe types. [`callbacks`] has
//! the functions that PostgreSQL calls, generic over the access method, and [`callbacks::handler`]
//! hands them to PostgreSQL.
//!
//! | file | contents |
//! |---|---|
//! | [`callbacks`] | the functions that PostgreSQL calls, and their arguments as safe types |
//! | [`scan`] | the functions of a scan, and the heap rows that it fetches |
//! | [`relation`] | open relations and indexed values |
//! | [`open`] | an index that a user's function has opened |
//! | [`options`] | options of `WITH (...)` |
//! | [`sample`] | which rows of a table to sample |
//! | [`corruption`] | the error for a corrupted index |
//! | [`tid`] | conversion of row numbers |

pub mod callbacks;
pub mod corruption;
pub mod open;
pub mod options;
pub mod relation;
pub mod sample;
pub mod scan;
pub mod tid;

use std::ffi::CStr;

use pgrx::pg_sys;
use rag_ann::hnsw::Tid;

use self::{
    callbacks::{BuildInput, Vacuum},
    options::OptionSet,
    relation::{Index, Relation, Value},
    scan::{HeapRows, ScanKeys},
};
use crate::error::Error;

/// An index access method: what its index consists of, and what PostgreSQL calls it for.
///
/// Errors that the functions return are raised as ERRORs.
pub trait AccessMethod: 'static {
    const NAME: &'static CStr;
    /// Number of support functions of an operator class.
    const SUPPORT_FUNCTIONS: u16;

    type Scan: IndexScan;

    fn options() -> &'static OptionSet;

    /// Checks options, in the order of [`options`](Self::options), that a user has given.
    fn check_options(values: &[i32]) -> Result<(), Error>;

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
        tid: Tid,
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

    /// Returns the next heap row of the search, or `None` at its end.
    fn next(&mut self, index: Index<'_>, rows: &mut HeapRows<'_>) -> Result<Option<Tid>, Error>;

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

/// The cost of a scan in the planner's units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScanCost {
    /// Until the first row.
    pub startup: f64,
    /// Until the last row.
    pub total: f64,
    /// Number of pages read until the first row.
    pub pages: f64,
}

/// What the planner knows of a scan.
pub struct PlannedScan<'a> {
    pub index: Index<'a>,
    /// Number of rows in the index.
    pub index_rows: f64,
    /// Number of operators that the scan orders by.
    pub order_count: usize,
    /// Number of rows that match the query's conditions on the table.
    pub matching_rows: f64,
    /// LIMIT of the query, or 0 or less if it has none.
    pub limit_rows: f64,
    /// Fraction of the rows that is expected to be fetched if it is below 1, else their number; 0
    /// means all rows.
    pub fetched_fraction: f64,
    /// Cost of an operator.
    pub operator_cost: f64,
    /// Cost of reading a page out of order.
    pub random_page_cost: f64,
}
