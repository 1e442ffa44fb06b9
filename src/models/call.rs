//! One call of a model, by a process `rag-engine call`.

use std::time::Duration;

use rag_definition::{SecretRef, model::ModelSpec};
use rag_protocol::{
    call::{Call, CallEvent, CallRequest, TokenUsage},
    frame,
    ingest::Credentials,
};
use zeroize::{Zeroize, Zeroizing};

use super::usage::CountedCall;
use crate::{
    catalog::models::Model,
    engine::{
        request::{EngineRequest, EngineTask, REPEAT},
        unexpected,
    },
    error::Error,
    pg::{roles, transaction},
    secrets, settings,
};

/// The engine reports its own timeout. After this time more it is killed.
const KILL_DELAY: Duration = Duration::from_secs(5);
/// The maximum size of the texts of a request, in bytes.
pub const MAX_REQUEST: usize = 4 << 20;

/// A call in progress. Dropping it ends the process, and so the connection to the server.
pub struct ModelCall {
    engine: EngineRequest<CallEvent>,
    is_embedding: bool,
    counted: CountedCall,
    embedded: EmbeddedTokens,
}

/// The tokens of the vectors that have come.
#[derive(Default)]
struct EmbeddedTokens {
    counted: u64,
    /// The server did not count those of some texts.
    is_partial: bool,
}

/// An event of a call that has not failed.
pub enum ModelEvent {
    Text(String),
    /// A chat model thinks, before it answers.
    Thought,
    Answered {
        finish_reason: Option<String>,
        tokens: Tokens,
    },
    Scored(Vec<f64>),
    /// The vectors of some texts.
    Embedded {
        /// The place of the first of these texts.
        first: usize,
        arrived: Vec<Vec<f32>>,
    },
    /// The server refuses a text, and accepts others.
    Refused {
        place: usize,
        error: Error,
    },
}

/// The tokens of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub is_estimated: bool,
}

impl ModelCall {
    /// Begins a call. The current role may use the model. The key is resolved with the rights of
    /// its owner.
    ///
    /// # Errors
    /// A limit is used up, the key is unavailable, or the engine cannot be started.
    pub fn begin(
        model: &Model,
        settings: &ModelSpec,
        request: CallRequest,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let bytes = size(&request);
        if bytes > MAX_REQUEST {
            return Err(
                Error::limit("the request to the model is too large").detail(format!(
                    "Its texts have {bytes} bytes, and the limit is {MAX_REQUEST} bytes."
                )),
            );
        }
        let credentials = match model.secret(settings) {
            Some(secret) if transaction::is_active() => credentials(model, &secret)?.into(),
            // a run that is between two transactions
            Some(secret) => transaction::transaction(|| credentials(model, &secret))?.into(),
            None => None,
        };
        let mut call = Call {
            name: model.name.clone(),
            provider: model.provider,
            base_url: settings.base_url.clone(),
            model: settings.model.clone(),
            parameters: settings.parameters.clone(),
            credentials,
            network: settings::network(),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            request,
        };
        let input = frame::encode(&call, &[]).map(Zeroizing::new);
        if let Some(credentials) = &mut call.credentials {
            credentials.secret.zeroize();
        }
        let name = &model.name;
        let seconds = timeout.as_secs_f64();
        let late = format!("model \"{name}\" did not answer within {seconds} s");
        let late = Error::engine_unavailable(late)
            .hint("Repeat the command, or raise timeout in the settings of the model.");
        let task = EngineTask {
            command: "call",
            options: vec![],
            input: input?,
            label: format!("model={name}"),
            activity: "while it called the model".into(),
            hint: REPEAT,
            limit: Some((timeout + KILL_DELAY, late)),
        };
        let requests = call.request.requests(call.provider) as u64;
        let is_embedding = matches!(call.request, CallRequest::Embed { .. });
        let mut counted = CountedCall::begin(model, settings, requests, bytes)?;
        let engine = EngineRequest::begin(task).inspect_err(|_| {
            counted.end(true, Some(0), Some(0));
        })?;
        Ok(Self {
            engine,
            is_embedding,
            counted,
            embedded: EmbeddedTokens::default(),
        })
    }

    /// Waits for the next event. The last one is not a text.
    ///
    /// # Errors
    /// The call has failed.
    pub fn next(&mut self) -> Result<ModelEvent, Error> {
        let (event, payload) = self.engine.next()?;
        self.take(event, &payload)
    }

    /// Sends the whole call. What the engine answers meanwhile is kept for [`Self::next`].
    pub fn send_all(&mut self) {
        self.engine.send_all();
    }

    fn take(&mut self, event: CallEvent, payload: &[u8]) -> Result<ModelEvent, Error> {
        match event {
            CallEvent::Text { text } => {
                self.counted.output_bytes += text.len() as u64;
                Ok(ModelEvent::Text(text))
            }
            CallEvent::Thought { bytes } => {
                self.counted.output_bytes += bytes as u64;
                Ok(ModelEvent::Thought)
            }
            CallEvent::Answered {
                usage,
                finish_reason,
            } => {
                let usage = if self.is_embedding {
                    self.embedded.add(usage);
                    self.embedded.usage()
                } else {
                    usage
                };
                Ok(ModelEvent::Answered {
                    finish_reason,
                    tokens: self.end(usage),
                })
            }
            CallEvent::Embedded {
                first,
                count,
                usage,
                ..
            } => {
                self.embedded.add(usage);
                let elements: Vec<f32> = payload
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                    .collect();
                if count == 0 || elements.is_empty() || !elements.len().is_multiple_of(count) {
                    return Err(unexpected());
                }
                let dimensions = elements.len() / count;
                let arrived = elements.chunks_exact(dimensions).map(<[f32]>::to_vec);
                Ok(ModelEvent::Embedded {
                    first,
                    arrived: arrived.collect(),
                })
            }
            CallEvent::Refused { place, error } => Ok(ModelEvent::Refused {
                place,
                error: Error::from(error),
            }),
            CallEvent::Scored { scores, usage } => {
                self.end(TokenUsage {
                    output: Some(0),
                    ..usage
                });
                Ok(ModelEvent::Scored(scores))
            }
            CallEvent::Failed { error, was_sent } => {
                let arrived = self.embedded.counted;
                let tokens = (!was_sent || arrived > 0).then_some(arrived);
                self.counted.end(true, tokens, tokens.map(|_| 0));
                Err(Error::from(error))
            }
        }
    }

    fn end(&mut self, usage: TokenUsage) -> Tokens {
        let record = self.counted.end(false, usage.input, usage.output);
        Tokens {
            input: record.input_tokens,
            output: record.output_tokens,
            is_estimated: record.is_estimated,
        }
    }
}

fn credentials(model: &Model, secret: &SecretRef) -> Result<Credentials, Error> {
    secrets::credentials_for(secret, owner(model)?)
}

/// Returns the role whose rights a call has on the secret.
fn owner(model: &Model) -> Result<pgrx::pg_sys::Oid, Error> {
    if roles::name_of(model.owner.id).is_some() {
        return Ok(model.owner.id);
    }
    Err(Error::undefined(format!(
        "role \"{}\", which owns the model, does not exist",
        model.owner.name
    ))
    .hint(
        "A later role of the same name has no rights on it. A superuser can name another owner: \
         rag_alter_model(name, owner => ...).",
    ))
}

fn size(request: &CallRequest) -> usize {
    match request {
        CallRequest::Chat { messages, .. } => {
            messages.iter().map(|message| message.content.len()).sum()
        }
        CallRequest::Rerank { query, documents } => {
            // the server reads the query with each document
            documents.iter().map(|text| text.len() + query.len()).sum()
        }
        CallRequest::Embed { texts, .. } => texts.iter().map(String::len).sum(),
    }
}

impl EmbeddedTokens {
    fn add(&mut self, usage: TokenUsage) {
        self.counted = self.counted.saturating_add(usage.input.unwrap_or(0));
        self.is_partial |= usage.input.is_none();
    }

    fn usage(&self) -> TokenUsage {
        TokenUsage {
            input: (!self.is_partial).then_some(self.counted),
            output: Some(0),
        }
    }
}
