//! Fields in queries: `title:word` and `uri:part` restrict what is found, as a filter does.

use std::borrow::Cow;

use rag_definition::retriever::RetrievalMode;
use rag_filter::{Filter, TitleWords};
use rag_language::KEY;
use rag_words::query::{Field, FieldedQuery};

use super::SearchQuery;
use crate::{catalog::collections::Collection, error::Error, index::bm25::titles};

/// Moves the fields of a query into the filter. In mode `vector` the query is a text without signs.
///
/// # Errors
/// The text search configuration of the collection does not exist any more.
pub fn divide(
    collection: &Collection,
    mode: RetrievalMode,
    mut query: SearchQuery,
    filter: Filter,
) -> Result<(SearchQuery, Filter), Error> {
    let Some(words) = query.words().filter(|_| mode != RetrievalMode::Vector) else {
        return Ok((query, filter));
    };
    let (rest, filter) = divide_text(collection, words, filter)?;
    let rest = rest.into_owned();
    match &mut query.hinted_words {
        Some(words) => *words = rest,
        None => query.text = Some(rest),
    }
    Ok((query, filter))
}

/// Moves the fields of a text into the filter.
///
/// # Errors
/// See [`divide`].
pub fn divide_text<'t>(
    collection: &Collection,
    text: &'t str,
    mut filter: Filter,
) -> Result<(Cow<'t, str>, Filter), Error> {
    let fielded = FieldedQuery::parse(text);
    for clause in &fielded.fields {
        let config = &collection.definition.text_config;
        filter = match clause.field {
            // stop words restrict nothing
            Field::Title if !titles::requires(config, clause.text)? => filter,
            Field::Title => filter.with_title(
                TitleWords {
                    query: clause.text.to_owned(),
                    config: config.clone(),
                    language_key: collection.detects_language().then(|| KEY.to_owned()),
                },
                clause.is_excluded,
            ),
            Field::Uri => filter.with_uri(clause.text, clause.is_excluded),
        };
    }
    Ok((fielded.rest, filter))
}
