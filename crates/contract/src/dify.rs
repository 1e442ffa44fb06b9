//! `rag_dify_retrieval`: Dify's API for external knowledge bases.
//!
//! Dify's client looks at the HTTP status alone: a record list that comes with an error is never
//! read, and an error that comes with status 200 is an empty list. So each error has a status.

use rag_definition::FieldProblem;
use rag_filter::Filter;
use serde_json::{Value, json};

use crate::{
    RetrievalSettings, SearchOutcome,
    request::{Result, filter, parse},
};

#[derive(Debug, Clone, PartialEq)]
pub struct DifyRequest {
    /// The name or the external id of a collection.
    pub knowledge_id: String,
    pub query: String,
    pub settings: RetrievalSettings,
    pub filter: Filter,
}

impl DifyRequest {
    pub fn parse(request: &Value) -> Result<Self> {
        const FIELDS: [&str; 4] = [
            "knowledge_id",
            "query",
            "retrieval_setting",
            "metadata_condition",
        ];
        parse(request, &FIELDS, |fields| {
            let knowledge_id = fields.required_text("knowledge_id");
            let query = fields.required_text("query");
            let settings = RetrievalSettings::read_without_mode(fields);
            let condition = fields.get("metadata_condition").unwrap_or(&Value::Null);
            let parsed = rag_filter::parse_dify(condition, "metadata_condition");
            Some(Self {
                knowledge_id: knowledge_id?.to_owned(),
                query: query?.to_owned(),
                settings,
                filter: filter(fields, parsed)?,
            })
        })
    }
}

/// Returns the answer of a search.
pub fn answer(found: &SearchOutcome) -> Value {
    let records: Vec<Value> = found
        .chunks
        .iter()
        .map(|chunk| {
            json!({
                "content": chunk.content,
                "score": chunk.score,
                "title": chunk.title(),
                "metadata": chunk.all_metadata(),
            })
        })
        .collect();
    let mut answer = json!({ "records": records });
    found.add_warnings(&mut answer);
    answer
}

/// Why a request gets no records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DifyError {
    /// No knowledge base has this id, or the caller may not read it.
    UnknownKnowledge(String),
    InvalidRequest(FieldProblem),
}

impl DifyError {
    pub fn http_status(&self) -> u16 {
        match self {
            Self::UnknownKnowledge(_) => 404,
            Self::InvalidRequest(_) => 400,
        }
    }

    pub fn answer(&self) -> Value {
        match self {
            Self::UnknownKnowledge(id) => json!({
                "error_code": 2001,
                "error_msg": format!("knowledge base \"{id}\" does not exist"),
            }),
            // Dify has no code for it
            Self::InvalidRequest(error) => json!({
                "error_code": self.http_status(),
                "error_msg": format!("invalid request: {error}"),
            }),
        }
    }
}
