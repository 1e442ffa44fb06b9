//! `rag_retrieve`: the retrieval request of Wegent.

use rag_filter::Filter;
use serde_json::{Value, json};

use crate::{
    RetrievalSettings, SearchOutcome,
    error::Result,
    fields::{Fields, checked_query},
};

#[derive(Debug, Clone, PartialEq)]
pub struct RetrieveRequest {
    /// The name or the external id of a collection.
    pub knowledge_id: String,
    pub query: String,
    pub retriever: Option<RetrieverRef>,
    pub settings: RetrievalSettings,
    pub filter: Filter,
}

/// The retriever that the knowledge base is expected to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrieverRef {
    pub name: String,
    /// None for the default namespace.
    pub namespace: Option<String>,
}

impl RetrieverRef {
    /// Returns the name as the catalog has it: with the namespace, unless that is the default.
    pub fn qualified_name(&self) -> String {
        match self.namespace.as_deref() {
            None | Some("default") => self.name.clone(),
            Some(namespace) => format!("{namespace}/{}", self.name),
        }
    }
}

impl RetrieveRequest {
    pub fn parse(request: &Value) -> Result<Self> {
        let fields = Fields::of_request(
            request,
            &[
                "knowledge_id",
                "query",
                "retriever_ref",
                "retrieval_setting",
                "metadata_condition",
            ],
        )?;
        let condition = fields.value("metadata_condition").unwrap_or(&Value::Null);
        Ok(Self {
            knowledge_id: fields.required_text("knowledge_id")?.to_owned(),
            query: checked_query(fields.required_text("query")?, "query")?,
            retriever: retriever(&fields)?,
            settings: RetrievalSettings::read(&fields)?,
            filter: rag_filter::parse_member(condition, "metadata_condition")?,
        })
    }

    pub fn answer(&self, found: &SearchOutcome) -> Value {
        let records: Vec<Value> = found
            .chunks
            .iter()
            .map(|chunk| {
                json!({
                    "doc_ref": chunk.document_id,
                    "chunk_index": chunk.chunk_index,
                    "source_file": chunk.source_file(),
                    "content": chunk.content,
                    "score": chunk.score,
                    "metadata": chunk.all_metadata(),
                })
            })
            .collect();
        let mut answer = json!({
            "records": records,
            "query": self.query,
            "knowledge_id": self.knowledge_id,
            "total": found.chunks.len(),
            "retrieval_mode": found.mode.name(),
        });
        if let Some(why) = &found.degraded {
            answer["degraded"] = json!(why);
        }
        answer
    }
}

fn retriever(request: &Fields<'_>) -> Result<Option<RetrieverRef>> {
    let fields = request.object("retriever_ref", &["name", "namespace"])?;
    if request.value("retriever_ref").is_none() {
        return Ok(None);
    }
    Ok(Some(RetrieverRef {
        name: fields.required_text("name")?.to_owned(),
        namespace: fields.text("namespace")?.map(str::to_owned),
    }))
}
