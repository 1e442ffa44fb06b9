//! `rag_search`, and the arguments of searches.

use pgrx::{
    JsonB, PgSqlErrorCode, Uuid, datum::TimestampWithTimeZone, iter::TableIterator, name,
    pg_extern, pg_sys::panic::ErrorReport, prelude::PgLogLevel,
};
use rag_contract::{RetrievalSettings, unreadable};
use rag_definition::{FieldProblem, retriever::RetrievalMode};
use rag_filter::Filter;
use serde_json::Value;

use crate::{
    error::Error,
    pg::json::JsonbText,
    search::{SearchQuery, SearchRequest, rerank::search_and_rerank},
    types::vector::Vector,
};

/// The columns of `rag_search` that the search itself has. `sql/search.sql` declares both.
#[pg_extern(sql = false, stable, parallel_restricted)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn search_chunks(
    query: Option<&str>,
    collections: Option<Vec<Option<String>>>,
    top_k: Option<i32>,
    mode: Option<&str>,
    filter: Option<JsonbText>,
    rerank: Option<&str>,
    settings: Option<JsonbText>,
    query_embedding: Option<Vector<'_>>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(rank, i32),
            name!(score, f64),
            name!(content, String),
            name!(title, Option<String>),
            name!(uri, String),
            name!(chunk_index, i32),
            name!(start_index, i32),
            name!(source, Option<String>),
            name!(document_id, Uuid),
            name!(knowledge_id, Option<i64>),
            name!(chunk_id, Uuid),
            name!(metadata, JsonB),
            name!(vector_score, Option<f64>),
            name!(keyword_score, Option<f64>),
            name!(vector_rank, Option<i32>),
            name!(keyword_rank, Option<i32>),
            name!(citation, String),
            name!(start_line, i32),
            name!(end_line, i32),
            name!(page, Option<i32>),
            name!(heading_path, Option<Vec<String>>),
            name!(anchor, Option<String>),
            name!(document_type, String),
            name!(category, Option<String>),
            name!(tags, Option<Vec<String>>),
            name!(indexed_at, TimestampWithTimeZone),
            name!(fetched_at, TimestampWithTimeZone),
            name!(also_at, Vec<String>),
            name!(collection, String),
        ),
    >,
    ErrorReport,
> {
    let arguments = SearchArguments {
        query,
        top_k,
        mode,
        filter,
        settings,
        query_embedding,
        ..SearchArguments::default()
    };
    let mut requests = arguments.into_requests(&super::elements(&collections))?;
    if let Some(model) = rerank {
        for request in &mut requests {
            request.rerank = Some(model.to_owned());
        }
    }
    let found = search_and_rerank(&mut requests)?;
    if let Some(why) = &found.degraded {
        notify_degraded(&requests[0], found.mode, why);
    }
    Ok(TableIterator::new(found.hits.into_iter().map(|hit| {
        let citation = hit.citation();
        (
            hit.rank,
            hit.score,
            hit.content,
            hit.title,
            hit.uri,
            hit.chunk_index,
            hit.start_index,
            hit.source,
            hit.document_id,
            hit.knowledge_id,
            hit.chunk_id,
            hit.metadata,
            hit.vector_score,
            hit.keyword_score,
            hit.vector_rank,
            hit.keyword_rank,
            citation,
            hit.start_line,
            hit.end_line,
            hit.page,
            hit.heading_path,
            hit.anchor,
            hit.document_type,
            hit.category,
            hit.tags,
            hit.indexed_at,
            hit.fetched_at,
            hit.also_at,
            hit.collection,
        )
    })))
}

/// The arguments of a search in SQL. NULL means that of `settings`, or else the setting of the
/// retriever, or else the default.
#[derive(Default)]
pub(super) struct SearchArguments<'a> {
    pub query: Option<&'a str>,
    pub collection: Option<&'a str>,
    pub top_k: Option<i32>,
    /// The `top_k` where neither `settings` nor the caller names one, instead of the retriever's.
    pub default_top_k: Option<i32>,
    pub mode: Option<&'a str>,
    pub filter: Option<JsonbText>,
    pub settings: Option<JsonbText>,
    pub query_embedding: Option<Vector<'a>>,
}

impl SearchArguments<'_> {
    /// # Errors
    /// An argument is invalid, or the caller may not read the collection.
    pub fn into_request(self) -> Result<SearchRequest, Error> {
        let collection = self.collection;
        let (query, settings, filter) = self.read()?;
        let collection = super::readable(collection)?;
        SearchRequest::new(collection, query, &settings, filter)
    }

    /// Returns a request for each collection: see [`super::all_readable`].
    ///
    /// # Errors
    /// An argument is invalid, or the caller may not read a collection.
    pub fn into_requests(self, names: &[Option<&str>]) -> Result<Vec<SearchRequest>, Error> {
        let (query, settings, filter) = self.read()?;
        let collections = super::all_readable(names)?.into_iter();
        let requests = collections.map(|collection| {
            SearchRequest::new(collection, query.clone(), &settings, filter.clone())
        });
        let mut requests = requests.collect::<Result<Vec<_>, _>>()?;
        let most = requests.iter().map(|request| request.top_k).max();
        for request in &mut requests {
            request.top_k = most.unwrap_or(request.top_k);
        }
        Ok(requests)
    }

    fn read(self) -> Result<(SearchQuery, RetrievalSettings, Filter), Error> {
        let mut settings = parse_settings(self.settings)?;
        if let Some(mode) = self.mode {
            settings.mode = Some(parse_mode(mode)?);
        }
        settings.top_k = self.top_k.or(settings.top_k).or(self.default_top_k);
        let query = SearchQuery::new(self.query, self.query_embedding)?;
        Ok((query, settings, parse_filter(self.filter)?))
    }
}

/// Reads the argument `settings`. All are those of the retriever if it is NULL.
pub(super) fn parse_settings(settings: Option<JsonbText>) -> Result<RetrievalSettings, Error> {
    parsed_settings(settings, RetrievalSettings::parse)
}

/// Reads an argument `settings`. All are the default if it is NULL.
pub(super) fn parsed_settings<T: Default>(
    settings: Option<JsonbText>,
    parse: fn(&Value) -> Result<T, FieldProblem>,
) -> Result<T, Error> {
    let Some(settings) = settings else {
        return Ok(T::default());
    };
    let parsed = settings.parse().map_err(|error| unreadable(&error));
    parsed.and_then(|value| parse(&value)).map_err(|problem| {
        Error::invalid_parameter(format!("invalid settings: {problem}")).maybe_hint(problem.hint)
    })
}

fn parse_mode(name: &str) -> Result<RetrievalMode, Error> {
    RetrievalMode::parse(name).ok_or_else(|| {
        let modes = RetrievalMode::ALL.map(RetrievalMode::name);
        Error::invalid_parameter(format!("unknown mode \"{name}\""))
            .hint(format!("Valid values are {}.", modes.join(", ")))
    })
}

pub(super) fn parse_filter(filter: Option<JsonbText>) -> Result<Filter, Error> {
    let filter = filter.map(|json| json.parse()).transpose();
    let filter = filter
        .map_err(|e| Error::invalid_parameter(format!("invalid filter: {e}")))?
        .unwrap_or_default();
    rag_filter::parse(&filter)
        .map_err(|e| Error::invalid_parameter(format!("invalid filter: {e}")).hint(e.hint))
}

/// Tells the caller that the mode is not the one that was wanted.
pub(super) fn notify_degraded(request: &SearchRequest, used: RetrievalMode, why: &str) {
    let message = format!(
        "mode \"{used}\" was used instead of \"{}\": {why}",
        request.mode
    );
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        message,
        "rag",
    )
    .report(PgLogLevel::NOTICE);
}
