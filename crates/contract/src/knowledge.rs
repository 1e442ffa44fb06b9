//! `rag_knowledge_search`: the search request of agent_core's RAG service.

use rag_filter::Filter;
use serde_json::{Value, json};

use crate::{
    RetrievalMode, RetrievalSettings, SearchOutcome,
    error::{RequestError, Result},
    fields::{Fields, check_integer, checked_label, checked_query, label, wrong_type},
    settings::mode,
};

/// The collection of requests that name none.
pub const DEFAULT_COLLECTION: &str = "default";

const DEFAULT_RESULTS: i32 = 5;
const MAX_RESULTS: i32 = 20;

#[derive(Debug, Clone, PartialEq)]
pub struct KnowledgeRequest {
    pub query: String,
    /// The maximum number of results.
    pub results: i32,
    /// The name or the external id of a collection.
    pub collection: String,
    /// How chunks are found. None: as the retriever of the collection says.
    pub mode: Option<RetrievalMode>,
    /// The minimum score, 0 to 1.
    pub threshold: Option<f64>,
    pub filter: Filter,
}

/// Which of several tags a document must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagsMatch {
    All,
    Any,
}

impl KnowledgeRequest {
    pub fn parse(request: &Value) -> Result<Self> {
        let fields = Fields::of_request(
            request,
            &[
                "query",
                "n_results",
                "category",
                "tags",
                "tags_match",
                "knowledge_ids",
                "collection",
                "mode",
                "score_threshold",
            ],
        )?;
        // the form of GET sends a category that was left out as an empty one
        let category = fields
            .value("category")
            .filter(|value| value.as_str() != Some(""));
        let collection = fields.text("collection")?.unwrap_or(DEFAULT_COLLECTION);
        let results = fields.integer("n_results", 1..=MAX_RESULTS)?;
        Ok(Self {
            query: checked_query(fields.required_text("query")?, "query")?,
            results: results.unwrap_or(DEFAULT_RESULTS),
            collection: collection.to_owned(),
            mode: mode(&fields, "mode")?,
            threshold: fields.fraction("score_threshold")?,
            filter: filter(
                category.map(|value| label(value, "category")).transpose()?,
                fields.list("tags", label)?,
                tags_match(&fields)?,
                fields.list("knowledge_ids", knowledge_id)?,
            )?,
        })
    }

    /// Returns the request of the form with arguments, for GET.
    pub fn of_arguments(
        q: &str,
        n: Option<i32>,
        category: Option<&str>,
        collection: Option<&str>,
    ) -> Result<Self> {
        let results = n.unwrap_or(DEFAULT_RESULTS);
        let category = category
            .filter(|text| !text.is_empty())
            .map(|text| checked_label(text, "category"))
            .transpose()?;
        Ok(Self {
            query: checked_query(q, "q")?,
            results: check_integer(results.into(), 1..=MAX_RESULTS, "n")?,
            collection: collection.unwrap_or(DEFAULT_COLLECTION).to_owned(),
            mode: None,
            threshold: None,
            filter: filter(category, None, TagsMatch::All, None)?,
        })
    }

    /// Returns true if a query is a whole request in JSON.
    pub fn looks_like_one(query: &str) -> bool {
        query.trim_start().starts_with('{')
            && serde_json::from_str(query).is_ok_and(|request| Self::parse(&request).is_ok())
    }

    /// Returns how to search. The score of a result is its cosine similarity, so this is what the
    /// threshold applies to. Without vectors it is the score of the words.
    pub fn settings(&self) -> RetrievalSettings {
        let is_by_words = self.mode == Some(RetrievalMode::Keyword);
        let (threshold, min_similarity) = match is_by_words {
            true => (self.threshold, None),
            false => (None, self.threshold),
        };
        RetrievalSettings {
            mode: self.mode,
            top_k: Some(self.results),
            threshold,
            min_similarity,
            ..RetrievalSettings::default()
        }
    }

    pub fn answer(&self, found: &SearchOutcome) -> Value {
        let results: Vec<Value> = found
            .chunks
            .iter()
            .map(|chunk| {
                json!({
                    "content": chunk.content,
                    "knowledge_id": chunk.knowledge_id,
                    "title": chunk.title(),
                    "uri": chunk.uri,
                    "score": chunk.vector_score.unwrap_or(chunk.score),
                    "chunk_index": chunk.chunk_index,
                })
            })
            .collect();
        let mut answer = json!({
            "query": self.query,
            "results": results,
            "total_results": found.chunks.len(),
        });
        found.add_warnings(&mut answer);
        answer
    }
}

fn tags_match(fields: &Fields<'_>) -> Result<TagsMatch> {
    match fields.text("tags_match")? {
        None | Some("all") => Ok(TagsMatch::All),
        Some("any") => Ok(TagsMatch::Any),
        Some(other) => Err(RequestError::new(
            &fields.path_of("tags_match"),
            format!("must be any or all, not {other:?}"),
            "any: documents with one of the tags. all: documents with all of them.",
        )),
    }
}

fn knowledge_id(value: &Value, path: &str) -> Result<i64> {
    match value {
        Value::Number(number) if number.as_i64().is_none() => Err(RequestError::new(
            path,
            format!("must be a 64-bit whole number, not {number}"),
            "Give the number of a knowledge item.",
        )),
        _ => value
            .as_i64()
            .ok_or_else(|| wrong_type(value, "a number", path)),
    }
}

/// Returns a filter for documents to which all of this applies. No tags restrict nothing. No
/// numbers of items find nothing: an application that may search none must not search all.
fn filter(
    category: Option<String>,
    tags: Option<Vec<String>>,
    tags_match: TagsMatch,
    items: Option<Vec<i64>>,
) -> Result<Filter> {
    let operator = match tags_match {
        TagsMatch::All => "contains",
        TagsMatch::Any => "in",
    };
    let tags = tags.filter(|tags| !tags.is_empty());
    let conditions: Vec<Value> = [
        category.map(|value| json!({"key": "category", "operator": "eq", "value": value})),
        tags.map(|value| json!({"key": "tags", "operator": operator, "value": value})),
        items.map(|value| json!({"key": "knowledge_ids", "operator": "in", "value": value})),
    ]
    .into_iter()
    .flatten()
    .collect();
    if conditions.is_empty() {
        return Ok(rag_filter::parse(&Value::Null)?);
    }
    Ok(rag_filter::parse(&json!({ "conditions": conditions }))?)
}
