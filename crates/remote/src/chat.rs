//! Conversations: OpenAI's `chat/completions`, as one JSON value or as server-sent events, and
//! Ollama's `api/chat`, as lines of JSON.

mod thoughts;

use rag_definition::model::Provider;
use rag_protocol::{
    EngineError,
    call::{Call, CallEvent, CallRequest, ChatMessage, Role, TokenUsage},
};
use rag_source::http::{Body, HttpError};
use serde_json::{Map, Value, json};

use self::thoughts::{ThoughtFilter, without_thoughts};
use crate::{
    attempt::Attempts,
    failure,
    lines::{LineError, Lines, MAX_BODY},
    request,
};

/// The maximum size of the text of an answer, in bytes.
const MAX_TEXT: usize = 1 << 20;

/// Asks a chat model, and emits its answer in pieces. Returns the last event.
///
/// # Errors
/// There is no whole answer.
pub fn ask(
    attempts: &mut Attempts<'_>,
    emit: &mut dyn FnMut(CallEvent),
) -> Result<CallEvent, EngineError> {
    let call = attempts.call;
    let body = request(call, body(call));
    let response = attempts.send(&body)?;
    let media_type = response
        .header("content-type")
        .unwrap_or_default()
        .to_owned();
    let mut answer = Answer {
        call,
        emit,
        text: 0,
        thoughts: ThoughtFilter::default(),
        finish_reason: None,
        usage: TokenUsage::default(),
        is_complete: false,
    };
    let lines = Lines::new(response.body);
    match call.provider {
        Provider::OpenAi if media_type.trim_start().starts_with("text/event-stream") => {
            answer.read_events(lines)?;
        }
        Provider::OpenAi => answer.read_whole(lines, &media_type)?,
        _ => answer.read_json_lines(lines, &media_type)?,
    }
    answer.end()
}

fn body(call: &Call) -> Map<String, Value> {
    let CallRequest::Chat {
        messages,
        max_tokens,
        temperature,
        stream,
    } = &call.request
    else {
        return Map::new();
    };
    let message = |message: &ChatMessage| {
        let content = match message.role {
            Role::Assistant => without_thoughts(&message.content),
            Role::System | Role::User => message.content.clone(),
        };
        json!({"role": message.role.name(), "content": content})
    };
    let messages: Vec<Value> = messages.iter().map(message).collect();
    let body = match call.provider {
        Provider::Ollama => json!({
            "messages": messages,
            "stream": stream,
            "options": {"temperature": temperature, "num_predict": max_tokens},
        }),
        _ if *stream => json!({
            "messages": messages,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "stream": true,
            "stream_options": {"include_usage": true},
        }),
        _ => json!({
            "messages": messages,
            "temperature": temperature,
            "max_tokens": max_tokens,
        }),
    };
    match body {
        Value::Object(body) => body,
        _ => Map::new(),
    }
}

/// A part of a message.
enum Part<'a> {
    Text(&'a str),
    /// What the model thinks before it answers.
    Thought,
    /// A picture, a call of a tool, ...
    Other,
}

fn part_of(part: &Value) -> Part<'_> {
    let text = |key: &str| part.get(key).and_then(Value::as_str);
    match part.get("type").and_then(Value::as_str) {
        Some("thinking" | "reasoning" | "redacted_thinking") => Part::Thought,
        _ => part
            .as_str()
            .or_else(|| text("text"))
            .or_else(|| text("refusal"))
            .map_or(Part::Other, Part::Text),
    }
}

/// Returns the number of bytes of the texts in a value.
fn text_length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(text_length).sum(),
        Value::Object(members) => {
            let members = members.iter().filter(|(key, _)| *key != "type");
            members.map(|(_, value)| text_length(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// An answer that is being read.
struct Answer<'a> {
    call: &'a Call,
    emit: &'a mut dyn FnMut(CallEvent),
    /// Bytes of text so far, with the thoughts in it.
    text: usize,
    thoughts: ThoughtFilter,
    finish_reason: Option<String>,
    usage: TokenUsage,
    is_complete: bool,
}

impl Answer<'_> {
    fn line(&self, lines: &mut Lines<Body>) -> Result<Option<Vec<u8>>, EngineError> {
        lines.next().map_err(|error| match error {
            LineError::TooLong(what, limit) => failure::too_long(self.call, what, limit),
            LineError::Io(error) => match error.downcast::<HttpError>() {
                Ok(HttpError::Broken { .. } | HttpError::Protocol { .. }) => {
                    failure::broken(self.call)
                }
                Ok(error) => failure::of_http(self.call, &error),
                Err(_) => failure::broken(self.call),
            },
        })
    }

    fn parse(&self, text: &[u8], media_type: &str) -> Result<Value, EngineError> {
        let value = serde_json::from_slice(text).ok().filter(Value::is_object);
        value.ok_or_else(|| {
            let detail = match media_type.split(';').next().map(str::trim) {
                Some(name) if !name.is_empty() && name.len() < 80 => {
                    format!("It is not a JSON object; its type is {name}.")
                }
                _ => "It is not a JSON object.".to_owned(),
            };
            failure::no_answer(self.call, detail)
        })
    }

    /// Parses a piece of an answer. The last one may be incomplete, if the connection ended.
    fn parse_piece(
        &self,
        text: &[u8],
        media_type: &str,
        lines: &mut Lines<Body>,
    ) -> Result<Value, EngineError> {
        let parsed = self.parse(text, media_type);
        if parsed.is_err() && self.text > 0 && !matches!(lines.next(), Ok(Some(_))) {
            return Err(failure::broken(self.call));
        }
        parsed
    }

    /// Reads server-sent events: lines `data: {...}`, and empty lines between events.
    fn read_events(&mut self, mut lines: Lines<Body>) -> Result<(), EngineError> {
        let mut data: Vec<u8> = vec![];
        loop {
            let line = self.line(&mut lines)?;
            let has_ended = line.is_none();
            let line = line.unwrap_or_default();
            if let Some(rest) = line.strip_prefix(b"data:") {
                if !data.is_empty() {
                    data.push(b'\n');
                }
                data.extend(rest.strip_prefix(b" ").unwrap_or(rest));
                if data.len() > MAX_BODY {
                    return Err(failure::too_long(self.call, "An event", MAX_BODY));
                }
            } else if line.is_empty() && !data.is_empty() {
                let event = std::mem::take(&mut data);
                if event == b"[DONE]" {
                    self.is_complete = true;
                    return Ok(());
                }
                let event = self.parse_piece(&event, "", &mut lines)?;
                self.completion(&event, "/choices/0/delta")?;
            }
            if has_ended {
                return Ok(());
            }
        }
    }

    /// Returns the text of the content of a message: a text, or a list of parts.
    ///
    /// # Errors
    /// It has another form, or parts that are no texts alone.
    fn text_of(&mut self, content: &Value) -> Result<String, EngineError> {
        let parts = match content {
            Value::Null => return Ok(String::new()),
            Value::Array(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        let (mut text, mut others) = (String::new(), false);
        for part in parts {
            match part_of(part) {
                Part::Text(part) => text.push_str(part),
                Part::Thought => self.note_thought(text_length(part)),
                Part::Other => others = true,
            }
        }
        if text.is_empty() && others {
            return Err(failure::no_answer(self.call, "Its content has no text."));
        }
        Ok(text)
    }

    /// Reads one JSON value.
    fn read_whole(&mut self, mut lines: Lines<Body>, media_type: &str) -> Result<(), EngineError> {
        let mut text = vec![];
        while let Some(line) = self.line(&mut lines)? {
            text.extend(line);
            text.push(b'\n');
        }
        let whole = self.parse(&text, media_type)?;
        if whole.get("error").is_none() && whole.pointer("/choices/0").is_none() {
            return Err(failure::no_answer(self.call, "It has no choices."));
        }
        self.completion(&whole, "/choices/0/message")?;
        self.is_complete = true;
        Ok(())
    }

    /// Takes a completion, or a piece of one whose text is at `place`.
    fn completion(&mut self, value: &Value, place: &str) -> Result<(), EngineError> {
        if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
            return Err(failure::reported(self.call, error));
        }
        let message = value.pointer(place);
        for key in ["reasoning_content", "reasoning"] {
            let thought = message.and_then(|message| message.get(key));
            self.note_thought(thought.map_or(0, text_length));
        }
        let mut text = |key: &str| match message.and_then(|message| message.get(key)) {
            Some(content) => self.text_of(content),
            None => Ok(String::new()),
        };
        let content = text("content")?;
        if content.is_empty() {
            // a model may refuse instead of answering
            let refusal = text("refusal")?;
            self.push(&refusal)?;
        } else {
            self.push(&content)?;
        }
        if let Some(reason) = value.pointer("/choices/0/finish_reason")
            && let Some(reason) = reason.as_str()
        {
            self.finish_reason = Some(reason.to_owned());
            // some servers send no [DONE]
            self.is_complete = true;
        }
        self.count(
            value.pointer("/usage/prompt_tokens"),
            value.pointer("/usage/completion_tokens"),
        );
        Ok(())
    }

    /// Reads lines of JSON, the last of which says that it is.
    fn read_json_lines(
        &mut self,
        mut lines: Lines<Body>,
        media_type: &str,
    ) -> Result<(), EngineError> {
        while let Some(line) = self.line(&mut lines)? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let value = self.parse_piece(&line, media_type, &mut lines)?;
            if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
                return Err(failure::reported(self.call, error));
            }
            let thought = value.pointer("/message/thinking");
            self.note_thought(thought.map_or(0, text_length));
            if let Some(content) = value.pointer("/message/content") {
                let text = self.text_of(content)?;
                self.push(&text)?;
            }
            self.count(value.get("prompt_eval_count"), value.get("eval_count"));
            if value["done"] == true {
                let reason = value["done_reason"].as_str();
                self.finish_reason = reason.map(str::to_owned);
                self.is_complete = true;
                break;
            }
        }
        Ok(())
    }

    fn count(&mut self, input: Option<&Value>, output: Option<&Value>) {
        let number = |value: Option<&Value>| value.and_then(Value::as_u64);
        self.usage.input = number(input).or(self.usage.input);
        self.usage.output = number(output).or(self.usage.output);
    }

    fn push(&mut self, text: &str) -> Result<(), EngineError> {
        if text.is_empty() {
            return Ok(());
        }
        self.text += text.len();
        if self.text > MAX_TEXT {
            return Err(failure::too_long(self.call, "Its text", MAX_TEXT));
        }
        let shown = self.thoughts.push(text);
        self.show(&shown);
        Ok(())
    }

    fn show(&mut self, text: &str) {
        let thought = self.thoughts.take_left_out();
        self.note_thought(thought);
        if !text.is_empty() {
            // PostgreSQL stores no NUL
            let text = text.replace('\0', "\u{fffd}");
            (self.emit)(CallEvent::Text { text });
        }
    }

    fn note_thought(&mut self, bytes: usize) {
        if bytes > 0 {
            (self.emit)(CallEvent::Thought { bytes });
        }
    }

    fn end(mut self) -> Result<CallEvent, EngineError> {
        if !self.is_complete {
            return Err(failure::broken(self.call));
        }
        let rest = self.thoughts.finish();
        self.show(&rest);
        Ok(CallEvent::Answered {
            usage: self.usage,
            finish_reason: self.finish_reason,
        })
    }
}

#[cfg(test)]
mod tests;
