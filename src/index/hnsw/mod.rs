//! `rag_hnsw`: the graph index of [`rag_ann::hnsw`] as an access method.
//!
//! The crate has the graph and its pages, and knows nothing of PostgreSQL but
//! [`RelationPages`](super::pages::RelationPages). [`Hnsw`] is the access method:
//!
//! | file | contents |
//! |---|---|
//! | [`options`], [`opclass`] | what an index is created with |
//! | [`build`], [`sample`], [`insert`], [`scan`], [`vacuum`] | what PostgreSQL calls it for |
//! | [`collected`] | what a transaction has inserted, and writes later |
//! | [`cost`] | the cost of a scan, for the planner |
//! | [`adaptive`] | a plan that ranks the rows of a filter if the index does not find enough |
//! | [`cache`] | what a backend keeps of indexes between statements |
//! | [`info`], [`recall`] | `rag_check_index`, `rag_hnsw_info`, `rag_hnsw_recall` |

pub mod adaptive;
mod build;
mod cache;
mod collected;
mod cost;
mod info;
mod insert;
mod opclass;
mod options;
mod recall;
mod sample;
mod scan;
mod vacuum;

use std::ffi::CStr;

use pgrx::{datum::Internal, pg_extern, pg_sys};
use rag_ann::code::Metric;
use rag_pages::Tid;

use self::opclass::Order;
use super::{
    Method,
    am::{
        AccessMethod, BuildCounts, BulkDeletion, NewRow,
        callbacks::{self, BuildInput, Vacuum},
        corruption::index_error,
        cost::{PlannedScan, ScanCost},
        options::{OptionSet, OptionValues},
        relation::{Index, Relation, Value},
    },
};
use crate::{error::Error, types::vector::MAX_DIMENSIONS};

/// The access method `rag_hnsw`.
pub struct Hnsw;

pub const METHOD: Method = Method {
    name: Hnsw::NAME,
    check: info::check,
    info: Some(info::info),
    info_function: "rag_hnsw_info",
    recall: Some(recall::recall),
};

/// PostgreSQL calls it without the argument that it is declared with.
#[pg_extern(sql = false)]
fn hnsw_handler(_call: pg_sys::FunctionCallInfo) -> Internal {
    callbacks::handler::<Hnsw>()
}

impl AccessMethod for Hnsw {
    const NAME: &'static CStr = c"rag_hnsw";
    const SUPPORT_FUNCTIONS: u16 = 1;

    type Scan = scan::HnswScan;

    fn options() -> &'static OptionSet {
        &options::OPTIONS
    }

    fn check_options(values: &OptionValues) -> Result<(), Error> {
        options::check(values)
    }

    fn validate(class: pg_sys::Oid) -> Result<Vec<String>, Error> {
        opclass::problems(class)
    }

    fn build(input: &BuildInput<'_>) -> Result<BuildCounts, Error> {
        build::build(input)
    }

    fn phase_name(phase: i64) -> Option<&'static CStr> {
        build::phase_name(phase)
    }

    fn build_empty(index: Index<'_>) -> Result<(), Error> {
        build::build_empty(index)
    }

    fn insert(
        table: Relation<'_>,
        index: Index<'_>,
        value: Value<'_>,
        row: NewRow,
    ) -> Result<(), Error> {
        insert::insert(table, index, value, row)
    }

    fn bulk_delete(
        vacuum: &Vacuum<'_>,
        is_dead: &mut dyn FnMut(Tid) -> bool,
    ) -> Result<BulkDeletion, Error> {
        vacuum::bulk_delete(vacuum, is_dead)
    }

    fn vacuum_cleanup(vacuum: &Vacuum<'_>) -> Result<(), Error> {
        vacuum::cleanup(vacuum)
    }

    fn scan_cost(scan: &PlannedScan<'_>) -> Option<ScanCost> {
        cost::scan_cost(scan)
    }
}

/// Returns true if an index holds a vector. Under cosine distance it does not hold the zero vector,
/// which has no direction.
fn is_indexable(metric: Metric, vector: &[f32]) -> bool {
    metric != Metric::Cosine || vector.iter().any(|x| *x != 0.0)
}

/// Returns the vector that an index has for a value, or `None` if it has none. `other` is memory
/// for a vector that is not the value itself.
///
/// A set without elements has no direction, but a Jaccard distance: 1 from all. The index has it as
/// a set of everything, which is nearer to each than it should be: it is not found too late.
///
/// # Errors
/// The value has no dimensions, or too many.
fn indexed_form<'v>(
    order: Order,
    vector: &'v [f32],
    other: &'v mut Vec<f32>,
) -> Result<Option<&'v [f32]>, Error> {
    check_limit(vector.len())?;
    if is_indexable(order.metric(), vector) {
        return Ok(Some(vector));
    }
    if order != Order::Jaccard {
        return Ok(None);
    }
    other.clear();
    other.resize(vector.len(), 1.0);
    Ok(Some(other))
}

/// # Errors
/// No index has vectors with as many dimensions. Bit strings may be empty, and longer than vectors.
fn check_limit(dimensions: usize) -> Result<(), Error> {
    match dimensions {
        0 => Err(Error::data_exception(
            "cannot index a value without dimensions",
        )),
        1..=MAX_DIMENSIONS => Ok(()),
        _ => Err(Error::limit(format!(
            "column cannot have more than {MAX_DIMENSIONS} dimensions for a rag_hnsw index"
        ))),
    }
}

/// # Errors
/// A vector of `dimensions` does not fit an index of `expected`.
fn check_dimensions(expected: usize, dimensions: usize) -> Result<(), Error> {
    if expected == dimensions {
        return Ok(());
    }
    Err(Error::data_exception(format!(
        "expected {expected} dimensions, not {dimensions}"
    )))
}
