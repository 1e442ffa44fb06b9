//! `rag_search`, and the arguments of searches.

use pgrx::{
    JsonB, PgSqlErrorCode, Uuid, datum::TimestampWithTimeZone, iter::TableIterator, name,
    pg_extern, pg_sys::panic::ErrorReport, prelude::PgLogLevel,
};
use rag_contract::RetrievalSettings;
use rag_definition::retriever::{Fusion, RetrievalMode, Weights};
use rag_filter::Filter;

use crate::{
    error::Error,
    pg::json::JsonbText,
    search::{SearchQuery, SearchRequest, rerank::search_and_rerank},
    types::vector::Vector,
};

#[pg_extern(stable, parallel_restricted, cost = 100000)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_search(
    query: Option<&str>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    top_k: pgrx::default!(Option<i32>, "NULL"),
    mode: pgrx::default!(Option<&str>, "NULL"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    score_threshold: pgrx::default!(Option<f64>, "NULL"),
    vector_weight: pgrx::default!(Option<f64>, "NULL"),
    keyword_weight: pgrx::default!(Option<f64>, "NULL"),
    fusion: pgrx::default!(Option<&str>, "NULL"),
    per_document: pgrx::default!(Option<i32>, "NULL"),
    neighbours: pgrx::default!(Option<i32>, "NULL"),
    mmr_lambda: pgrx::default!(Option<f64>, "NULL"),
    query_embedding: pgrx::default!(Option<Vector<'_>>, "NULL"),
    rerank: pgrx::default!(Option<&str>, "NULL"),
    distinct_text: pgrx::default!(Option<bool>, "true"),
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
            name!(document_type, String),
            name!(category, Option<String>),
            name!(tags, Option<Vec<String>>),
            name!(indexed_at, TimestampWithTimeZone),
            name!(fetched_at, TimestampWithTimeZone),
            name!(also_at, Vec<String>),
        ),
    >,
    ErrorReport,
> {
    let mut request = SearchArguments {
        query,
        collection,
        top_k,
        mode,
        filter,
        score_threshold,
        vector_weight,
        keyword_weight,
        fusion,
        per_document,
        neighbours,
        mmr_lambda,
        distinct_text,
        query_embedding,
    }
    .into_request()?;
    let found = search_and_rerank(&mut request, rerank)?;
    if let Some(why) = &found.degraded {
        notify_degraded(&request, found.mode, why);
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
            hit.document_type,
            hit.category,
            hit.tags,
            hit.indexed_at,
            hit.fetched_at,
            hit.also_at,
        )
    })))
}

/// The arguments of a search in SQL. NULL means the setting of the retriever, or else the default.
pub(super) struct SearchArguments<'a> {
    pub query: Option<&'a str>,
    pub collection: Option<&'a str>,
    pub top_k: Option<i32>,
    pub mode: Option<&'a str>,
    pub filter: Option<JsonbText>,
    pub score_threshold: Option<f64>,
    pub vector_weight: Option<f64>,
    pub keyword_weight: Option<f64>,
    pub fusion: Option<&'a str>,
    pub per_document: Option<i32>,
    pub neighbours: Option<i32>,
    pub mmr_lambda: Option<f64>,
    pub distinct_text: Option<bool>,
    pub query_embedding: Option<Vector<'a>>,
}

impl SearchArguments<'_> {
    /// # Errors
    /// An argument is invalid, or the caller may not read the collection.
    pub fn into_request(self) -> Result<SearchRequest, Error> {
        let settings = RetrievalSettings {
            mode: self.mode.map(parse_mode).transpose()?,
            weights: weights(self.vector_weight, self.keyword_weight)?,
            top_k: self.top_k,
            threshold: self.score_threshold,
            fusion: self.fusion.map(parse_fusion).transpose()?,
            per_document: self.per_document,
            neighbours: self.neighbours,
            mmr_lambda: self.mmr_lambda,
            distinct_text: self.distinct_text,
            min_similarity: None,
        };
        let query = SearchQuery::new(self.query, self.query_embedding)?;
        let filter = parse_filter(self.filter)?;
        let collection = super::readable(self.collection)?;
        SearchRequest::new(collection, query, &settings, filter)
    }
}

fn parse_mode(name: &str) -> Result<RetrievalMode, Error> {
    RetrievalMode::parse(name).ok_or_else(|| {
        unknown(
            "mode",
            name,
            &RetrievalMode::ALL.map(RetrievalMode::name).join(", "),
        )
    })
}

fn parse_fusion(name: &str) -> Result<Fusion, Error> {
    Fusion::parse(name)
        .ok_or_else(|| unknown("fusion", name, &Fusion::ALL.map(Fusion::name).join(", ")))
}

fn unknown(what: &str, name: &str, valid: &str) -> Error {
    Error::invalid_parameter(format!("unknown {what} \"{name}\""))
        .hint(format!("Valid values are {valid}."))
}

fn weights(vector: Option<f64>, keyword: Option<f64>) -> Result<Option<Weights>, Error> {
    for (name, weight) in [("vector_weight", vector), ("keyword_weight", keyword)] {
        if let Some(weight) = weight.filter(|weight| !(0.0..=1.0).contains(weight)) {
            return Err(Error::invalid_parameter(format!(
                "{name} must be between 0 and 1, not {weight}"
            )));
        }
    }
    Weights::new(vector, keyword).map_err(|sum| {
        Error::invalid_parameter(format!(
            "vector_weight and keyword_weight must sum to 1, not {:.3}",
            sum.0
        ))
        .hint("Leave one of them out: it is then 1 minus the other.")
    })
}

fn parse_filter(filter: Option<JsonbText>) -> Result<Filter, Error> {
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
