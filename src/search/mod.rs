//! Search: checks the request ([`SearchRequest::new`]), embeds the query, and finds the nearest
//! chunks ([`vector`]). Statements run with the caller's rights, so that grants and row-level
//! security apply. [`retrieval`] answers requests of applications.

mod diagnosis;
pub mod retrieval;
mod vector;

use pgrx::datum::TimestampWithTimeZone;
use rag_contract::MAX_TOP_K;
use rag_filter::Filter;
use rag_protocol::embed::{ModelInfo, Priority};

use crate::{
    catalog::{access, collections::Collection},
    engine::client::with_client,
    error::Error,
    pg::json::JsonbText,
    settings,
    types::vector::{OwnedVector, Vector},
};

/// The validated arguments of a search.
pub struct SearchRequest {
    pub collection: Collection,
    pub query: SearchQuery,
    /// The maximum number of rows, 1 to [`MAX_TOP_K`].
    pub top_k: i32,
    /// The minimum score, 0 to 1.
    pub threshold: Option<f64>,
    pub filter: Filter,
}

pub enum SearchQuery {
    Text(String),
    Embedding(Vec<f32>),
}

/// A chunk that a search found.
pub struct SearchHit {
    pub rank: i32,
    /// The cosine similarity, limited to 0 to 1.
    pub score: f64,
    pub content: String,
    pub title: Option<String>,
    pub uri: String,
    pub chunk_index: i32,
    pub start_index: i32,
    pub source: Option<String>,
    pub document_id: pgrx::Uuid,
    pub knowledge_id: Option<i64>,
    pub chunk_id: pgrx::Uuid,
    pub metadata: pgrx::JsonB,
    pub document_type: String,
    pub category: Option<String>,
    pub tags: Option<Vec<String>>,
    /// The first and the last line of the chunk in the document, counted from 1.
    pub start_line: i32,
    pub end_line: i32,
    /// The page on which the chunk begins, counted from 1. None for documents without pages.
    pub page: Option<i32>,
    pub heading_path: Option<Vec<String>>,
    pub indexed_at: TimestampWithTimeZone,
    pub fetched_at: TimestampWithTimeZone,
}

impl SearchRequest {
    /// # Errors
    /// An argument is invalid.
    pub fn new(
        query: Option<&str>,
        collection: &str,
        top_k: i32,
        mode: &str,
        filter: Option<JsonbText>,
        threshold: Option<f64>,
        embedding: Option<Vector<'_>>,
    ) -> Result<Self, Error> {
        check_mode(mode)?;
        if !(1..=MAX_TOP_K).contains(&top_k) {
            return Err(Error::invalid_parameter(format!(
                "top_k must be between 1 and {MAX_TOP_K}, not {top_k}"
            )));
        }
        if let Some(t) = threshold.filter(|t| !(0.0..=1.0).contains(t)) {
            return Err(Error::invalid_parameter(format!(
                "score_threshold must be between 0 and 1, not {t}"
            )));
        }
        let filter = filter.map(|json| json.parse()).transpose();
        let filter = filter
            .map_err(|e| Error::invalid_parameter(format!("invalid filter: {e}")))?
            .unwrap_or_default();
        let filter = rag_filter::parse(&filter)
            .map_err(|e| Error::invalid_parameter(format!("invalid filter: {e}")).hint(e.hint))?;
        let query = match (embedding, query) {
            (Some(vector), _) if vector.as_slice().iter().all(|x| *x == 0.0) => {
                return Err(Error::invalid_parameter(
                    "query_embedding must not be the zero vector",
                )
                .detail("The zero vector has no direction, and so no cosine similarity."));
            }
            (Some(vector), _) => SearchQuery::Embedding(vector.as_slice().to_vec()),
            (None, Some(text)) if text.trim().is_empty() => {
                return Err(Error::invalid_parameter("the query must not be empty"));
            }
            (None, Some(text)) => SearchQuery::Text(text.to_string()),
            (None, None) => {
                return Err(Error::null_not_allowed(
                    "query and query_embedding must not both be NULL",
                ));
            }
        };
        let collection = Collection::get(collection)?;
        access::require_read(&collection)?;
        Ok(Self {
            collection,
            query,
            top_k,
            threshold,
            filter,
        })
    }
}

fn check_mode(mode: &str) -> Result<(), Error> {
    match mode {
        "vector" => Ok(()),
        "keyword" | "hybrid" => Err(Error::unsupported(format!(
            "mode \"{mode}\" is not supported yet"
        ))
        .hint("Use mode => 'vector'.")),
        _ => Err(Error::invalid_parameter(format!("unknown mode \"{mode}\""))
            .hint("The valid mode is \"vector\".")),
    }
}

/// Runs a search. `operators` is the quoted name of the schema of the vector operators.
///
/// # Errors
/// The query cannot be embedded, or has another number of dimensions than the collection.
pub fn search(request: SearchRequest, operators: &str) -> Result<Vec<SearchHit>, Error> {
    let Some(stored) = &request.collection.model else {
        return Ok(vec![]); // nothing has been indexed
    };
    let embedding = match &request.query {
        SearchQuery::Embedding(vector) => vector.clone(),
        SearchQuery::Text(text) => {
            let model = settings::model(None)?;
            let text = vec![text.clone()];
            let mut answer = with_client(|client| client.embed(&model, Priority::Query, text))?;
            request.collection.check_model(&answer.model)?;
            if answer
                .tokens
                .iter()
                .any(|tokens| *tokens > answer.model.max_tokens)
            {
                let ModelInfo {
                    name, max_tokens, ..
                } = &answer.model;
                pgrx::notice!(
                    "the query is too long: model \"{name}\" uses only its first {max_tokens} \
                     tokens"
                );
            }
            answer
                .vectors
                .pop()
                .ok_or_else(|| Error::internal("the query has no embedding"))?
        }
    };
    if embedding.len() != stored.dimensions {
        return Err(Error::data_exception(format!(
            "different vector dimensions {} and {}",
            embedding.len(),
            stored.dimensions
        ))
        .hint(format!(
            "Collection \"{}\" was embedded with model \"{}\".",
            request.collection.name, stored.name
        )));
    }
    let hits = vector::nearest(&request, OwnedVector::new(embedding)?, operators)?;
    if hits.is_empty() {
        diagnosis::explain(&request)?;
    }
    Ok(hits)
}
