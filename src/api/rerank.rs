//! `rag_rerank`.

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::{required, without_nulls};
use crate::{
    catalog::name::canonical,
    error::Error,
    search::rerank::{reranker, scores},
};

/// The maximum number of documents.
const MAX_DOCUMENTS: usize = 1000;

#[pg_extern(volatile, cost = 100000)]
fn rag_rerank(
    query: Option<&str>,
    documents: Option<Vec<Option<String>>>,
    model: Option<&str>,
) -> Result<TableIterator<'static, (name!(index, i32), name!(score, f64))>, ErrorReport> {
    let query = required("query", query)?;
    let documents = required("documents", without_nulls("documents", documents)?)?;
    let model = reranker(canonical(required("model", model)?))?;
    if documents.len() > MAX_DOCUMENTS {
        return Err(Error::limit("too many documents")
            .detail(format!(
                "There are {}; the limit is {MAX_DOCUMENTS}.",
                documents.len()
            ))
            .into());
    }
    let scores = if documents.is_empty() {
        vec![]
    } else {
        scores(&model, query, documents)?
    };
    let mut ranked: Vec<(i32, f64)> = (1..).zip(scores).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(TableIterator::new(ranked))
}
