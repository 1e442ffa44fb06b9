//! `rag_embed`.

#![allow(unsafe_code)] // what a place in a statement keeps between its calls

use pgrx::{
    fcinfo::pg_func_extra,
    pg_extern,
    pg_sys::{self, panic::ErrorReport},
};
use rag_protocol::embed::{ModelRef, Priority};

use crate::{engine::client::with_client, error::Error, settings, types::vector::OwnedVector};

fn embed(texts: Vec<String>, model: Option<&str>) -> Result<Vec<OwnedVector>, Error> {
    if texts.is_empty() {
        return Ok(vec![]);
    }
    let model = settings::model(model)?;
    let answer = with_client(|client| client.embed(&model, Priority::Bulk, texts))?;
    answer.vectors.into_iter().map(OwnedVector::new).collect()
}

#[pg_extern(name = "rag_embed", stable, strict, parallel_restricted, cost = 100000)]
fn rag_embed_default(text: &str, fcinfo: pg_sys::FunctionCallInfo) -> Result<OwnedVector, ErrorReport> {
    rag_embed_one(text, None, fcinfo)
}

#[pg_extern(name = "rag_embed", stable, parallel_restricted, cost = 100000)]
fn rag_embed_model(
    text: Option<&str>,
    model: Option<&str>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<Option<OwnedVector>, ErrorReport> {
    text.map(|text| rag_embed_one(text, model, fcinfo)).transpose()
}

/// The last question at one place of a statement, and its answer.
struct Asked {
    model: ModelRef,
    text: String,
    vector: OwnedVector,
}

/// Asks the engine, or repeats what it has just said: `ORDER BY embedding <=> rag_embed('...')` without an index calls
/// the function for every row.
fn rag_embed_one(
    text: &str,
    model: Option<&str>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<OwnedVector, ErrorReport> {
    let model = settings::model(model)?;
    // SAFETY: the running function's own call information; no other function of ours keeps anything there.
    let mut last = unsafe { pg_func_extra(fcinfo, || None::<Asked>) };
    match &*last {
        Some(last) if last.text == text && last.model == model => return Ok(last.vector.clone()),
        _ => {}
    }
    let answer = with_client(|client| client.embed(&model, Priority::Query, vec![text.to_string()]))?;
    let vector = answer.vectors.into_iter().next().ok_or_else(|| Error::internal("the text has no embedding"))?;
    let vector = OwnedVector::new(vector)?;
    *last = Some(Asked { model, text: text.to_string(), vector: vector.clone() });
    Ok(vector)
}

#[pg_extern(name = "rag_embed", stable, parallel_restricted, cost = 100000)]
fn rag_embed_array(
    texts: Option<Vec<Option<String>>>,
    model: pgrx::default!(Option<&str>, "NULL"),
) -> Result<Option<Vec<OwnedVector>>, ErrorReport> {
    let Some(texts) = texts else { return Ok(None) };
    let texts: Option<Vec<String>> = texts.into_iter().collect();
    let texts = texts.ok_or_else(|| Error::null_not_allowed("texts must not contain nulls"))?;
    Ok(Some(embed(texts, model)?))
}
