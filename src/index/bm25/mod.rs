//! `rag_bm25`: the keyword index of [`rag_bm25`] as an access method.
//!
//! The crate has segments, searches and their pages, and knows nothing of PostgreSQL but
//! [`RelationPages`](super::pages::RelationPages). [`Bm25`] is the access method:
//!
//! | file | contents |
//! |---|---|
//! | [`options`], [`config`], [`rules`], [`opclass`] | what an index is created with |
//! | [`build`], [`insert`], [`scan`], [`vacuum`] | what PostgreSQL calls it for |
//! | [`collected`] | what a transaction has inserted, and writes later |
//! | [`tokens`], [`languages`] | from texts to terms, also of several languages in one index |
//! | [`asked`] | from what somebody typed to a query |
//! | [`query`], [`ranking`], [`remembered`], [`partitions`] | the type of queries, and their statistics |
//! | [`given`] | statistics that come with a query, and functions for shards |
//! | [`titles`] | conditions on titles of documents |
//! | [`spelling`] | words of a query that no row has |
//! | [`operators`] | the functions of the operators |
//! | [`support`], [`column`], [`predicate`] | the planner's questions about the operators, and the index that is meant |
//! | [`level`], [`condition`] | what a statement searches for, and the conditions that belong to it |
//! | [`union`] | UNION ALL of searches |
//! | [`descending`] | searches that order by the positive score |
//! | [`bitmap`] | what bitmaps cost |
//! | [`filtered`] | a plan that restricts a scan to the rows that another index has for a filter |
//! | [`counted`] | a plan that counts the rows that match |
//! | [`cost`] | the cost of a scan, for the planner |
//! | [`cache`] | what a backend keeps of indexes between statements |
//! | [`highlight`] | the words of a query in texts |
//! | [`info`], [`search`] | the functions that users call for an index |

mod asked;
pub mod bitmap;
mod build;
mod cache;
mod collected;
mod column;
pub mod condition;
mod config;
mod cost;
pub mod counted;
pub mod descending;
pub mod filtered;
pub mod given;
pub mod highlight;
pub mod info;
mod insert;
pub mod languages;
mod level;
mod opclass;
mod operators;
mod options;
pub mod partitions;
mod predicate;
mod query;
pub mod ranking;
mod remembered;
mod rules;
mod scan;
pub mod search;
pub mod spelling;
mod support;
pub mod titles;
mod tokens;
mod union;
mod vacuum;

use std::ffi::CStr;

use pgrx::{datum::Internal, pg_extern, pg_sys};
use rag_pages::Tid;

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
use crate::error::Error;

/// The access method `rag_bm25`.
pub struct Bm25;

pub const METHOD: Method = Method {
    name: Bm25::NAME,
    check: info::check,
    info: None,
    info_function: "rag_bm25_info",
    recall: None,
};

/// PostgreSQL calls it without the argument that it is declared with.
#[pg_extern(sql = false)]
fn bm25_handler(_call: pg_sys::FunctionCallInfo) -> Internal {
    callbacks::handler::<Bm25>()
}

impl AccessMethod for Bm25 {
    const NAME: &'static CStr = c"rag_bm25";
    const SUPPORT_FUNCTIONS: u16 = 0;
    const MAKES_BITMAPS: bool = true;

    type Scan = scan::Bm25Scan;

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
