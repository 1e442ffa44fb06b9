//! `rag_highlight`, and the columns `snippet` and `matches` of `rag_search`. `sql/search.sql`
//! declares these functions.

use pgrx::{Range, pg_extern, pg_sys, pg_sys::panic::ErrorReport};
use rag_contract::HighlightSettings;

use super::search::{parse_settings, parsed_settings};
use crate::{
    catalog::name::canonical,
    error::Error,
    pg::json::JsonbText,
    search::highlight::{Rules, SnippetKey, Snippets, highlighted, with_marks, with_snippets},
    types::vector::Vector,
};

#[pg_extern(sql = false, stable, parallel_restricted)]
fn rag_highlight(
    content: Option<&str>,
    query: Option<&str>,
    text_config: Option<&str>,
    collection: Option<&str>,
    index: Option<pg_sys::Oid>,
    settings: Option<JsonbText>,
) -> Result<Option<String>, ErrorReport> {
    let settings = parsed_settings(settings, HighlightSettings::parse)?;
    let rules = match (text_config, collection, index) {
        (None, None, None) => Rules::Default,
        (Some(config), None, None) => Rules::Config(config.to_owned()),
        (None, Some(name), None) => Rules::Collection(canonical(name).to_owned()),
        (None, None, Some(index)) => Rules::Index(index),
        _ => {
            let message = "only one of text_config, collection and index may be given";
            return Err(Error::invalid_parameter(message)
                .detail("Each of them says how texts become words.")
                .into());
        }
    };
    let (Some(content), Some(query)) = (content, query) else {
        return Ok(None);
    };
    let words = with_marks(rules, query, |marks| marks.find_in(content))?;
    Ok(Some(highlighted(content, &words, &settings)?))
}

/// The column `snippet` of a result.
#[pg_extern(sql = false, stable, parallel_restricted)]
fn chunk_snippet(
    content: Option<&str>,
    language: Option<&str>,
    query: Option<&str>,
    collection: Option<&str>,
    settings: Option<JsonbText>,
    query_embedding: Option<Vector<'_>>,
) -> Result<Option<String>, ErrorReport> {
    let Some(content) = content else {
        return Ok(None);
    };
    let row = with_row(query, collection, settings, query_embedding, |snippets| {
        snippets.snippet(content, language)
    });
    Ok(row.map(Some)?)
}

/// The column `matches` of a result.
#[pg_extern(sql = false, stable, parallel_restricted)]
fn chunk_matches(
    content: Option<&str>,
    language: Option<&str>,
    query: Option<&str>,
    collection: Option<&str>,
    settings: Option<JsonbText>,
    query_embedding: Option<Vector<'_>>,
) -> Result<Option<Vec<Range<i32>>>, ErrorReport> {
    let Some(content) = content else {
        return Ok(None);
    };
    let row = with_row(query, collection, settings, query_embedding, |snippets| {
        snippets.matches(content, language)
    });
    let places = row?.into_iter();
    let range = |place: std::ops::Range<usize>| place.start as i32..place.end as i32;
    Ok(Some(places.map(|place| range(place).into()).collect()))
}

fn with_row<T>(
    query: Option<&str>,
    collection: Option<&str>,
    settings: Option<JsonbText>,
    query_embedding: Option<Vector<'_>>,
    f: impl FnOnce(&mut Snippets) -> Result<T, Error>,
) -> Result<T, Error> {
    let embedding = query_embedding.map(|vector| vector.as_slice().to_vec());
    let key = SnippetKey {
        embedding: embedding.clone(),
        collection: collection.map(str::to_owned),
        query: query.map(str::to_owned),
        settings: settings
            .as_ref()
            .map(|settings| settings.as_bytes().to_vec()),
    };
    let new = || {
        let settings = parse_settings(settings)?.highlight;
        let collection = super::readable(collection)?;
        Snippets::new(collection, query, settings, embedding)
    };
    with_snippets(key, new, f)
}
