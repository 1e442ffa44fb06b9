//! Searches that applications ask for: the knowledge base by the name that they know it by, the
//! mode that can be used, and the chunks for the answer.

use pgrx::{PgSqlErrorCode, datum::datetime_support::ToIsoString};
use rag_contract::{FoundChunk, RetrievalSettings, RetrieveRequest, SearchHints, SearchOutcome};
use rag_definition::FieldProblem;
use rag_filter::Filter;
use serde_json::{Map, Value};

use super::{SearchHit, SearchQuery, SearchRequest, notice::Notice, search_quietly};
use crate::{
    catalog::{
        access::{self, CollectionPrivilege},
        collections::Collection,
        retrievers,
    },
    error::Error,
};

/// Returns the error for an invalid request.
pub fn invalid_request(problem: FieldProblem) -> Error {
    Error::invalid_parameter(format!("invalid request: {problem}")).maybe_hint(problem.hint)
}

/// Returns the collection with this name or external id, or None if there is none that the caller
/// may read: a request does not tell whether a collection exists.
pub fn find_knowledge_base(name_or_id: &str) -> Result<Option<Collection>, Error> {
    let known = Collection::known_as(name_or_id)?;
    Ok(known.filter(|collection| access::has_privilege(collection, CollectionPrivilege::Read)))
}

/// # Errors
/// No collection that the caller may read has this name or external id.
pub fn knowledge_base(name_or_id: &str) -> Result<Collection, Error> {
    find_knowledge_base(name_or_id)?.ok_or_else(|| {
        Error::undefined(format!("collection \"{name_or_id}\" does not exist")).hint(
            "The view rag.collections lists the names and external ids of collections that may be \
             read. The owner of another collection can grant that with rag_grant_collection.",
        )
    })
}

/// # Errors
/// The retriever does not exist, or is not that of the collection.
pub fn check_retriever(collection: &Collection, wanted: &str) -> Result<(), Error> {
    if wanted == collection.definition.retriever {
        return Ok(());
    }
    if retrievers::find(wanted)?.is_none() {
        return Err(retrievers::missing(wanted));
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "collection \"{}\" has retriever \"{}\", not \"{wanted}\"",
            collection.name, collection.definition.retriever
        ),
    )
    .hint("Name that retriever, or none."))
}

/// Finds the chunks of a collection for a query.
pub fn retrieve(
    collection: Collection,
    query: SearchQuery,
    settings: &RetrievalSettings,
    filter: Filter,
) -> Result<SearchOutcome, Error> {
    let request = SearchRequest::new(collection, query, settings, filter)?;
    outcome(&request)
}

fn outcome(request: &SearchRequest) -> Result<SearchOutcome, Error> {
    let (found, notices) = search_quietly(request)?;
    let collection = request.collection.name.as_str();
    let chunks = found.hits.into_iter();
    Ok(SearchOutcome {
        mode: found.mode,
        degraded: found.degraded,
        warnings: notices.into_iter().map(Notice::into_line).collect(),
        chunks: chunks.map(|hit| found_chunk(collection, hit)).collect(),
    })
}

/// Finds the chunks for a request of Wegent, in one knowledge base or in several.
///
/// # Errors
/// One of the knowledge bases does not exist, or the caller may not read it.
pub fn retrieve_from_all(request: &RetrieveRequest) -> Result<SearchOutcome, Error> {
    let query = request.hints.vector_text.as_deref();
    let query = SearchQuery {
        hinted_words: match &request.hints {
            SearchHints {
                words: None,
                vector_text: Some(_),
            } => Some(request.query.clone()),
            hints => hints.words.clone(),
        },
        ..SearchQuery::of_text(query.unwrap_or(&request.query))
    };
    let bases = request.knowledge.ids().iter();
    let bases = bases
        .map(|id| knowledge_base(id))
        .collect::<Result<Vec<_>, _>>()?;
    let mut limit = 0;
    let mut outcomes = vec![];
    for collection in bases {
        if let Some(retriever) = &request.retriever {
            check_retriever(&collection, &retriever.qualified_name())?;
        }
        let (settings, filter) = (&request.settings, request.filter.clone());
        let search = SearchRequest::new(collection, query.clone(), settings, filter)?;
        limit = limit.max(search.top_k);
        outcomes.push(outcome(&search)?);
    }
    SearchOutcome::merged(outcomes, limit)
        .ok_or_else(|| Error::internal("a request names no knowledge base"))
}

fn found_chunk(collection: &str, hit: SearchHit) -> FoundChunk {
    FoundChunk {
        collection: collection.to_owned(),
        document_id: hit.document_id.to_string(),
        chunk_id: hit.chunk_id.to_string(),
        knowledge_id: hit.knowledge_id,
        uri: hit.uri,
        title: hit.title,
        source: hit.source,
        document_type: hit.document_type,
        category: hit.category,
        tags: hit.tags.unwrap_or_default(),
        metadata: match hit.metadata.0 {
            Value::Object(metadata) => metadata,
            _ => Map::new(),
        },
        content: hit.content,
        chunk_index: hit.chunk_index,
        start_index: hit.start_index,
        lines: (hit.start_line, hit.end_line),
        page: hit.page,
        heading_path: hit.heading_path.unwrap_or_default(),
        anchor: hit.anchor,
        indexed_at: hit.indexed_at.to_iso_string(),
        fetched_at: hit.fetched_at.to_iso_string(),
        score: hit.score,
        vector_score: hit.vector_score,
        also_at: hit.also_at,
    }
}
