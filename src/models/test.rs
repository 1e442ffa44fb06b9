//! `rag_test_model`: a small request, and how long its answer takes. What an embedding model says
//! of itself is stored with its definition.

use std::time::{Duration, Instant};

use rag_definition::model::{ModelKind, ModelSpec, Provider};
use rag_protocol::{
    call::{CallRequest, ChatMessage, Role},
    embed::ModelInfo,
};

use super::{
    call::{ModelCall, ModelEvent},
    embedding::EmbeddingModel,
    local,
};
use crate::{
    catalog::models::{self, Model},
    engine::unexpected,
    error::Error,
    models::rights,
    pg::{process, spi::as_owner, transaction},
};

/// The number of tokens that a chat model may answer to a test.
const TEST_TOKENS: u32 = 16;

pub struct ModelTest {
    pub success: bool,
    pub message: String,
    pub latency: Duration,
    /// Of an embedding model.
    pub dimensions: Option<usize>,
}

/// Sends a small request to a model.
///
/// # Errors
/// It does not exist, or the caller may not use it. Errors of the call are in the result.
pub fn test(name: &str) -> Result<ModelTest, Error> {
    let model = models::find(name)?.ok_or_else(|| models::missing(name))?;
    rights::require_use(&model)?;
    let started = Instant::now();
    let mut dimensions = None;
    let result = match model.kind {
        ModelKind::Embedding => describe(model).map(|info| {
            dimensions = Some(info.dimensions);
            format!(
                "the model embeds texts, with {} dimensions",
                info.dimensions
            )
        }),
        _ => model.settings().and_then(|settings| ask(&model, &settings)),
    };
    let latency = started.elapsed();
    let (success, message) = match result {
        Ok(message) => (true, message),
        Err(error) => {
            let parts = [Some(error.message), error.detail].into_iter().flatten();
            (false, parts.collect::<Vec<_>>().join(": "))
        }
    };
    Ok(ModelTest {
        success,
        message,
        latency,
        dimensions,
    })
}

/// Asks an embedding model for vectors, and stores what it says of itself.
fn describe(model: Model) -> Result<ModelInfo, Error> {
    let name = model.name.clone();
    let info = EmbeddingModel::of_model(model)?.info_now()?;
    if !transaction::is_read_only() && !process::is_in_recovery() {
        as_owner(|owner| {
            models::note(owner, &name, Some(&info.fingerprint), Some(info.dimensions))
        })?;
    }
    Ok(info)
}

/// Stores what is known of an embedding model that was created or changed. One in a folder is
/// loaded for that. One on another server is not called.
///
/// # Errors
/// The folder has no model that can be used.
pub fn note(name: &str) -> Result<(), Error> {
    let Some(model) = as_owner(|owner| models::find_now(owner, name))? else {
        return Ok(());
    };
    if model.kind != ModelKind::Embedding {
        return Ok(());
    }
    match model.provider {
        Provider::Local => describe(model).map(drop),
        _ => {
            let dimensions = model.settings()?.embedding.dimensions;
            let model = EmbeddingModel::of_model(model)?;
            as_owner(|owner| models::note(owner, name, model.known_fingerprint(), dimensions))
        }
    }
}

fn ask(model: &Model, settings: &ModelSpec) -> Result<String, Error> {
    const QUERY: &str = "color of the sky";
    let documents = || vec!["The sky is blue.".into(), "Bread is baked.".into()];
    if model.provider == Provider::Local {
        let scores = local::scores(model, settings, QUERY, documents())?;
        return Ok(format!("the model scored {} documents", scores.len()));
    }
    let request = match model.kind {
        ModelKind::Chat => CallRequest::Chat {
            messages: vec![ChatMessage {
                role: Role::User,
                content: "Answer with the word OK.".into(),
            }],
            max_tokens: TEST_TOKENS.min(settings.max_tokens),
            temperature: settings.temperature,
            stream: settings.stream,
        },
        ModelKind::Rerank => CallRequest::Rerank {
            query: QUERY.into(),
            documents: documents(),
        },
        ModelKind::Embedding => return Err(unexpected()),
    };
    let mut call = ModelCall::begin(model, settings, request, settings.timeout)?;
    loop {
        return Ok(match (call.next()?, model.kind) {
            (ModelEvent::Text(_) | ModelEvent::Thought, ModelKind::Chat) => continue,
            (ModelEvent::Answered { tokens, .. }, ModelKind::Chat) => format!(
                "the model answered, with {} tokens sent and {} received",
                tokens.input, tokens.output
            ),
            (ModelEvent::Scored(scores), ModelKind::Rerank) => {
                format!("the model scored {} documents", scores.len())
            }
            _ => return Err(unexpected()),
        });
    }
}
