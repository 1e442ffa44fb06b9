//! The cost of a scan, in the planner's units.
//!
//! The planner compares this index with reading the rows that match a filter, and sorting them by
//! the operator. That has to make words of each text, which the cost of its function says.
//!
//! For a scan under LIMIT the planner takes the startup cost and a share of the rest: the fraction
//! of rows that it expects to read until enough have passed the filter. A search has the condition
//! that rows match ([`super::level`]), so the planner knows how many the index returns. It does not
//! if the condition must not be asked of the index, because of row-level security. Then
//! [`ScanCost::fetched_fraction`] is set so that the fraction of it that the planner takes is
//! right.

use pgrx::pg_sys;

use super::{
    level::is_search,
    opclass::Strategy,
    query::Bm25Query,
    ranking::{Purpose, Ranking, ScoreRules, ranking},
    support::DEFAULT_FRACTION,
};
use crate::{
    index::am::{
        cost::{PlannedArgument, PlannedScan, ScanCost},
        relation::Index,
    },
    pg::calls,
};

/// Cost of finding a term in an index of one segment, in units of `cpu_operator_cost`: some pages
/// of its dictionary.
const TERM_COST: f64 = 200.0;
/// Cost of a document with a term while the first rows are found, in units of `cpu_operator_cost`.
/// Most blocks of long lists are skipped.
const POSTING_COST: f64 = 0.05;
/// Cost of each further row, in units of `cpu_operator_cost`, with the visit of its heap row. The
/// planner adds the pages of the heap, but each of them once. Measured in memory: 3 to 6
/// microseconds, while the operator takes 70 microseconds and more for a text of 100 words.
const ROW_COST: f64 = 1000.0;
/// Cost of each row of a scan without an order, in the same units. Rows come in the order of the
/// table, so that visits of heap rows cost what the planner adds.
const LISTED_COST: f64 = 40.0;
/// Cost of the operator for a text, and for each of its terms, in units of `cpu_operator_cost`:
/// about 1.5 microseconds a term.
const TEXT_COST: f64 = 4000.0;
const TEXT_TERM_COST: f64 = 400.0;
/// Cost of each given row of a search that is restricted to rows, and of each term for it, in units
/// of `cpu_operator_cost`: to find its document, and to look it up in a list of postings.
const GIVEN_ROW_COST: f64 = 20.0;
const GIVEN_TERM_COST: f64 = 8.0;
/// Cost of reading a block of postings for that, in the same units.
const BLOCK_COST: f64 = 70.0;
const BLOCK: f64 = 128.0;
/// Number of terms that a query has if it is not known.
const DEFAULT_TERMS: f64 = 4.0;

/// Returns the cost of an operator for a text of the average length, if the query is a constant.
pub fn operator_cost(query: &Bm25Query) -> Option<f64> {
    let known = ranking(Purpose::Operator, query.index, query.text.as_deref()?).ok()?;
    let documents = known.statistics.documents.max(1) as f64;
    let length = known.statistics.length as f64 / documents;
    Some(calls::operator_cost() * (TEXT_COST + TEXT_TERM_COST * length))
}

pub fn scan_cost(scan: &PlannedScan<'_>) -> Option<ScanCost> {
    let orders = scan.orders();
    // rows are found by these, and then checked by the others
    let conditions: Vec<_> = (scan.conditions().into_iter())
        .filter(|(strategy, _)| *strategy == Strategy::Matches as i32)
        .map(|(_, argument)| argument)
        .collect();
    // an order by another query takes the rows that satisfy the first condition
    let (argument, is_sorted) = match (orders.as_slice(), conditions.first()) {
        ([order], Some(condition)) => match conditions.iter().find(|other| other.equals(order)) {
            Some(same) => (same, true),
            None => (condition, false),
        },
        ([order], None) => (order, true),
        ([], Some(condition)) => (condition, true),
        _ => return None,
    };
    if conditions.is_empty() && !is_search(scan) {
        return None; // the planner wants the order for itself, and all rows
    }
    let known = match known_ranking(scan.index, argument) {
        KnownRanking::Known(known) => Some(known),
        KnownRanking::Unknown => None,
        KnownRanking::OfAnotherIndex => return None,
    };
    if !is_sorted
        && let Some(order) = orders.first()
        && matches!(
            known_ranking(scan.index, order),
            KnownRanking::OfAnotherIndex
        )
    {
        return None;
    }
    let rows = scan.index_rows.max(1.0);
    let (terms, postings, fraction) = match &known {
        Some(known) => {
            let postings: u64 = known.statistics.frequencies.iter().sum();
            let share = rows / (known.statistics.documents.max(1) as f64).max(rows);
            let (terms, fraction) = (
                known.query.as_ref().count() as f64,
                known.matching_fraction().unwrap_or(DEFAULT_FRACTION),
            );
            (terms, postings as f64 * share, fraction)
        }
        None => {
            let postings = DEFAULT_TERMS * DEFAULT_FRACTION * rows;
            (DEFAULT_TERMS, postings, DEFAULT_FRACTION)
        }
    };
    let matching = (fraction * rows).max(1.0);
    let mut startup = scan.operator_cost * (TERM_COST * terms + POSTING_COST * postings);
    if !is_sorted {
        startup += scan.operator_cost * LISTED_COST * matching;
    }
    let row_cost = if orders.is_empty() {
        LISTED_COST
    } else {
        ROW_COST
    };
    let fetched_fraction = conditions
        .is_empty()
        .then(|| fetched_fraction(scan, matching));
    let fetched = fetched_fraction.map_or(matching, |fraction| fraction * rows);
    Some(ScanCost {
        startup,
        total: startup + scan.operator_cost * row_cost * fetched,
        pages: f64::from(scan.index.block_count()).min(terms * 4.0 + postings / 128.0),
        fetched_fraction,
    })
}

/// Returns the cost until the first row and until the last of an ordered scan that is restricted to
/// the rows that a bitmap has, without the bitmap's cost. Returns `None` if the index cannot answer
/// it. The planner's share of the cost for LIMIT is right.
pub fn filtered_cost(scan: &PlannedScan<'_>, given: f64) -> Option<(f64, f64)> {
    let orders = scan.orders();
    let (terms, postings, fraction) = match known_ranking(scan.index, orders.first()?) {
        KnownRanking::Known(known) => {
            let terms = known.query.as_ref().count() as f64;
            let postings: u64 = known.statistics.frequencies.iter().sum();
            (
                terms,
                postings as f64,
                known.matching_fraction().unwrap_or(DEFAULT_FRACTION),
            )
        }
        KnownRanking::Unknown => {
            let postings = DEFAULT_TERMS * DEFAULT_FRACTION * scan.index_rows;
            (DEFAULT_TERMS, postings, DEFAULT_FRACTION)
        }
        KnownRanking::OfAnotherIndex => return None,
    };
    let blocks = (postings / BLOCK).min(given * terms);
    let search = TERM_COST * terms
        + (GIVEN_ROW_COST + GIVEN_TERM_COST * terms) * given
        + BLOCK_COST * blocks;
    let startup = scan.operator_cost * search;
    let rows = scan.matching_rows.max(1.0);
    let row = scan.operator_cost * ROW_COST + scan.random_page_cost;
    if scan.has_conditions() {
        return Some((startup, startup + row * rows)); // the rows match
    }
    let wanted = scan.wanted_rows().max(1.0);
    let fetched = wanted.min((fraction * rows).max(1.0));
    let share = (wanted / rows).min(1.0);
    Some((startup, startup + row * fetched / share))
}

/// Returns the fraction of the table's rows that an ordered scan would fetch if the planner's share
/// for LIMIT was 1. `matching` rows are in the index.
fn fetched_fraction(scan: &PlannedScan<'_>, matching: f64) -> f64 {
    let table_rows = scan.table_rows.max(1.0);
    let filtered = scan.matching_rows.clamp(1.0, table_rows);
    let wanted = scan.wanted_rows().max(1.0);
    // rows that are read until enough have passed the filter
    let fetched = (wanted * table_rows / filtered).min(matching);
    let share = (wanted / filtered).min(1.0);
    (fetched / (share * table_rows)).clamp(0.0, 1.0)
}

enum KnownRanking {
    Known(std::rc::Rc<Ranking>),
    Unknown,
    /// The index cannot answer the query.
    OfAnotherIndex,
}

/// Returns the ranking of a query that is a constant, if its index can be read.
fn known_ranking(index: Index<'_>, argument: &PlannedArgument) -> KnownRanking {
    let query = argument
        .constant()
        .and_then(|value| value.get::<Bm25Query>());
    let Some(query) = query else {
        let named = argument.constant_of_call(1);
        let named = named.and_then(|value| value.get::<pg_sys::Oid>());
        return match named {
            Some(named) if !answers(index, named, None) => KnownRanking::OfAnotherIndex,
            _ => KnownRanking::Unknown,
        };
    };
    let words = query.text.unwrap_or_default();
    match ranking(Purpose::Operator, query.index, &words) {
        Ok(ranking) if ranking.is_neutral => KnownRanking::Unknown,
        Ok(ranking) if answers(index, query.index, Some(&ranking)) => KnownRanking::Known(ranking),
        Ok(_) => KnownRanking::OfAnotherIndex,
        Err(_) => KnownRanking::Unknown, // the scan reports it
    }
}

/// Returns true if an index can answer queries that name another one.
fn answers(index: Index<'_>, named: pg_sys::Oid, of_named: Option<&Ranking>) -> bool {
    if index.id() == named {
        return true;
    }
    let own = super::cache::open(index).and_then(|opened| ScoreRules::of(&opened));
    match (own, of_named) {
        (Ok(own), Some(of_named)) => own == of_named.rules,
        (Ok(own), None) => {
            ranking(Purpose::Operator, named, &[]).is_ok_and(|of_named| of_named.rules == own)
        }
        (Err(_), _) => true, // the scan reports it
    }
}
