//! How a search is answered: the request is checked ([`Request::new`]), the query embedded, and
//! [`vector`] finds the nearest chunks, with the caller's rights, so that grants and row-level
//! security decide what can be found.

mod diagnosis;
mod vector;

use rag_filter::Filter;
use rag_protocol::embed::{ModelInfo, Priority};

use crate::{
    catalog::{access, collections::Collection},
    engine::client::with_client,
    error::Error,
    settings,
    types::vector::{OwnedVector, Vector},
};

/// Most rows of one search.
const MAX_TOP_K: i32 = 10_000;

/// A search whose parts are known to be sound.
pub struct Request {
    pub collection: Collection,
    pub query: Query,
    /// 1..=10000
    pub top_k: i32,
    /// Least score, 0..=1.
    pub threshold: Option<f64>,
    pub filter: Filter,
}

pub enum Query {
    Text(String),
    Embedding(Vec<f32>),
}

/// One found chunk.
pub struct Hit {
    pub rank: i32,
    /// Cosine similarity, cut to 0..=1.
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
    /// Lines of the document that it begins and ends on, from 1.
    pub start_line: i32,
    pub end_line: i32,
    /// Of a document that has pages, the one that the chunk begins on, from 1.
    pub page: Option<i32>,
    pub heading_path: Option<Vec<String>>,
}

impl Request {
    /// # Errors
    /// Each argument that makes no sense, with what would.
    pub fn new(
        query: Option<&str>,
        collection: &str,
        top_k: i32,
        mode: &str,
        filter: Option<pgrx::JsonB>,
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
        let filter = rag_filter::parse(&filter.map_or(serde_json::Value::Null, |json| json.0))
            .map_err(|e| Error::invalid_parameter(format!("invalid filter: {e}")).hint(e.hint))?;
        let query = match (embedding, query) {
            (Some(vector), _) if vector.as_slice().iter().all(|x| *x == 0.0) => {
                return Err(Error::invalid_parameter(
                    "query_embedding must not be the zero vector",
                )
                .detail("It has no direction, and so no cosine similarity to anything."));
            }
            (Some(vector), _) => Query::Embedding(vector.as_slice().to_vec()),
            (None, Some(text)) if text.trim().is_empty() => {
                return Err(Error::invalid_parameter("the query must not be empty"));
            }
            (None, Some(text)) => Query::Text(text.to_string()),
            (None, None) => {
                return Err(Error::null_not_allowed(
                    "rag_search needs a query or a query_embedding",
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
        .hint("Use mode => 'vector'; there is no keyword index yet.")),
        _ => {
            Err(Error::invalid_parameter(format!("unknown mode \"{mode}\"")).hint("Modes: vector."))
        }
    }
}

/// Answers a request; `operators` is the schema of the vector operators, as it is written in a
/// statement.
///
/// # Errors
/// The query cannot be embedded, or has other dimensions than the collection.
pub fn search(request: Request, operators: &str) -> Result<Vec<Hit>, Error> {
    let Some(stored) = &request.collection.model else {
        return Ok(vec![]); // nothing was ever indexed
    };
    let embedding = match &request.query {
        Query::Embedding(vector) => vector.clone(),
        Query::Text(text) => {
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
                    "the query is cut: model \"{name}\" reads its first {max_tokens} tokens"
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
            "Collection \"{}\" is embedded with {}.",
            request.collection.name, stored.name
        )));
    }
    let hits = vector::nearest(&request, OwnedVector::new(embedding)?, operators)?;
    if hits.is_empty() {
        diagnosis::explain(&request)?;
    }
    Ok(hits)
}
