//! Vectors: OpenAI's `embeddings`, Ollama's `api/embed`, and the `embed` of Cohere and of Text
//! Embeddings Inference.
//!
//! The texts are sent in batches, several at the same time. Each batch is reported when it has
//! arrived. After a failure no further batch is sent, and those that were sent are still reported:
//! they may have to be paid for.
//!
//! A server may refuse a batch for one of its texts. Its halves are sent then, and so on, until
//! that text is alone. It is reported as refused, and all others have their vectors. A server that
//! has accepted nothing so far is asked for the vector of a short text first: if it refuses that
//! one as well, the call fails.

mod answer;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use rag_definition::model::Provider;
use rag_protocol::{
    EngineError, ErrorKind,
    baseline::TEXTS,
    call::{Call, CallEvent, CallRequest, Purpose, TokenUsage},
};
use rag_source::http::HttpClient;
use serde_json::{Map, Value, json};
use url::Url;

use crate::{attempt::Attempts, failure, request};

/// The maximum size of an answer, in bytes.
const MAX_BODY: u64 = 64 << 20;

/// Emits the vectors of all texts that the server does not refuse. Returns the last event.
///
/// # Errors
/// A batch has no vectors. Those of other batches have been emitted.
pub fn embed(
    attempts: &mut Attempts<'_>,
    emit: &mut dyn FnMut(CallEvent),
) -> Result<CallEvent, EngineError> {
    let call = attempts.call;
    let CallRequest::Embed {
        texts,
        batch,
        concurrency,
        ..
    } = &call.request
    else {
        return Err(EngineError::new(
            ErrorKind::InvalidRequest,
            "the call has no texts to embed",
        ));
    };
    let batch = (*batch).max(1);
    let batches: Vec<&[String]> = texts.chunks(batch).collect();
    let next = AtomicUsize::new(0);
    let server = Server {
        call,
        client: attempts.client,
        url: attempts.url,
        until: attempts.until,
        has_failed: AtomicBool::new(false),
        has_accepted: AtomicBool::new(false),
        short_text: OnceLock::new(),
    };
    let (sender, receiver) = mpsc::channel();
    let mut failed = None;
    thread::scope(|scope| {
        for _ in 0..(*concurrency).clamp(1, batches.len().max(1)) {
            let sender = sender.clone();
            let (batches, next, server) = (&batches, &next, &server);
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(texts) = batches.get(place) else {
                        return;
                    };
                    server.embed(place * batch, texts, &sender);
                }
            });
        }
        drop(sender);
        for reply in receiver {
            match reply {
                Reply::Event(event) => emit(event),
                Reply::Failed { error, was_sent } => {
                    *attempts.was_sent |= was_sent;
                    failed = failed.take().or(Some(error));
                }
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(CallEvent::Answered {
            usage: server.unreported(),
            finish_reason: None,
        }),
    }
}

/// The server, and what is known of it.
struct Server<'a> {
    call: &'a Call,
    client: &'a HttpClient,
    url: &'a Url,
    until: Instant,
    has_failed: AtomicBool,
    has_accepted: AtomicBool,
    /// The answer to a short text, once it was sent: the tokens that the server counted.
    short_text: OnceLock<Result<Option<u64>, EngineError>>,
}

/// What has become of some texts.
enum Reply {
    Event(CallEvent),
    Failed {
        error: EngineError,
        /// See [`CallEvent::Failed`].
        was_sent: bool,
    },
}

impl Server<'_> {
    /// Replies with the vectors of texts, the first of which has the place `first`. After a failure
    /// nothing is sent.
    fn embed(&self, first: usize, texts: &[String], replies: &Sender<Reply>) {
        if self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        let mut was_sent = false;
        let error = match self.request(texts, &mut was_sent) {
            Ok((vectors, tokens)) => {
                self.has_accepted.store(true, Ordering::Relaxed);
                return reply(
                    replies,
                    CallEvent::Embedded {
                        first,
                        count: texts.len(),
                        vectors,
                        usage: input(tokens),
                    },
                );
            }
            Err(error) if error.kind == ErrorKind::Refused => {
                match self.accepts_others(&mut was_sent) {
                    Ok(true) => match texts {
                        [text] => {
                            let error = failure::of_text(self.call, text, error);
                            let place = first;
                            return reply(replies, CallEvent::Refused { place, error });
                        }
                        _ => {
                            let (left, right) = texts.split_at(texts.len() / 2);
                            self.embed(first, left, replies);
                            return self.embed(first + left.len(), right, replies);
                        }
                    },
                    Ok(false) => error,
                    Err(other) => other,
                }
            }
            Err(error) => error,
        };
        self.has_failed.store(true, Ordering::Relaxed);
        // nobody waits for replies after a panic only
        let _ = replies.send(Reply::Failed { error, was_sent });
    }

    /// Returns false if the server refuses a short text as well.
    ///
    /// # Errors
    /// It has failed.
    fn accepts_others(&self, was_sent: &mut bool) -> Result<bool, EngineError> {
        if self.has_accepted.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let answer = self.short_text.get_or_init(|| {
            let text = TEXTS[0].0.to_owned();
            self.request(&[text], was_sent).map(|(_, tokens)| tokens)
        });
        match answer {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ErrorKind::Refused => Ok(false),
            Err(error) => Err(error.clone()),
        }
    }

    /// Returns the tokens that no event of vectors tells.
    fn unreported(&self) -> TokenUsage {
        let answer = self.short_text.get().and_then(|it| it.as_ref().ok());
        input(answer.map_or(Some(0), |tokens| *tokens))
    }

    fn request(
        &self,
        texts: &[String],
        was_sent: &mut bool,
    ) -> Result<(Vec<f32>, Option<u64>), EngineError> {
        let mut attempts = Attempts {
            call: self.call,
            client: self.client,
            url: self.url,
            until: self.until.min(Instant::now() + timeout(self.call)),
            was_sent,
        };
        embed_batch(&mut attempts, texts)
    }
}

fn reply(replies: &Sender<Reply>, event: CallEvent) {
    // nobody waits for replies after a panic only
    let _ = replies.send(Reply::Event(event));
}

fn input(tokens: Option<u64>) -> TokenUsage {
    TokenUsage {
        input: tokens,
        output: tokens.map(|_| 0),
    }
}

fn timeout(call: &Call) -> Duration {
    let milliseconds = match &call.request {
        CallRequest::Embed {
            request_timeout_ms, ..
        } => *request_timeout_ms,
        _ => call.timeout_ms,
    };
    Duration::from_millis(milliseconds)
}

/// Returns the vectors of some texts, one after another, and the tokens that the server counted.
fn embed_batch(
    attempts: &mut Attempts<'_>,
    texts: &[String],
) -> Result<(Vec<f32>, Option<u64>), EngineError> {
    let call = attempts.call;
    let response = attempts.send(&request(call, body(call, texts)))?;
    let bytes = response
        .bytes(MAX_BODY)
        .map_err(|error| failure::of_http(call, &error))?;
    let answer = answer::read(call.provider, &bytes).map_err(|problem| match problem {
        answer::Problem::Reported(error) => failure::reported(call, &error),
        answer::Problem::Form(detail) => failure::no_answer(call, detail),
    })?;
    let (wanted, normalizes) = match &call.request {
        CallRequest::Embed {
            dimensions,
            normalize,
            ..
        } => (*dimensions, *normalize),
        _ => (None, true),
    };
    let vectors = answer::check(answer.vectors, texts.len(), wanted, normalizes)
        .map_err(|detail| failure::no_answer(call, detail))?;
    Ok((vectors, answer.tokens))
}

fn body(call: &Call, texts: &[String]) -> Map<String, Value> {
    let CallRequest::Embed {
        purpose,
        dimensions,
        ..
    } = &call.request
    else {
        return Map::new();
    };
    let (body, key) = match call.provider {
        Provider::Ollama => (json!({"input": texts}), "dimensions"),
        Provider::Cohere => {
            let input_type = match purpose {
                Purpose::Query => "search_query",
                Purpose::Passage => "search_document",
            };
            (
                json!({"texts": texts, "input_type": input_type, "embedding_types": ["float"]}),
                "output_dimension",
            )
        }
        Provider::Tei => (json!({"inputs": texts, "truncate": true}), "dimensions"),
        _ => (
            json!({"input": texts, "encoding_format": "float"}),
            "dimensions",
        ),
    };
    let Value::Object(mut body) = body else {
        return Map::new();
    };
    if let Some(dimensions) = dimensions {
        body.insert(key.into(), (*dimensions).into());
    }
    body
}

#[cfg(test)]
mod tests {
    use rag_protocol::ingest::Network;

    use super::*;

    fn call(provider: Provider, dimensions: Option<usize>) -> Call {
        Call {
            name: "m".into(),
            provider,
            base_url: "http://h/v1".into(),
            model: Some("small".into()),
            parameters: Map::from_iter([("dimensions".to_owned(), Value::Null)]),
            credentials: None,
            network: Network::default(),
            timeout_ms: 1000,
            request: CallRequest::Embed {
                texts: vec![],
                purpose: Purpose::Query,
                dimensions,
                normalize: true,
                batch: 1,
                concurrency: 1,
                request_timeout_ms: 1000,
            },
        }
    }

    fn sent(provider: Provider, dimensions: Option<usize>) -> Value {
        let call = call(provider, dimensions);
        let body = request(&call, body(&call, &["a".into()]));
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn four_dialects() {
        assert_eq!(
            sent(Provider::OpenAi, None),
            json!({"input": ["a"], "encoding_format": "float", "model": "small"})
        );
        assert_eq!(
            sent(Provider::Ollama, None),
            json!({"input": ["a"], "model": "small"})
        );
        assert_eq!(
            sent(Provider::Cohere, Some(4)),
            json!({"texts": ["a"], "input_type": "search_query", "embedding_types": ["float"],
                   "output_dimension": 4, "model": "small"})
        );
        assert_eq!(
            sent(Provider::Tei, None),
            json!({"inputs": ["a"], "truncate": true, "model": "small"})
        );
    }

    #[test]
    fn parameters_remove_and_replace_the_format_of_vectors() {
        let sent = |format: Value| {
            let mut call = call(Provider::OpenAi, None);
            call.parameters = Map::from_iter([("encoding_format".to_owned(), format)]);
            let body = request(&call, body(&call, &["a".into()]));
            serde_json::from_slice::<Value>(&body).unwrap()
        };
        assert_eq!(sent(Value::Null), json!({"input": ["a"], "model": "small"}));
        assert_eq!(
            sent("base64".into()),
            json!({"input": ["a"], "encoding_format": "base64", "model": "small"})
        );
    }

    #[test]
    fn a_parameter_that_is_null_removes_the_key() {
        let with = sent(Provider::OpenAi, Some(4));
        assert_eq!(with.get("dimensions"), None);
    }
}
