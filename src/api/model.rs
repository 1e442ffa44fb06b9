//! `rag_embed`.

use std::{cell::RefCell, collections::VecDeque};

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};
use rag_protocol::{
    call::Purpose,
    embed::{ModelRef, Priority},
};

use super::required;
use crate::{
    error::Error,
    models::embedding::{EmbeddingModel, embed_texts},
    pg::{
        calls::{CallInfo, CostRequest, c_function, handle_support, operator_cost},
        process,
    },
    settings,
    types::vector::OwnedVector,
};

#[pg_extern(name = "rag_embed", stable, strict, parallel_restricted, cost = 100000)]
fn rag_embed_default(text: &str, call: CallInfo) -> Result<OwnedVector, ErrorReport> {
    rag_embed_one(text, AskedModel::find(None, Purpose::Query)?, call)
}

#[pg_extern(name = "rag_embed", stable, parallel_restricted, cost = 100000)]
fn rag_embed_model(
    text: Option<&str>,
    model: Option<&str>,
    purpose: pgrx::default!(Option<&str>, "'query'"),
    call: CallInfo,
) -> Result<Option<OwnedVector>, ErrorReport> {
    let Some(text) = text else { return Ok(None) };
    let model = AskedModel::find(model, parsed(purpose)?)?;
    rag_embed_one(text, model, call).map(Some)
}

fn parsed(purpose: Option<&str>) -> Result<Purpose, Error> {
    let purpose = required("purpose", purpose)?;
    Purpose::parse(purpose).ok_or_else(|| {
        let shown: String = purpose.chars().take(80).collect();
        Error::invalid_parameter(format!("unknown purpose \"{shown}\""))
            .hint("Valid values are query, passage.")
    })
}

/// The model and purpose of a call, before the model is looked up.
#[derive(Clone, PartialEq)]
struct AskedModel {
    /// None: the default model.
    name: Option<String>,
    /// The default model, which may change within a statement.
    default: Option<ModelRef>,
    purpose: Purpose,
}

impl AskedModel {
    fn find(name: Option<&str>, purpose: Purpose) -> Result<Self, Error> {
        let default = match name {
            Some(_) => None,
            None => Some(settings::model(None)?),
        };
        Ok(Self {
            name: name.map(str::to_owned),
            default,
            purpose,
        })
    }
}

/// An embedded text with its embedding.
#[derive(Clone)]
struct CachedEmbedding {
    model: AskedModel,
    text: String,
    vector: OwnedVector,
}

impl CachedEmbedding {
    fn is_of(&self, model: &AskedModel, text: &str) -> bool {
        self.text == text && self.model == *model
    }
}

/// The maximum number of texts that are cached for one statement.
const MAX_CACHED: usize = 16;

thread_local! {
    /// The start of the client's current statement, and its most recent embeddings.
    static STATEMENT: RefCell<(i64, VecDeque<CachedEmbedding>)> = RefCell::default();
}

/// Returns the embedding of a text, which is computed once per statement.
///
/// Without an index, `ORDER BY embedding <=> rag_embed('...')` calls the function for each row, and
/// again in other parts of the statement.
fn rag_embed_one(
    text: &str,
    model: AskedModel,
    call: CallInfo,
) -> Result<OwnedVector, ErrorReport> {
    let mut call = call;
    let last: &mut Option<CachedEmbedding> = call.kept();
    match &*last {
        Some(last) if last.is_of(&model, text) => return Ok(last.vector.clone()),
        _ => {}
    }
    let asked = match asked_in_statement(&model, text) {
        Some(asked) => asked,
        None => {
            let found = EmbeddingModel::usable(model.name.as_deref())?;
            let texts = vec![text.to_string()];
            let answer = found.embed_now(Priority::Query, model.purpose, texts)?;
            let vector = answer
                .vectors
                .into_iter()
                .next()
                .ok_or_else(|| Error::internal("the text has no embedding"))?;
            let asked = CachedEmbedding {
                model,
                text: text.to_string(),
                vector: OwnedVector::new(vector)?,
            };
            keep(asked.clone());
            asked
        }
    };
    let vector = asked.vector.clone();
    *last = Some(asked);
    Ok(vector)
}

fn asked_in_statement(model: &AskedModel, text: &str) -> Option<CachedEmbedding> {
    STATEMENT.with_borrow(|(began, asked)| {
        let present = *began == process::statement_start();
        present.then(|| asked.iter().find(|asked| asked.is_of(model, text)).cloned())?
    })
}

fn keep(new: CachedEmbedding) {
    STATEMENT.with_borrow_mut(|(began, asked)| {
        let present = process::statement_start();
        if *began != present {
            *began = present;
            asked.clear();
        }
        if asked.len() == MAX_CACHED {
            asked.pop_front();
        }
        asked.push_back(new);
    });
}

/// The cost of an embedding that the engine computes, in the units of the planner.
const COMPUTED: f64 = 250.0;
/// The cost of an embedding that all rows of a statement share. It is lower than the real cost, so
/// that the sum over all partitions of a table does not enable JIT.
const COMPUTED_ONCE: f64 = 10.0;
/// The cost of a call for a cached text, in units of `cpu_operator_cost`.
const REPEATED: f64 = 20.0;

/// Planner support function: estimates the cost of `rag_embed`. A text that is the same for each
/// row is embedded once.
fn embed_cost(request: &mut CostRequest<'_>) {
    if request.has_constant_arguments() {
        request.set(COMPUTED_ONCE, REPEATED * operator_cost());
    } else {
        request.set(0.0, COMPUTED);
    }
}

c_function!(
    embed_support_wrapper,
    pg_finfo_embed_support_wrapper,
    handle_support,
    embed_cost
);

#[pg_extern(name = "rag_embed", stable, parallel_restricted, cost = 100000)]
fn rag_embed_array(
    texts: Option<Vec<Option<String>>>,
    model: pgrx::default!(Option<&str>, "NULL"),
    purpose: pgrx::default!(Option<&str>, "'query'"),
) -> Result<Option<Vec<OwnedVector>>, ErrorReport> {
    let purpose = parsed(purpose)?;
    let Some(texts) = texts else { return Ok(None) };
    let texts: Option<Vec<String>> = texts.into_iter().collect();
    let texts = texts.ok_or_else(|| Error::null_not_allowed("texts must not contain NULL"))?;
    Ok(Some(embed_texts(model, purpose, texts)?))
}
