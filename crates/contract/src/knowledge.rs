//! `rag_knowledge_search`: the search request of agent_core's RAG service.

use rag_definition::{Fields, fields::wrong_type, retriever::RetrievalMode};
use rag_filter::{Filter, FilterError};
use serde_json::{Value, json};

use crate::{
    RetrievalSettings, SearchOutcome,
    request::{Result, filter as read_filter, parse},
    settings::{count, mode},
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
        const FIELDS: [&str; 9] = [
            "query",
            "n_results",
            "category",
            "tags",
            "tags_match",
            "knowledge_ids",
            "collection",
            "mode",
            "score_threshold",
        ];
        parse(request, &FIELDS, |fields| {
            let query = fields.required_text("query");
            let category = read_category(fields);
            let tags = fields.texts("tags");
            let items = fields.list("knowledge_ids", knowledge_id);
            let filter = filter(category, tags, tags_match(fields), items);
            Some(Self {
                results: count(fields, "n_results", MAX_RESULTS).unwrap_or(DEFAULT_RESULTS),
                collection: fields
                    .text("collection")
                    .unwrap_or(DEFAULT_COLLECTION)
                    .to_owned(),
                mode: mode(fields, "mode"),
                threshold: fields.fraction("score_threshold"),
                filter: read_filter(fields, filter)?,
                query: query?.to_owned(),
            })
        })
    }

    /// Returns the request of the form with arguments, for GET.
    pub fn of_arguments(
        q: &str,
        n: Option<i32>,
        category: Option<&str>,
        collection: Option<&str>,
    ) -> Result<Self> {
        let arguments = json!({ "q": q, "n": n, "category": category });
        parse(&arguments, &["q", "n", "category"], |fields| {
            let query = fields.required_text("q");
            let filter = filter(read_category(fields), None, TagsMatch::All, None);
            Some(Self {
                results: count(fields, "n", MAX_RESULTS).unwrap_or(DEFAULT_RESULTS),
                collection: collection.unwrap_or(DEFAULT_COLLECTION).to_owned(),
                mode: None,
                threshold: None,
                filter: read_filter(fields, filter)?,
                query: query?.to_owned(),
            })
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
        let (threshold, min_similarity) = if is_by_words {
            (self.threshold, None)
        } else {
            (None, self.threshold)
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

/// Reads the category. The form of GET sends one that was left out as an empty one.
fn read_category<'a>(fields: &Fields<'a>) -> Option<&'a str> {
    let is_empty = fields.get("category").is_some_and(|given| given == "");
    if is_empty {
        None
    } else {
        fields.text("category")
    }
}

fn tags_match(fields: &Fields<'_>) -> TagsMatch {
    match fields.word("tags_match", &["any", "all"], "a way to match tags") {
        Some("any") => TagsMatch::Any,
        _ => TagsMatch::All,
    }
}

fn knowledge_id(fields: &Fields<'_>, name: &str, value: &Value) -> Option<i64> {
    let id = value.as_i64();
    match value {
        Value::Number(number) if id.is_none() => {
            let problem = format!("must be a 64-bit integer, not {number}");
            fields.problem_with(name, problem, "Give the number of a knowledge item.");
        }
        _ if id.is_none() => fields.problem(name, wrong_type("a number", value)),
        _ => {}
    }
    id
}

/// Returns a filter for documents to which all of this applies. No tags restrict nothing. No
/// numbers of items find nothing: an application that may search none must not search all.
fn filter(
    category: Option<&str>,
    tags: Option<Vec<String>>,
    tags_match: TagsMatch,
    items: Option<Vec<i64>>,
) -> std::result::Result<Filter, FilterError> {
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
        return rag_filter::parse(&Value::Null);
    }
    rag_filter::parse(&json!({ "conditions": conditions }))
}
