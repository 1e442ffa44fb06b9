//! `rag_retrieve`: the retrieval request of Wegent.

use std::collections::HashSet;

use rag_filter::Filter;
use serde_json::{Value, json};

use crate::{
    FoundChunk, RetrievalSettings, SearchOutcome,
    error::{RequestError, Result},
    fields::{Fields, checked_query, text},
};

#[derive(Debug, Clone, PartialEq)]
pub struct RetrieveRequest {
    pub knowledge: KnowledgeBases,
    pub query: String,
    pub hints: SearchHints,
    pub retriever: Option<RetrieverRef>,
    pub settings: RetrievalSettings,
    pub filter: Filter,
}

/// What is searched: names or external ids of collections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnowledgeBases {
    One(String),
    /// Searched one by one. The results of all are sorted by their scores.
    Several(Vec<String>),
}

impl KnowledgeBases {
    pub fn ids(&self) -> &[String] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Several(ids) => ids,
        }
    }
}

/// The maximum number of knowledge bases of a request.
const MAX_KNOWLEDGE_BASES: usize = 20;

/// What to search for instead of the query. None: the query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchHints {
    /// The text whose vector is searched for.
    pub vector_text: Option<String>,
    /// The words.
    pub words: Option<String>,
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
                "knowledge_ids",
                "query",
                "search_hints",
                "retriever_ref",
                "retrieval_setting",
                "metadata_condition",
            ],
        )?;
        let condition = fields.value("metadata_condition").unwrap_or(&Value::Null);
        Ok(Self {
            knowledge: knowledge_bases(&fields)?,
            query: checked_query(fields.required_text("query")?, "query")?,
            hints: hints(&fields)?,
            retriever: retriever(&fields)?,
            settings: RetrievalSettings::read(&fields)?,
            filter: rag_filter::parse_request(condition, "metadata_condition")?,
        })
    }

    pub fn answer(&self, found: &SearchOutcome) -> Value {
        let record = |chunk: &FoundChunk| {
            let mut record = json!({
                "doc_ref": chunk.document_id,
                "chunk_index": chunk.chunk_index,
                "source_file": chunk.source_file(),
                "content": chunk.content,
                "score": chunk.score,
                "metadata": chunk.all_metadata(),
            });
            if let KnowledgeBases::Several(_) = self.knowledge {
                record["collection"] = json!(chunk.collection);
            }
            record
        };
        let records: Vec<Value> = found.chunks.iter().map(record).collect();
        let mut answer = json!({
            "records": records,
            "query": self.query,
            "total": found.chunks.len(),
            "retrieval_mode": found.mode.name(),
        });
        match &self.knowledge {
            KnowledgeBases::One(id) => answer["knowledge_id"] = json!(id),
            KnowledgeBases::Several(ids) => answer["knowledge_ids"] = json!(ids),
        }
        if let Some(why) = &found.degraded {
            answer["degraded"] = json!(why);
        }
        found.add_warnings(&mut answer);
        answer
    }
}

fn knowledge_bases(request: &Fields<'_>) -> Result<KnowledgeBases> {
    const NAME: &str = "knowledge_ids";
    let problem = |message: &str, hint: &str| Err(RequestError::new(NAME, message, hint));
    let read = |value, path: &str| text(value, path).map(str::to_owned);
    let Some(mut ids) = request.list(NAME, read)? else {
        let id = request.required_text("knowledge_id")?;
        return Ok(KnowledgeBases::One(id.to_owned()));
    };
    if request.value("knowledge_id").is_some() {
        return problem("excludes knowledge_id", "Give one of them.");
    }
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    if ids.is_empty() {
        return problem("must not be empty", "Name at least one knowledge base.");
    }
    if ids.len() > MAX_KNOWLEDGE_BASES {
        let message = format!("has {} knowledge bases", ids.len());
        let hint = format!("Name at most {MAX_KNOWLEDGE_BASES}.");
        return problem(&message, &hint);
    }
    Ok(KnowledgeBases::Several(ids))
}

/// Reads `search_hints`. Keywords and phrases together are the words.
fn hints(request: &Fields<'_>) -> Result<SearchHints> {
    let fields = request.object("search_hints", &["dense_query", "keywords", "phrases"])?;
    let words_of = |name: &str| -> Result<Vec<String>> {
        let read = |value, path: &str| text(value, path).map(str::to_owned);
        Ok(fields.list(name, read)?.unwrap_or_default())
    };
    let mut words = words_of("keywords")?;
    words.extend(words_of("phrases")?);
    let given = |text: String| (!text.trim().is_empty()).then_some(text);
    let vector_text = fields.text("dense_query")?.map(str::to_owned);
    Ok(SearchHints {
        vector_text: vector_text.and_then(given),
        words: given(words.join(" ")),
    })
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
