//! Vectors: OpenAI's `embeddings`, Ollama's `api/embed`, and the `embed` of Cohere and of Text
//! Embeddings Inference.
//!
//! The texts are sent in batches, several at the same time. Each batch is reported when it has
//! arrived. After a failure no further batch is sent, and those that were sent are still reported:
//! they may have to be paid for.

mod answer;

use std::{
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use rag_protocol::{
    EngineError, ErrorKind,
    call::{Call, CallEvent, CallRequest, Provider, Purpose, TokenUsage},
};
use serde_json::{Map, Value, json};

use crate::{attempt::Attempts, failure, request};

/// The maximum size of an answer, in bytes.
const MAX_BODY: u64 = 64 << 20;

/// Emits the vectors of all texts. Returns the last event.
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
    let has_failed = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    let (client, url, until) = (attempts.client, attempts.url, attempts.until);
    let mut failed = None;
    thread::scope(|scope| {
        for _ in 0..(*concurrency).clamp(1, batches.len().max(1)) {
            let sender = sender.clone();
            let (batches, next, has_failed) = (&batches, &next, &has_failed);
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(texts) = batches.get(place) else {
                        return;
                    };
                    if has_failed.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut was_sent = false;
                    let mut attempts = Attempts {
                        call,
                        client,
                        url,
                        until: until.min(Instant::now() + timeout(call)),
                        was_sent: &mut was_sent,
                    };
                    let result = embed_batch(&mut attempts, texts);
                    has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    if sender.send((place, texts.len(), was_sent, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (place, count, was_sent, result) in receiver {
            match result {
                Ok((vectors, tokens)) => emit(CallEvent::Embedded {
                    first: place * batch,
                    count,
                    vectors,
                    usage: TokenUsage {
                        input: tokens,
                        output: tokens.map(|_| 0),
                    },
                }),
                Err(error) => {
                    *attempts.was_sent |= was_sent;
                    failed = failed.take().or(Some(error));
                }
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(CallEvent::Answered {
            usage: TokenUsage::default(),
            finish_reason: None,
        }),
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
    fn a_parameter_that_is_null_removes_the_key() {
        let with = sent(Provider::OpenAi, Some(4));
        assert_eq!(with.get("dimensions"), None);
    }
}
