//! Answers to requests of applications: `rag_retrieve`, `rag_dify_retrieval` and
//! `rag_knowledge_search`. `sql/retrieval.sql` declares those with one parameter.

use pgrx::{JsonB, PgSqlErrorCode, pg_extern, pg_sys::panic::ErrorReport, prelude::PgLogLevel};
use rag_contract::{DifyError, DifyRequest, KnowledgeRequest, RetrieveRequest, dify, unreadable};
use rag_definition::FieldProblem;
use serde_json::Value;

use super::required;
use crate::{
    error::Error,
    pg::{guc::set_for_transaction, json::JsonbText},
    search::{
        SearchQuery,
        retrieval::{
            find_knowledge_base, invalid_request, knowledge_base, retrieve, retrieve_from_all,
        },
    },
};

/// Parses a request as one of the contracts.
fn parse<T>(
    request: &JsonbText,
    contract: impl FnOnce(&Value) -> Result<T, FieldProblem>,
) -> Result<T, FieldProblem> {
    contract(&request.parse().map_err(|error| unreadable(&error))?)
}

#[pg_extern(sql = false)]
fn rag_retrieve(request: Option<JsonbText>) -> Result<JsonB, ErrorReport> {
    let request = required("the request", request)?;
    let request = parse(&request, RetrieveRequest::parse).map_err(invalid_request)?;
    let found = retrieve_from_all(&request)?;
    Ok(JsonB(request.answer(&found)))
}

#[pg_extern(sql = false)]
fn rag_dify_retrieval(request: Option<JsonbText>) -> Result<JsonB, ErrorReport> {
    let parsed = match &request {
        Some(request) => parse(request, DifyRequest::parse),
        None => DifyRequest::parse(&Value::Null),
    };
    let request = match parsed {
        Ok(request) => request,
        Err(error) => return Ok(refuse(&DifyError::InvalidRequest(error))),
    };
    let Some(collection) = find_knowledge_base(&request.knowledge_id)? else {
        return Ok(refuse(&DifyError::UnknownKnowledge(request.knowledge_id)));
    };
    let found = retrieve(
        collection,
        SearchQuery::of_text(&request.query),
        &request.settings,
        request.filter,
    )?;
    Ok(JsonB(dify::answer(&found)))
}

/// Returns the answer with an error. PostgREST takes the HTTP status from a setting.
fn refuse(error: &DifyError) -> JsonB {
    set_for_transaction(c"response.status", &error.http_status().to_string());
    JsonB(error.answer())
}

#[pg_extern(sql = false)]
fn rag_knowledge_search(request: Option<JsonbText>) -> Result<JsonB, ErrorReport> {
    let request = required("the request", request)?;
    let request = parse(&request, KnowledgeRequest::parse).map_err(invalid_request)?;
    Ok(search_knowledge(request)?)
}

#[pg_extern(
    name = "rag_knowledge_search",
    stable,
    parallel_restricted,
    cost = 100000
)]
fn knowledge_search_by_arguments(
    q: Option<&str>,
    n: pgrx::default!(Option<i32>, "5"),
    category: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<JsonB, ErrorReport> {
    let q = required("q", q)?;
    let request =
        KnowledgeRequest::of_arguments(q, n, category, collection).map_err(invalid_request)?;
    if KnowledgeRequest::looks_like_one(q) {
        // a literal without a type is taken as text
        ErrorReport::new(
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            "the query is a request in JSON, but its type is text",
            "rag",
        )
        .set_hint("To send the request, write ::jsonb after it.")
        .report(PgLogLevel::NOTICE);
    }
    Ok(search_knowledge(request)?)
}

fn search_knowledge(request: KnowledgeRequest) -> Result<JsonB, Error> {
    let found = retrieve(
        knowledge_base(&request.collection)?,
        SearchQuery::of_text(&request.query),
        &request.settings(),
        request.filter.clone(),
    )?;
    Ok(JsonB(request.answer(&found)))
}
