//! `rag_answer` and `rag_answer_stream`.

use std::slice;

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use serde_json::{Value, json};

use super::{
    required,
    search::{SearchArguments, notify_degraded},
};
use crate::{
    answers::{self, AnswerPart, ChatModel, Question, RunningAnswer},
    catalog::name::canonical,
    error::Error,
    pg::{compat, json::JsonbText},
    search::rerank::search_and_rerank,
    settings,
};

/// The number of chunks for the model where the caller names none.
const DEFAULT_RESULTS: i32 = 5;
/// The maximum number of chunks for the model.
const MAX_RESULTS: usize = 100;

/// The arguments of both functions.
struct AnswerArguments<'a> {
    query: Option<&'a str>,
    collection: Option<&'a str>,
    top_k: Option<i32>,
    mode: Option<&'a str>,
    filter: Option<JsonbText>,
    settings: Option<JsonbText>,
    model: Option<&'a str>,
    conversation_history: Option<JsonbText>,
    context: Option<JsonbText>,
}

/// An answer that has begun.
struct BegunAnswer {
    running: RunningAnswer,
    context_used: Value,
    model: String,
    provider: &'static str,
}

impl AnswerArguments<'_> {
    /// Searches, and asks the model.
    fn begin(self) -> Result<BegunAnswer, Error> {
        let parsed = |name: &str, json: Option<JsonbText>| {
            let parsed = json.map(|json| json.parse()).transpose();
            parsed.map_err(|e| Error::invalid_parameter(format!("{name}: {e}")))
        };
        let question = Question::new(
            required("query", self.query)?,
            parsed("conversation_history", self.conversation_history)?.as_ref(),
            parsed("context", self.context)?.as_ref(),
        )?;
        let chat = chat_model(self.model)?;
        let search_query = question.search_query();
        let mut request = SearchArguments {
            query: Some(&search_query),
            collection: self.collection,
            top_k: self.top_k,
            default_top_k: Some(DEFAULT_RESULTS),
            mode: self.mode,
            filter: self.filter,
            settings: self.settings,
            query_embedding: None,
        }
        .into_request()?;
        if request.top_k > MAX_RESULTS {
            return Err(Error::invalid_parameter(format!(
                "top_k must be between 1 and {MAX_RESULTS}, not {}",
                request.top_k
            )));
        }
        let found = search_and_rerank(slice::from_mut(&mut request))?;
        if let Some(why) = &found.degraded {
            notify_degraded(&request, found.mode, why);
        }
        Ok(BegunAnswer {
            running: answers::begin(&chat, question, &found.hits)?,
            context_used: answers::context_used(&found.hits),
            model: chat.remote_name().to_owned(),
            provider: chat.provider(),
        })
    }
}

fn chat_model(given: Option<&str>) -> Result<ChatModel, Error> {
    if let Some(name) = given {
        return ChatModel::find(canonical(name));
    }
    let name = settings::chat_model().ok_or_else(|| {
        Error::invalid_parameter("no chat model is given")
            .hint("Name one in the argument model, or set rag.chat_model.")
    })?;
    ChatModel::of_setting(canonical(&name))
}

/// Who answers, as in the responses of agents.
const AGENT_TYPE: &str = "rag";

#[pg_extern(volatile, cost = 100000)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_answer(
    query: Option<&str>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    top_k: pgrx::default!(Option<i32>, "NULL"),
    mode: pgrx::default!(Option<&str>, "NULL"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    settings: pgrx::default!(Option<JsonbText>, "NULL"),
    model: pgrx::default!(Option<&str>, "NULL"),
    conversation_history: pgrx::default!(Option<JsonbText>, "NULL"),
    context: pgrx::default!(Option<JsonbText>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(message, String),
            name!(context_used, JsonB),
            name!(model, String),
            name!(provider, String),
            name!(agent_type, String),
            name!(metadata, JsonB),
        ),
    >,
    ErrorReport,
> {
    let mut begun = AnswerArguments {
        query,
        collection,
        top_k,
        mode,
        filter,
        settings,
        model,
        conversation_history,
        context,
    }
    .begin()?;
    let mut message = String::new();
    let mut metadata = Value::Null;
    while let Some(part) = begun.running.next()? {
        match part {
            AnswerPart::Text(text) => message.push_str(&text),
            AnswerPart::End(end) => metadata = end.metadata,
        }
    }
    Ok(TableIterator::once((
        message,
        JsonB(begun.context_used),
        begun.model,
        begun.provider.to_owned(),
        AGENT_TYPE.to_owned(),
        JsonB(metadata),
    )))
}

#[pg_extern(volatile, cost = 100000)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_answer_stream(
    query: Option<&str>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    top_k: pgrx::default!(Option<i32>, "NULL"),
    mode: pgrx::default!(Option<&str>, "NULL"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    settings: pgrx::default!(Option<JsonbText>, "NULL"),
    model: pgrx::default!(Option<&str>, "NULL"),
    conversation_history: pgrx::default!(Option<JsonbText>, "NULL"),
    context: pgrx::default!(Option<JsonbText>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(event, String),
            name!(text, Option<String>),
            name!(data, Option<JsonB>),
        ),
    >,
    ErrorReport,
> {
    let begun = AnswerArguments {
        query,
        collection,
        top_k,
        mode,
        filter,
        settings,
        model,
        conversation_history,
        context,
    }
    .begin()?;
    let BegunAnswer {
        mut running,
        context_used,
        model,
        provider,
    } = begun;
    let first = ("context".to_owned(), None, Some(JsonB(context_used)));
    let parts = std::iter::from_fn(move || {
        // the client gets the rows so far while this one is awaited
        compat::flush_to_client();
        let part = running.next().unwrap_or_else(|error| error.raise())?;
        Some(match part {
            AnswerPart::Text(text) => ("text".to_owned(), Some(text), None),
            AnswerPart::End(end) => {
                let data = json!({
                    "model": model,
                    "provider": provider,
                    "agent_type": AGENT_TYPE,
                    "metadata": end.metadata,
                });
                ("end".to_owned(), None, Some(JsonB(data)))
            }
        })
    });
    Ok(TableIterator::new(std::iter::once(first).chain(parts)))
}
