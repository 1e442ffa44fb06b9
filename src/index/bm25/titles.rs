//! Conditions on the titles of documents: `title:word` in a query of a collection.
//!
//! A title is read as the index reads texts: by the text search configuration of the collection, in
//! the language of its document if each has its own.

use std::{ffi::CString, rc::Rc};

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};
use rag_bm25::Parameters;
use rag_words::Analysis;

use super::{
    asked,
    config::ConfigName,
    languages,
    query::TextArgument,
    ranking::{Purpose, Ranking, ScoreRules},
    remembered::{remember, remembered},
    rules::TextRules,
};
use crate::error::Error;

/// Returns true if a title has what a query requires. NULL: the query only has stop words.
#[pg_extern(sql = false, stable, strict, parallel_restricted)]
fn bm25_title_matches(
    title: TextArgument<'_>,
    query: &str,
    config: &str,
) -> Result<Option<bool>, ErrorReport> {
    let known = condition(config, query)?;
    if known.query.condition.is_none() {
        return Ok(None);
    }
    Ok(Some(title.0.with_text(|title| known.allows(title))?))
}

/// Returns true if a query requires anything of titles: other words than stop words.
///
/// # Errors
/// There is no such text search configuration.
pub fn requires(config: &str, query: &str) -> Result<bool, Error> {
    Ok(condition(config, query)?.query.condition.is_some())
}

/// Returns what a query requires, by the name of a text search configuration.
fn condition(config: &str, query: &str) -> Result<Rc<Ranking>, Error> {
    let option = CString::new(config).map_err(|_| Error::internal("a name with a zero byte"))?;
    let rules = TextRules {
        config: ConfigName::parse(&option)?,
        analysis: Analysis::default(),
        folds_accents: false,
    };
    let analyzer = rules.analyzer()?;
    let key = (Purpose::Title, analyzer.config, query.as_bytes());
    if let Some(known) = remembered(key.0, key.1, key.2) {
        return Ok(known);
    }
    let used = languages::is_auto(analyzer)
        .then(languages::all)
        .transpose()?;
    let asked = asked::read_title(analyzer, query, used.as_deref())?;
    let parameters = Parameters {
        has_parts: rules.has_parts(),
        ..Parameters::default()
    };
    let rules = ScoreRules::new(rules, parameters);
    let ranking = Ranking::neutral(rules, analyzer, asked).with_used(used.as_deref());
    Ok(remember(key.0, key.1, key.2, ranking))
}
