//! `rag_retrieve`: the retrieval request of Wegent.

use std::collections::HashSet;

use rag_definition::Fields;
use rag_filter::Filter;
use serde_json::{Value, json};

use crate::{
    FoundChunk, RetrievalSettings, SearchOutcome,
    request::{Result, filter, parse},
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
        const FIELDS: [&str; 7] = [
            "knowledge_id",
            "knowledge_ids",
            "query",
            "search_hints",
            "retriever_ref",
            "retrieval_setting",
            "metadata_condition",
        ];
        parse(request, &FIELDS, |fields| {
            let knowledge = knowledge_bases(fields);
            let query = fields.required_text("query");
            let hints = hints(fields);
            let retriever = retriever(fields);
            let settings = RetrievalSettings::read(fields);
            let condition = fields.get("metadata_condition").unwrap_or(&Value::Null);
            let parsed = rag_filter::parse_request(condition, "metadata_condition");
            Some(Self {
                knowledge: knowledge?,
                query: query?.to_owned(),
                hints,
                retriever,
                settings,
                filter: filter(fields, parsed)?,
            })
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

fn knowledge_bases(request: &Fields<'_>) -> Option<KnowledgeBases> {
    const NAME: &str = "knowledge_ids";
    const ONE: &str = "knowledge_id";
    if request.get(NAME).is_none() {
        let id = request.required_text(ONE)?;
        return Some(KnowledgeBases::One(id.to_owned()));
    }
    let mut ids = request.texts(NAME)?;
    if request.get(ONE).is_some() {
        request.problem_with(NAME, format!("excludes {ONE}"), "Give one of them.");
        return None;
    }
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    if ids.is_empty() {
        request.problem_with(
            NAME,
            "must not be empty",
            "Name at least one knowledge base.",
        );
    }
    if ids.len() > MAX_KNOWLEDGE_BASES {
        let problem = format!("has {} knowledge bases", ids.len());
        request.problem_with(
            NAME,
            problem,
            format!("Name at most {MAX_KNOWLEDGE_BASES}."),
        );
    }
    Some(KnowledgeBases::Several(ids))
}

/// Reads `search_hints`. Keywords and phrases together are the words. Blank ones are ignored.
fn hints(request: &Fields<'_>) -> SearchHints {
    let known = ["dense_query", "keywords", "phrases"];
    let fields = request.object_or_empty("search_hints", &known);
    let mut words = fields.any_texts("keywords").unwrap_or_default();
    words.extend(fields.any_texts("phrases").unwrap_or_default());
    let given = |text: String| (!text.trim().is_empty()).then_some(text);
    let vector_text = fields.any_text("dense_query").map(str::to_owned);
    SearchHints {
        vector_text: vector_text.and_then(given),
        words: given(words.join(" ")),
    }
}

fn retriever(request: &Fields<'_>) -> Option<RetrieverRef> {
    let fields = request.object("retriever_ref", &["name", "namespace"])?;
    let namespace = fields.text("namespace").map(str::to_owned);
    Some(RetrieverRef {
        name: fields.required_text("name")?.to_owned(),
        namespace,
    })
}
