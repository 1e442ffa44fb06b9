//! The functions of the operators `<@>` (order), `@@@` and `!@@@` (conditions).
//!
//! They compute with the statistics of the index that the query names. So the score is the same
//! whether or not a plan uses the index. [`super::ranking`] says which privilege that requires.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};
use rag_words::Analysis;

use super::{
    query::{Bm25Query, TextArgument},
    ranking::{Purpose, ranking},
    scan::last_score,
    tokens,
};
use crate::{error::Error, pg::words::Analyzer};

/// Returns the negative score, 0 for a text that does not match.
#[pg_extern(sql = false, stable, strict, parallel_restricted)]
fn bm25_order(text: TextArgument<'_>, query: Bm25Query) -> Result<Option<f64>, ErrorReport> {
    let Some(words) = &query.text else {
        return Ok(None);
    };
    let score = match last_score(text.0, &query) {
        Some(score) => score,
        None => {
            let ranking = ranking(Purpose::Operator, query.index, words)?;
            text.0.with_text(|text| ranking.score(text))?
        }
    };
    Ok(Some(if score > 0.0 { -score } else { 0.0 }))
}

/// Returns true if the text has at least one term of the query.
#[pg_extern(sql = false, stable, strict, parallel_restricted)]
fn bm25_matches(text: TextArgument<'_>, query: Bm25Query) -> Result<Option<bool>, ErrorReport> {
    let Some(words) = &query.text else {
        return Ok(None);
    };
    if let Some(score) = last_score(text.0, &query) {
        return Ok(Some(score > 0.0));
    }
    let ranking = ranking(Purpose::Operator, query.index, words)?;
    Ok(Some(text.0.with_text(|text| ranking.matches(text))?))
}

/// Returns true if the text has no term of the query.
#[pg_extern(sql = false, stable, strict, parallel_restricted)]
fn bm25_misses(text: TextArgument<'_>, query: Bm25Query) -> Result<Option<bool>, ErrorReport> {
    Ok(bm25_matches(text, query)?.map(|matches| !matches))
}

/// The planner replaces it ([`super::support`]) if it finds the index.
#[pg_extern(sql = false, stable, strict, parallel_restricted)]
fn bm25_order_by_text(_text: &str, _query: &str) -> Result<f64, ErrorReport> {
    Err(no_index("<@>").into())
}

/// The condition `text @@@ text`. See [`bm25_order_by_text`].
#[pg_extern(sql = false, stable, strict, parallel_restricted)]
fn bm25_matches_text(_text: &str, _query: &str) -> Result<bool, ErrorReport> {
    Err(no_index("@@@").into())
}

/// The condition `text !@@@ text`. See [`bm25_order_by_text`].
#[pg_extern(sql = false, stable, strict, parallel_restricted)]
fn bm25_misses_text(_text: &str, _query: &str) -> Result<bool, ErrorReport> {
    Err(no_index("!@@@").into())
}

/// Returns true if an index with this text search configuration and analysis has a document for a
/// text.
#[pg_extern(sql = false, stable, strict, parallel_safe)]
fn bm25_has_words(
    config: pgrx::pg_sys::Oid,
    analysis: &str,
    text: &str,
) -> Result<bool, ErrorReport> {
    let analyzer = Analyzer {
        config,
        analysis: Analysis::parse(analysis).unwrap_or_default(),
        folds_accents: false,
        counts_positions: false,
    };
    Ok(!tokens::terms(analyzer, text.as_bytes())?.is_empty())
}

fn no_index(operator: &str) -> Error {
    Error::undefined(format!(
        "operator {operator} found no rag_bm25 index for its left argument"
    ))
    .detail(
        "The left argument must be a column or an expression that a valid rag_bm25 index of its \
         table has.",
    )
    .hint(format!(
        "Create one: CREATE INDEX ON ... USING rag_bm25 (column) WITH (text_config = 'english'). \
         Or name one: text {operator} rag_bm25_query('words', 'index')."
    ))
}
