//! `rag_embed`.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};
use rag_protocol::embed::Priority;

use crate::{engine::client::with_client, error::Error, settings, types::vector::OwnedVector};

fn embed(texts: Vec<String>, model: Option<&str>, priority: Priority) -> Result<Vec<OwnedVector>, Error> {
    if texts.is_empty() {
        return Ok(vec![]);
    }
    let model = settings::model(model)?;
    let answer = with_client(|client| client.embed(&model, priority, texts))?;
    answer.vectors.into_iter().map(OwnedVector::new).collect()
}

#[pg_extern(name = "rag_embed", stable, strict, parallel_restricted, cost = 100000)]
fn rag_embed_default(text: &str) -> Result<OwnedVector, ErrorReport> {
    rag_embed_one(text, None)
}

#[pg_extern(name = "rag_embed", stable, parallel_restricted, cost = 100000)]
fn rag_embed_model(text: Option<&str>, model: Option<&str>) -> Result<Option<OwnedVector>, ErrorReport> {
    text.map(|text| rag_embed_one(text, model)).transpose()
}

fn rag_embed_one(text: &str, model: Option<&str>) -> Result<OwnedVector, ErrorReport> {
    let vectors = embed(vec![text.to_string()], model, Priority::Query)?;
    Ok(vectors.into_iter().next().ok_or_else(|| Error::internal("the text has no embedding"))?)
}

#[pg_extern(name = "rag_embed", stable, parallel_restricted, cost = 100000)]
fn rag_embed_array(
    texts: Option<Vec<Option<String>>>,
    model: pgrx::default!(Option<&str>, "NULL"),
) -> Result<Option<Vec<OwnedVector>>, ErrorReport> {
    let Some(texts) = texts else { return Ok(None) };
    let texts: Option<Vec<String>> = texts.into_iter().collect();
    let texts = texts.ok_or_else(|| Error::null_not_allowed("texts must not contain nulls"))?;
    Ok(Some(embed(texts, model, Priority::Bulk)?))
}
