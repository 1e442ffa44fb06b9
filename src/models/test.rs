//! `rag_test_model`: a small request, and how long its answer takes.

use std::time::{Duration, Instant};

use rag_manifest::ModelSpec;
use rag_protocol::call::{CallRequest, ChatMessage, ModelKind, Role};

use super::call::{ModelCall, ModelEvent, unexpected};
use crate::{
    catalog::models::{self, Model},
    error::Error,
};

/// The number of tokens that a chat model may answer to a test.
const TEST_TOKENS: u32 = 16;

pub struct ModelTest {
    pub success: bool,
    pub message: String,
    pub latency: Duration,
}

/// Sends a small request to a model.
///
/// # Errors
/// It does not exist, or the caller may not use it. Errors of the call are in the result.
pub fn test(name: &str) -> Result<ModelTest, Error> {
    let model = models::find(name)?.ok_or_else(|| models::missing(name))?;
    model.require_use()?;
    let started = Instant::now();
    let result = model.settings().and_then(|settings| ask(&model, &settings));
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
    })
}

fn ask(model: &Model, settings: &ModelSpec) -> Result<String, Error> {
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
            query: "color of the sky".into(),
            documents: vec!["The sky is blue.".into(), "Bread is baked.".into()],
        },
    };
    let mut call = ModelCall::begin(model, settings, request, settings.timeout)?;
    loop {
        return Ok(match (call.next()?, model.kind) {
            (ModelEvent::Text(_), ModelKind::Chat) => continue,
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
