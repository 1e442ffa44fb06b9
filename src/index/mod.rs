//! Index access methods. This room connects them with PostgreSQL; how the indexes work is in
//! `crates/`.
//!
//! | folder, file | contents |
//! |---|---|
//! | [`am`] | what all access methods share: callbacks, relations, rows, options |
//! | [`hnsw`] | the access method `rag_hnsw` |
//! | [`bm25`] | the access method `rag_bm25` |
//! | [`pages`] | pages of an index, through the buffer manager and the write-ahead log |
//! | [`plans`] | what the planner calls for the access methods |
//!
//! To add an access method, implement [`am::AccessMethod`] in a folder of its own, and add it to
//! [`METHODS`] and to [`define_options`].

pub mod am;
pub mod bm25;
pub mod hnsw;
pub mod pages;
mod plans;

use std::ffi::CStr;

use self::am::{AccessMethod, callbacks, open::OpenIndex};
pub use self::plans::offer as offer_plans;
use crate::error::Error;

/// An access method as the functions see it that users call for an index (`src/api/index.rs`).
pub struct Method {
    pub name: &'static CStr,
    /// Verifies an index. Returns its problems.
    pub check: fn(&OpenIndex) -> Result<Vec<IndexProblem>, Error>,
    /// Describes an index that is a graph. `None` for another structure.
    pub info: Option<DescribeIndex>,
    /// The function in SQL that describes an index.
    pub info_function: &'static str,
    /// `None` if the access method finds all rows that match.
    pub recall: Option<MeasureRecall>,
}

/// Describes an index.
pub type DescribeIndex = fn(&OpenIndex) -> Result<IndexInfo, Error>;

/// Measures the recall of an index for queries and a number of neighbours of each.
pub type MeasureRecall = fn(&OpenIndex, RecallQueries, usize) -> Result<Vec<Recall>, Error>;

/// All access methods.
pub static METHODS: [Method; 2] = [hnsw::METHOD, bm25::METHOD];

/// Makes the options of all access methods known to PostgreSQL.
pub fn define_options() {
    callbacks::register(hnsw::Hnsw::options());
    callbacks::register(bm25::Bm25::options());
}

/// Something that is wrong with an index, a row of `rag_check_index`.
pub struct IndexProblem {
    /// Level of a graph.
    pub level: Option<i32>,
    pub block: Option<i64>,
    pub slot: Option<i32>,
    pub problem: String,
}

/// A description of an index that is a graph, the row of `rag_hnsw_info`.
pub struct IndexInfo {
    pub metric: &'static str,
    pub dimensions: Option<i32>,
    pub m: i32,
    pub ef_construction: i32,
    pub vectors: i64,
    pub nodes: i64,
    pub tombstones: i64,
    pub free_slots: i64,
    pub levels: i32,
    pub average_degree: f64,
    pub pages: i64,
    pub bytes: i64,
    pub slots_per_page: i32,
    pub code_dimensions: i32,
    /// What would improve the index.
    pub hint: Option<String>,
}

/// Queries that recall is measured with.
pub enum RecallQueries {
    /// The vectors of this number of random rows.
    RandomRows(i64),
    Vectors(Vec<Vec<f32>>),
}

/// What was measured with one value of `rag.ef_search`, a row of `rag_hnsw_recall`.
pub struct Recall {
    pub ef_search: i32,
    /// Share of the true nearest neighbours that the index found.
    pub recall: f64,
    /// Mean time of a query.
    pub milliseconds: f64,
    /// Mean time of a query without the index.
    pub exact_milliseconds: f64,
}
