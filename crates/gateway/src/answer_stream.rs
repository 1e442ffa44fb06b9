//! Answers of a chat model as server-sent events: the gateway's own, and those of OpenAI's chat
//! completions and responses.

use std::{
    convert::Infallible,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{problem::Problem, routes::Output};

/// A row of `rag_api.answer_stream`.
enum Event {
    Context(Value),
    Text(String),
    End(Value),
}

impl Event {
    fn parse(row: &str) -> Option<Self> {
        let mut row: Value = serde_json::from_str(row).ok()?;
        let data = row["data"].take();
        Some(match row["event"].as_str()? {
            "context" => Self::Context(data),
            "text" => Self::Text(row["text"].as_str()?.to_string()),
            _ => Self::End(data),
        })
    }
}

/// Writes the events of a contract.
struct Writer {
    output: Output,
    id: String,
    created: u64,
    model: String,
    wants_usage: bool,
    text: String,
    sequence: u64,
}

/// Returns the stream of an answer. The first row is awaited, so that a request that fails has a
/// status.
///
/// # Errors
/// The call failed before its first row.
pub async fn respond(
    output: Output,
    request: &Value,
    id: String,
    mut rows: mpsc::Receiver<Result<String, Problem>>,
) -> Result<Response, Problem> {
    let first = rows.recv().await.ok_or_else(Problem::internal)??;
    let created = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut writer = Writer {
        output,
        id,
        created: created.map_or(0, |time| time.as_secs()),
        model: request["model"].as_str().unwrap_or("rag").to_string(),
        wants_usage: request["stream_options"]["include_usage"] == true,
        text: String::new(),
        sequence: 0,
    };
    let begin = writer.begin() + &writer.write(&first);
    let state = (writer, rows, Some(begin));
    let pieces = stream::unfold(state, |(mut writer, mut rows, begin)| async move {
        if let Some(begin) = begin {
            return Some((
                Ok::<_, Infallible>(Bytes::from(begin)),
                (writer, rows, None),
            ));
        }
        let piece = match rows.recv().await? {
            Ok(row) => writer.write(&row),
            Err(problem) => {
                rows.close();
                writer.fail(&problem)
            }
        };
        Some((Ok(Bytes::from(piece)), (writer, rows, None)))
    });
    let body = Body::from_stream(pieces);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, body).into_response())
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn named(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

impl Writer {
    fn begin(&mut self) -> String {
        match self.output {
            Output::ChatCompletion => self.chunk(json!({"role": "assistant", "content": ""}), None),
            Output::Response => {
                let response = self.response("in_progress", &Value::Null);
                let item = json!({"type": "message", "id": self.message_id(), "role": "assistant",
                                  "status": "in_progress", "content": []});
                let part = json!({"type": "output_text", "text": "", "annotations": []});
                [
                    self.event("response.created", json!({"response": response})),
                    self.event("response.in_progress", json!({"response": response})),
                    self.event(
                        "response.output_item.added",
                        json!({"output_index": 0, "item": item}),
                    ),
                    self.part_event("response.content_part.added", "part", part),
                ]
                .concat()
            }
            _ => String::new(),
        }
    }

    fn write(&mut self, row: &str) -> String {
        let Some(event) = Event::parse(row) else {
            return String::new();
        };
        match (self.output, event) {
            (Output::ChatCompletion, Event::Text(text)) => {
                self.chunk(json!({"content": text}), None)
            }
            (Output::ChatCompletion, Event::End(end)) => self.end_chat(&end),
            (Output::Response, Event::Text(text)) => {
                self.text.push_str(&text);
                self.part_event("response.output_text.delta", "delta", json!(text))
            }
            (Output::Response, Event::End(end)) => self.end_response(&end),
            (Output::ChatCompletion | Output::Response, Event::Context(_)) => String::new(),
            (_, Event::Context(context)) => named("context", &context),
            (_, Event::Text(text)) => named("text", &json!({"text": text})),
            (_, Event::End(end)) => named("end", &end),
        }
    }

    fn fail(&mut self, problem: &Problem) -> String {
        match self.output {
            Output::ChatCompletion => {
                data(&json!({"error": {"message": problem.detail, "type": "server_error"}}))
            }
            Output::Response => {
                let mut response = self.response("failed", &Value::Null);
                response["error"] = json!({"code": "server_error", "message": problem.detail});
                self.event("response.failed", json!({"response": response}))
            }
            _ => named(
                "error",
                &json!({"status": problem.status.as_u16(), "detail": problem.detail}),
            ),
        }
    }

    fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> String {
        data(&json!({
            "id": format!("chatcmpl-{}", self.id), "object": "chat.completion.chunk",
            "created": self.created, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null,
                         "finish_reason": finish_reason}],
        }))
    }

    fn end_chat(&self, end: &Value) -> String {
        let reason = match end["metadata"]["finish_reason"].as_str() {
            Some("length") => "length",
            _ => "stop",
        };
        let mut text = self.chunk(json!({}), Some(reason));
        if self.wants_usage {
            let tokens = &end["metadata"]["tokens"];
            text.push_str(&data(&json!({
                "id": format!("chatcmpl-{}", self.id), "object": "chat.completion.chunk",
                "created": self.created, "model": self.model, "choices": [],
                "usage": {"prompt_tokens": tokens["input"], "completion_tokens": tokens["output"],
                          "total_tokens": tokens["total"]},
            })));
        }
        text + "data: [DONE]\n\n"
    }

    fn message_id(&self) -> String {
        format!("msg_{}", self.id)
    }

    fn response(&self, status: &str, usage: &Value) -> Value {
        let output = if status == "completed" {
            message(&self.id, &self.text)
        } else {
            json!([])
        };
        response(&self.id, self.created, &self.model, status, output, usage)
    }

    fn event(&mut self, kind: &str, mut value: Value) -> String {
        value["type"] = json!(kind);
        value["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        named(kind, &value)
    }

    fn part_event(&mut self, kind: &str, member: &str, value: Value) -> String {
        let mut event = json!({"item_id": self.message_id(), "output_index": 0,
                               "content_index": 0});
        event[member] = value;
        if kind.starts_with("response.output_text") {
            event["logprobs"] = json!([]);
        }
        self.event(kind, event)
    }

    fn end_response(&mut self, end: &Value) -> String {
        let tokens = &end["metadata"]["tokens"];
        let usage = json!({"input_tokens": tokens["input"], "output_tokens": tokens["output"],
                           "total_tokens": tokens["total"]});
        let response = self.response("completed", &usage);
        let text = json!(self.text);
        let part = json!({"type": "output_text", "text": text, "annotations": []});
        let item = message(&self.id, &self.text)[0].clone();
        [
            self.part_event("response.output_text.done", "text", text),
            self.part_event("response.content_part.done", "part", part),
            self.event(
                "response.output_item.done",
                json!({"output_index": 0, "item": item}),
            ),
            self.event("response.completed", json!({"response": response})),
        ]
        .concat()
    }
}

fn message(id: &str, text: &str) -> Value {
    json!([{
        "type": "message", "id": format!("msg_{id}"), "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }])
}

/// Returns a response of OpenAI's API. What it does not know of a model is null.
fn response(
    id: &str,
    created: u64,
    model: &str,
    status: &str,
    output: Value,
    usage: &Value,
) -> Value {
    let usage = match usage {
        Value::Null => Value::Null,
        tokens => json!({
            "input_tokens": tokens["input_tokens"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens["output_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens["total_tokens"],
        }),
    };
    json!({
        "id": format!("resp_{id}"), "object": "response", "created_at": created, "model": model,
        "status": status, "error": null, "incomplete_details": null, "instructions": null,
        "metadata": {}, "output": output, "parallel_tool_calls": false, "temperature": null,
        "tool_choice": "none", "tools": [], "top_p": null, "usage": usage,
    })
}

/// Returns the response of an answer of `rag_api.response`, all at once.
pub fn whole_response(id: &str, request: &Value, answer: &Value) -> Value {
    let created = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut response = response(
        id,
        created.map_or(0, |time| time.as_secs()),
        request["model"].as_str().unwrap_or("rag"),
        "completed",
        message(id, answer["text"].as_str().unwrap_or_default()),
        &answer["usage"],
    );
    response["source_nodes"] = answer["source_nodes"].clone();
    response
}

/// Returns true if a request wants its answer in pieces.
pub fn is_wanted(output: Output, request: &Value) -> bool {
    let can = matches!(
        output,
        Output::Answer | Output::ChatCompletion | Output::Response
    );
    can && request["stream"] == true
}

/// Returns the function that answers in pieces.
pub fn function(output: Output) -> &'static str {
    match output {
        Output::Answer => "answer_stream",
        _ => "chat_stream",
    }
}
