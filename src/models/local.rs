//! Rerankers on this server, which `rag-engine embed` runs.

use std::time::Instant;

use rag_manifest::ModelSpec;
use rag_protocol::embed::{ModelOptions, ModelRef};

use crate::{catalog::models::Model, engine::client::with_client, error::Error, settings};

/// Returns the scores of a model on this server, 0 to 1: the logistic function of what it returns.
///
/// # Errors
/// The folder is no reranker, or the model does not answer in time.
pub fn scores(
    model: &Model,
    settings: &ModelSpec,
    query: &str,
    documents: Vec<String>,
) -> Result<Vec<f64>, Error> {
    let deadline = Instant::now() + settings.timeout;
    let folder = ModelRef {
        dir: settings.path.clone(),
        precision: settings.precision.unwrap_or_else(settings::precision),
        options: ModelOptions::default(),
    };
    let scored = with_client(|client| client.score(&folder, query, documents, deadline));
    let logits = scored.map_err(|error| match Instant::now() >= deadline {
        true => Error::engine_unavailable(format!(
            "model \"{}\" did not answer within {} s",
            model.name,
            settings.timeout.as_secs_f64()
        )),
        false => error,
    })?;
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    Ok(logits.into_iter().map(logistic).collect())
}
