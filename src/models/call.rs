//! One call of a model, by a process `rag-engine call`.

use std::{
    ffi::OsStr,
    time::{Duration, Instant},
};

use rag_manifest::ModelSpec;
use rag_protocol::{
    EngineError,
    call::{Call, CallEvent, CallRequest, TokenUsage},
    frame::{self, FrameBuffer},
    ingest::Credentials,
};
use zeroize::{Zeroize, Zeroizing};

use super::usage::CountedCall;
use crate::{
    catalog::{models::Model, secrets::SecretRef},
    engine::process::{self, EngineProcess},
    error::Error,
    pg::{
        roles, transaction,
        wait::{Until, wait},
    },
    secrets, settings,
};

/// The engine reports its own timeout. After this time more it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// The maximum size of the texts of a request, in bytes.
pub const MAX_REQUEST: usize = 4 << 20;

/// A call in progress. Dropping it ends the process, and so the connection to the server.
pub struct ModelCall {
    /// For messages and the log.
    name: String,
    process: EngineProcess,
    events: FrameBuffer,
    /// The call. It may hold a key.
    input: Zeroizing<Vec<u8>>,
    /// The number of bytes of the call that were sent.
    sent: usize,
    is_embedding: bool,
    until: Instant,
    timeout: Duration,
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
        let args: [&OsStr; 3] = [
            "call".as_ref(),
            "--sandbox".as_ref(),
            settings::sandbox().as_ref(),
        ];
        let input = input?;
        let requests = call.request.requests(call.provider) as u64;
        let is_embedding = matches!(call.request, CallRequest::Embed { .. });
        let mut counted = CountedCall::begin(model, settings, requests, bytes)?;
        let process = EngineProcess::spawn(&args).inspect_err(|_| {
            counted.end(true, Some(0), Some(0));
        })?;
        Ok(Self {
            name: model.name.clone(),
            process,
            input,
            sent: 0,
            is_embedding,
            counted,
            events: FrameBuffer::default(),
            embedded: EmbeddedTokens::default(),
            until: Instant::now() + timeout + GRACE,
            timeout,
        })
    }

    /// Waits for the next event. The last one is not a text.
    ///
    /// # Errors
    /// The call has failed.
    pub fn next(&mut self) -> Result<ModelEvent, Error> {
        loop {
            if let Some(frame) = self.events.next()? {
                let event: CallEvent = frame.header()?;
                return self.take(event, &frame.payload);
            }
            self.send();
            let mut buffer = [0; 65536];
            match self.process.read(&mut buffer) {
                Ok(Some(0)) | Err(_) => return Err(self.died()),
                Ok(Some(bytes)) => self.events.push(&buffer[..bytes]),
                Ok(None) if Instant::now() >= self.until => return Err(self.late()),
                Ok(None) => self.wait(),
            }
            self.forward_log();
        }
    }

    fn take(&mut self, event: CallEvent, payload: &[u8]) -> Result<ModelEvent, Error> {
        match event {
            CallEvent::Text { text } => {
                self.counted.output_bytes += text.len() as u64;
                Ok(ModelEvent::Text(text))
            }
            CallEvent::Answered {
                usage,
                finish_reason,
            } => {
                let usage = match self.is_embedding {
                    true => {
                        self.embedded.add(usage);
                        self.embedded.usage()
                    }
                    false => usage,
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

    /// Sends the whole call. What the engine says meanwhile is kept for [`Self::next`], so that
    /// neither side waits for the other.
    pub fn send_all(&mut self) {
        while !self.input.is_empty() && Instant::now() < self.until {
            self.send();
            let mut buffer = [0; 65536];
            match self.process.read(&mut buffer) {
                // the next read reports it
                Ok(Some(0)) | Err(_) => return,
                Ok(Some(bytes)) => self.events.push(&buffer[..bytes]),
                Ok(None) if self.input.is_empty() => {}
                Ok(None) => self.wait(),
            }
            self.forward_log();
        }
    }

    fn send(&mut self) {
        let unsent = &self.input[self.sent..];
        if unsent.is_empty() {
            return;
        }
        // if the engine has ended, reading reports it
        self.sent += self.process.write(unsent).unwrap_or(unsent.len());
        if self.sent == self.input.len() {
            self.input = Zeroizing::default();
            self.sent = 0;
        }
    }

    fn wait(&mut self) {
        let mut descriptors = vec![(self.process.stdout_fd(), Until::Readable)];
        descriptors.extend(self.process.stderr_fd().map(|fd| (fd, Until::Readable)));
        if self.sent < self.input.len() {
            descriptors.extend(self.process.stdin_fd().map(|fd| (fd, Until::Writable)));
        }
        let left = self.until.saturating_duration_since(Instant::now());
        wait(&descriptors, Some(left));
    }

    fn forward_log(&mut self) {
        for line in self.process.log_lines() {
            pgrx::log!("rag-engine: {line} model={}", self.name);
        }
    }

    fn died(&mut self) -> Error {
        let how = self
            .process
            .kill()
            .map_or_else(|| "ended".into(), process::describe);
        self.forward_log();
        Error::engine_unavailable(format!("rag-engine {how} while it called the model"))
            .hint("Repeat the command. See the server log for the reason.")
    }

    fn late(&self) -> Error {
        let (name, seconds) = (&self.name, self.timeout.as_secs_f64());
        Error::engine_unavailable(format!(
            "model \"{name}\" did not answer within {seconds} s"
        ))
        .hint("Repeat the command, or raise timeout in the settings of the model.")
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

/// Returns the error of an engine that answered with another event than was asked for.
pub fn unexpected() -> Error {
    EngineError::new(
        rag_protocol::ErrorKind::Internal,
        "unexpected answer from rag-engine",
    )
    .into()
}
