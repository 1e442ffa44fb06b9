//! `rag_answer` and `rag_answer_stream`.

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use serde_json::{Value, json};

use super::{
    required,
    search::{SearchArguments, notify_degraded, own_schema},
};
use crate::{
    answers::{self, AnswerPart, ChatModel, Question, RunningAnswer},
    catalog::name::canonical,
    error::Error,
    pg::{calls::CallInfo, compat, json::JsonbText},
    search::rerank::search_and_rerank,
    settings,
};

/// The maximum of `n_results`.
const MAX_RESULTS: i32 = 100;

/// The arguments of both functions.
struct AnswerArguments<'a> {
    query: Option<&'a str>,
    conversation_history: Option<JsonbText>,
    context: Option<JsonbText>,
    n_results: Option<i32>,
    collection: Option<&'a str>,
    mode: Option<&'a str>,
    filter: Option<JsonbText>,
    model: Option<&'a str>,
    rerank: Option<&'a str>,
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
    fn begin(self, call: &CallInfo) -> Result<BegunAnswer, Error> {
        let parsed = |name: &str, json: Option<JsonbText>| {
            let parsed = json.map(|json| json.parse()).transpose();
            parsed.map_err(|e| Error::invalid_parameter(format!("{name}: {e}")))
        };
        let question = Question::new(
            required("query", self.query)?,
            parsed("conversation_history", self.conversation_history)?.as_ref(),
            parsed("context", self.context)?.as_ref(),
        )?;
        let n_results = required("n_results", self.n_results)?;
        if !(1..=MAX_RESULTS).contains(&n_results) {
            return Err(Error::invalid_parameter(format!(
                "n_results must be between 1 and {MAX_RESULTS}, not {n_results}"
            )));
        }
        let chat = ChatModel::find(&model_name(self.model)?)?;
        let search_query = question.search_query();
        let mut request = SearchArguments {
            query: Some(&search_query),
            collection: self.collection,
            top_k: Some(n_results),
            mode: self.mode,
            filter: self.filter,
            score_threshold: None,
            vector_weight: None,
            keyword_weight: None,
            fusion: None,
            per_document: None,
            neighbours: None,
            mmr_lambda: None,
            query_embedding: None,
        }
        .into_request()?;
        let found = search_and_rerank(&mut request, self.rerank, &own_schema(call))?;
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

fn model_name(given: Option<&str>) -> Result<String, Error> {
    let name = given.map(str::to_owned).or_else(settings::chat_model);
    let name = name.ok_or_else(|| {
        Error::invalid_parameter("no chat model is given")
            .hint("Name one in the argument model, or set rag.chat_model.")
    })?;
    Ok(canonical(&name).to_owned())
}

/// Who answers, as in the responses of agents.
const AGENT_TYPE: &str = "rag";

#[pg_extern(volatile, cost = 100000)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_answer(
    query: Option<&str>,
    conversation_history: pgrx::default!(Option<JsonbText>, "NULL"),
    context: pgrx::default!(Option<JsonbText>, "NULL"),
    n_results: pgrx::default!(Option<i32>, "5"),
    collection: pgrx::default!(Option<&str>, "'default'"),
    mode: pgrx::default!(Option<&str>, "NULL"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    model: pgrx::default!(Option<&str>, "NULL"),
    rerank: pgrx::default!(Option<&str>, "NULL"),
    call: CallInfo,
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
        conversation_history,
        context,
        n_results,
        collection,
        mode,
        filter,
        model,
        rerank,
    }
    .begin(&call)?;
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
    conversation_history: pgrx::default!(Option<JsonbText>, "NULL"),
    context: pgrx::default!(Option<JsonbText>, "NULL"),
    n_results: pgrx::default!(Option<i32>, "5"),
    collection: pgrx::default!(Option<&str>, "'default'"),
    mode: pgrx::default!(Option<&str>, "NULL"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    model: pgrx::default!(Option<&str>, "NULL"),
    rerank: pgrx::default!(Option<&str>, "NULL"),
    call: CallInfo,
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
        conversation_history,
        context,
        n_results,
        collection,
        mode,
        filter,
        model,
        rerank,
    }
    .begin(&call)?;
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
