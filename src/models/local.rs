//! Rerankers on this server, which `rag-engine embed` runs.

use std::time::Instant;

use rag_definition::model::ModelSpec;
use rag_protocol::embed::{ModelOptions, ModelRef};

use super::usage::CountedCall;
use crate::{catalog::models::Model, engine::client::with_client, error::Error, settings};

/// Returns the scores of a model on this server. Those of a cross-encoder are 0 to 1, the logistic
/// function of what it returns. Those of late interaction are -1 to 1, a mean of cosines.
///
/// # Errors
/// The folder is no such model, or the model does not answer in time.
pub fn scores(
    model: &Model,
    settings: &ModelSpec,
    query: &str,
    documents: Vec<String>,
) -> Result<Vec<f64>, Error> {
    let deadline = Instant::now() + settings.timeout;
    let dir = if settings.path.as_os_str().is_empty() {
        settings::model(None)?.dir
    } else {
        settings.path.clone()
    };
    let folder = ModelRef {
        dir,
        precision: settings.precision.unwrap_or_else(settings::precision),
        options: ModelOptions {
            compares_tokens: settings.is_late,
            ..ModelOptions::default()
        },
    };
    let mut counted = count(model, settings, query, &documents)?;
    let scored = with_client(|client| client.score(&folder, query, documents, deadline));
    if let Some(counted) = &mut counted {
        counted.end(scored.is_err(), None, Some(0));
    }
    let scores = scored.map_err(|error| {
        if Instant::now() >= deadline {
            Error::engine_unavailable(format!(
                "model \"{}\" did not answer within {} s",
                model.name,
                settings.timeout.as_secs_f64()
            ))
        } else {
            error
        }
    })?;
    if settings.is_late {
        return Ok(scores);
    }
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    Ok(scores.into_iter().map(logistic).collect())
}

/// Counts a call of a model of the registry that begins. The query is read with each document.
///
/// # Errors
/// A limit of the model is used up.
fn count(
    model: &Model,
    settings: &ModelSpec,
    query: &str,
    documents: &[String],
) -> Result<Option<CountedCall>, Error> {
    if !model.is_registered() {
        return Ok(None);
    }
    let bytes = documents
        .iter()
        .map(|document| query.len() + document.len());
    CountedCall::begin(model, settings, 1, bytes.sum()).map(Some)
}
