//! Speaks with models on other servers.
//!
//! ```text
//! Call ──▶ JSON request ──▶ HttpClient (network guard) ──▶ server
//!                                                            │ status, headers, body
//! CallEvent ◀── pieces, scores, vectors ◀─ answer ◀──────────┘
//! ```
//!
//! * [`attempt`]: one request, and which failures are tried again;
//! * [`chat`]: conversations in the dialects of OpenAI (JSON, or server-sent events) and Ollama
//!   (lines of JSON);
//! * [`embed`]: vectors in the dialects of OpenAI, Ollama, Cohere and Text Embeddings Inference, by
//!   several requests at the same time;
//! * [`rerank`]: scores in the dialects of Cohere and Text Embeddings Inference;
//! * [`storage`]: servers that search vectors;
//! * [`lines`]: lines of a body, within limits;
//! * [`failure`]: errors, in words.
//!
//! A request is sent again only if the server has refused it (429, 5xx) or could not be reached: an
//! answer that has begun may have to be paid for. What a server sends is limited in size, and
//! [`Call::timeout_ms`] limits all of it together.

mod attempt;
mod chat;
mod embed;
mod failure;
mod lines;
mod rerank;
pub mod storage;

use std::time::{Duration, Instant};

use rag_protocol::{
    EngineError, ErrorKind,
    call::{Call, CallEvent, CallRequest},
};
use rag_source::http::HttpClient;
use serde_json::{Map, Value};
use url::Url;

use self::attempt::Attempts;
pub use self::failure::timeout;

/// Executes a call. The last event is [`CallEvent::Answered`], [`CallEvent::Scored`] or
/// [`CallEvent::Failed`].
pub fn perform(call: &Call, emit: &mut dyn FnMut(CallEvent)) {
    let until = Instant::now() + Duration::from_millis(call.timeout_ms);
    let mut was_sent = false;
    let result = answer(call, until, &mut was_sent, emit);
    emit(result.unwrap_or_else(|error| CallEvent::Failed { error, was_sent }));
}

fn answer(
    call: &Call,
    until: Instant,
    was_sent: &mut bool,
    emit: &mut dyn FnMut(CallEvent),
) -> Result<CallEvent, EngineError> {
    let url = endpoint(call)?;
    let credentials = call.credentials.as_ref().map(|given| (given, &url));
    let client = HttpClient::new(&call.network, credentials)?;
    let mut attempts = Attempts {
        call,
        client: &client,
        url: &url,
        until,
        was_sent,
    };
    match &call.request {
        CallRequest::Chat { .. } => chat::ask(&mut attempts, emit),
        CallRequest::Rerank { query, documents } => rerank::score(&mut attempts, query, documents),
        CallRequest::Embed { .. } => embed::embed(&mut attempts, emit),
    }
}

/// Returns the address of requests.
fn endpoint(call: &Call) -> Result<Url, EngineError> {
    let base = call.base_url.trim_end_matches('/');
    Url::parse(&format!("{base}/{}", call.request.path(call.provider))).map_err(|_| {
        EngineError::new(
            ErrorKind::InvalidRequest,
            format!("base_url of model \"{}\" is not a URL", call.name),
        )
    })
}

/// Returns the text of a request, with the parameters of the model. One that is null removes a key.
fn request(call: &Call, mut body: Map<String, Value>) -> Vec<u8> {
    if let Some(model) = &call.model {
        body.insert("model".into(), model.as_str().into());
    }
    for (key, value) in &call.parameters {
        match value {
            Value::Null => body.shift_remove(key),
            value => body.insert(key.clone(), value.clone()),
        };
    }
    Value::Object(body).to_string().into_bytes()
}
