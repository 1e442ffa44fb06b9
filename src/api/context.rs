//! `rag_context`.

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use serde_json::Value;

use super::{
    required,
    search::{SearchArguments, notify_degraded},
};
use crate::{
    error::Error,
    models::embedding::EmbeddingModel,
    pg::json::JsonbText,
    search::context::{CitedDocument, context},
    types::vector::Vector,
};

/// The number of chunks that a context is made of, at most.
const DEFAULT_TOP_K: i32 = 50;
/// The maximum of `max_tokens`.
const MAX_TOKENS: i32 = 1_000_000;

#[pg_extern(stable, parallel_restricted, cost = 100000)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_context(
    query: Option<&str>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    max_tokens: pgrx::default!(Option<i32>, "2000"),
    top_k: pgrx::default!(Option<i32>, "NULL"),
    mode: pgrx::default!(Option<&str>, "NULL"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    settings: pgrx::default!(Option<JsonbText>, "NULL"),
    query_embedding: pgrx::default!(Option<Vector<'_>>, "NULL"),
    tokenizer: pgrx::default!(Option<&str>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(context, String),
            name!(tokens, i32),
            name!(chunks, i32),
            name!(documents, JsonB),
        ),
    >,
    ErrorReport,
> {
    let max_tokens = required("max_tokens", max_tokens)?;
    if !(1..=MAX_TOKENS).contains(&max_tokens) {
        return Err(Error::invalid_parameter(format!(
            "max_tokens must be between 1 and {MAX_TOKENS}, not {max_tokens}"
        ))
        .into());
    }
    let mut request = SearchArguments {
        query,
        collection,
        top_k,
        default_top_k: Some(DEFAULT_TOP_K),
        mode,
        filter,
        settings,
        query_embedding,
    }
    .into_request()?;
    let tokenizer = EmbeddingModel::usable(tokenizer)?.token_source();
    let (context, found) = context(&mut request, max_tokens as usize, &tokenizer)?;
    if let Some(why) = &found.degraded {
        notify_degraded(&request, found.mode, why);
    }
    if context.lacks_room {
        pgrx::notice!("no chunk that was found fits into {max_tokens} tokens");
    }
    let documents: Vec<Value> = context
        .documents
        .iter()
        .map(CitedDocument::to_json)
        .collect();
    Ok(TableIterator::once((
        context.text,
        context.tokens as i32,
        context.chunks as i32,
        JsonB(documents.into()),
    )))
}
