//! `rag_embed`.

#![allow(unsafe_code)] // what a place in a statement keeps between its calls; a node of the planner's

use std::{cell::RefCell, collections::VecDeque};

use pgrx::{
    datum::Internal,
    fcinfo::pg_func_extra,
    pg_extern,
    pg_sys::{self, panic::ErrorReport},
};
use rag_protocol::embed::{ModelRef, Priority};

use crate::{
    engine::client::{embed, with_client},
    error::Error,
    settings,
    types::vector::OwnedVector,
};

#[pg_extern(name = "rag_embed", stable, strict, parallel_restricted, cost = 100000)]
fn rag_embed_default(
    text: &str,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<OwnedVector, ErrorReport> {
    rag_embed_one(text, None, fcinfo)
}

#[pg_extern(name = "rag_embed", stable, parallel_restricted, cost = 100000)]
fn rag_embed_model(
    text: Option<&str>,
    model: Option<&str>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<Option<OwnedVector>, ErrorReport> {
    text.map(|text| rag_embed_one(text, model, fcinfo))
        .transpose()
}

/// A text that was embedded, and its embedding.
#[derive(Clone)]
struct Asked {
    model: ModelRef,
    text: String,
    vector: OwnedVector,
}

impl Asked {
    fn is_of(&self, model: &ModelRef, text: &str) -> bool {
        self.text == text && self.model == *model
    }
}

/// Texts that are kept of one statement.
const KEPT: usize = 16;

thread_local! {
    /// When the present statement of the client began, and what it has asked last.
    static STATEMENT: RefCell<(pg_sys::TimestampTz, VecDeque<Asked>)> = RefCell::default();
}

/// Returns the embedding of a text. The engine is asked once per statement: `ORDER BY embedding <=>
/// rag_embed('...')` calls the function for every row where there is no index, and in other parts
/// of the statement again.
fn rag_embed_one(
    text: &str,
    model: Option<&str>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<OwnedVector, ErrorReport> {
    let model = settings::model(model)?;
    // SAFETY: the running function's own call information; no other function of ours keeps anything
    // there.
    let mut last = unsafe { pg_func_extra(fcinfo, || None::<Asked>) };
    match &*last {
        Some(last) if last.is_of(&model, text) => return Ok(last.vector.clone()),
        _ => {}
    }
    let asked = match asked_in_statement(&model, text) {
        Some(asked) => asked,
        None => {
            let answer = with_client(|client| {
                client.embed(&model, Priority::Query, vec![text.to_string()])
            })?;
            let vector = answer
                .vectors
                .into_iter()
                .next()
                .ok_or_else(|| Error::internal("the text has no embedding"))?;
            let asked = Asked {
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

fn asked_in_statement(model: &ModelRef, text: &str) -> Option<Asked> {
    STATEMENT.with_borrow(|(began, asked)| {
        let present = *began == statement_start();
        present.then(|| asked.iter().find(|asked| asked.is_of(model, text)).cloned())?
    })
}

fn keep(new: Asked) {
    STATEMENT.with_borrow_mut(|(began, asked)| {
        let present = statement_start();
        if *began != present {
            *began = present;
            asked.clear();
        }
        if asked.len() == KEPT {
            asked.pop_front();
        }
        asked.push_back(new);
    });
}

fn statement_start() -> pg_sys::TimestampTz {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::GetCurrentStatementStartTimestamp() }
}

/// Cost of an embedding that the engine computes, in the planner's units.
const COMPUTED: f64 = 250.0;
/// Cost of the one that all rows of a statement share. It is less than it takes: the sum over all
/// partitions of a table must not be what switches JIT on.
const COMPUTED_ONCE: f64 = 10.0;
/// Cost of a call for a text that was embedded before, in units of `cpu_operator_cost`.
const REPEATED: f64 = 20.0;

/// Planner support: what a call of `rag_embed` costs. The same text for every row is embedded once.
#[pg_extern(sql = false)]
fn embed_support(request: Internal) -> Internal {
    let unanswered = Internal::from(Some(pg_sys::Datum::from(0usize)));
    let Some(datum) = request.unwrap() else {
        return unanswered;
    };
    // SAFETY: the planner passes a node; its tag says of which type it is.
    unsafe {
        if (*datum.cast_mut_ptr::<pg_sys::Node>()).type_ != pg_sys::NodeTag::T_SupportRequestCost {
            return unanswered;
        }
        let request = &mut *datum.cast_mut_ptr::<pg_sys::SupportRequestCost>();
        let is_same = !request.node.is_null()
            && !pg_sys::contain_var_clause(request.node)
            && !pg_sys::contain_volatile_functions(request.node);
        (request.startup, request.per_tuple) = if is_same {
            (COMPUTED_ONCE, REPEATED * pg_sys::cpu_operator_cost)
        } else {
            (0.0, COMPUTED)
        };
    }
    Internal::from(Some(datum))
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
