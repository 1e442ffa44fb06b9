//! Answers of a chat model from what a search finds.
//!
//! ```text
//! query, context ──▶ search ──▶ quoted chunks ─┐
//! conversation ────────────────────────────────┼──▶ model ──▶ pieces ──▶ check of citations
//! template of the model ───────────────────────┘
//! ```
//!
//! The search has the caller's rights, and the model is asked only with what it returned. If
//! nothing was found, the model is not asked, unless its settings say so.

use rag_definition::{
    FieldProblem,
    model::{ModelKind, ModelSpec},
};
use rag_protocol::call::{CallRequest, ChatMessage, Role};
use rag_retrieval::answer::{CitationCheck, CitedNumbers, Entities, conversation, fill, snippet};
use rag_retrieval::context::{QuotedPiece, render_pieces};
use serde_json::{Value, json};

use crate::{
    catalog::models::{self, Model},
    engine::unexpected,
    error::Error,
    models::{
        call::{ModelCall, ModelEvent, Tokens},
        rights,
    },
    pg::roles,
    search::SearchHit,
};

/// What is asked, besides the search.
pub struct Question {
    query: String,
    conversation: Vec<ChatMessage>,
    entities: Entities,
}

impl Question {
    /// # Errors
    /// A value has another type than it must have.
    pub fn new(
        query: &str,
        history: Option<&Value>,
        context: Option<&Value>,
    ) -> Result<Self, Error> {
        if query.trim().is_empty() {
            return Err(Error::invalid_parameter("the query must not be empty"));
        }
        let invalid = |name: &str, problems: &[FieldProblem]| {
            Error::invalid(format!("invalid {name}"), problems)
        };
        let conversation = history.map(conversation).transpose();
        let entities = context.map(Entities::parse).transpose();
        Ok(Self {
            query: query.to_owned(),
            conversation: conversation
                .map_err(|problems| invalid("conversation_history", &problems))?
                .unwrap_or_default(),
            entities: entities
                .map_err(|problems| invalid("context", &problems))?
                .unwrap_or_default(),
        })
    }

    /// Returns what to search for.
    pub fn search_query(&self) -> String {
        self.entities.search_query(&self.query)
    }
}

/// A chat model that the current role may use.
pub struct ChatModel {
    model: Model,
    settings: ModelSpec,
}

impl ChatModel {
    /// # Errors
    /// There is no such model, it is not a chat model, or the current role may not use it.
    pub fn find(name: &str) -> Result<Self, Error> {
        let model = models::find(name)?.ok_or_else(|| models::missing(name))?;
        rights::require_use(&model)?;
        rights::require_kind(&model, ModelKind::Chat)?;
        let settings = model.settings()?;
        Ok(Self { model, settings })
    }

    /// Finds the model of [`settings::chat_model`]. Others may have chosen it, as the owner of the
    /// database can. So a superuser does not use it by being one.
    ///
    /// # Errors
    /// The model cannot be used ([`ChatModel::find`]), or belongs to somebody else, who has not
    /// granted it.
    pub fn of_setting(name: &str) -> Result<Self, Error> {
        let chat = Self::find(name)?;
        if !chat.model.was_granted_to(roles::current()) {
            return Err(Error::permission_denied(format!(
                "rag.chat_model names model \"{name}\", which was not granted to you"
            ))
            .detail(
                "Rights of a superuser do not count for a model that a setting chooses: somebody \
                 else may have set it.",
            )
            .hint(format!(
                "To use the model nevertheless, name it in the argument: model => {}.",
                pgrx::spi::quote_literal(name)
            )));
        }
        Ok(chat)
    }

    /// Returns the name of the model at its server.
    pub fn remote_name(&self) -> &str {
        self.settings.model.as_deref().unwrap_or_default()
    }

    pub fn provider(&self) -> &'static str {
        self.model.provider.name()
    }
}

/// An answer in progress.
pub struct RunningAnswer {
    /// None: the model was not asked, or has answered.
    call: Option<ModelCall>,
    /// What is said without the model.
    text: Option<String>,
    citations: CitationCheck,
    /// The name of the model in the database, its owner, and the address of its server.
    model: String,
    model_owner: String,
    model_server: String,
    search_query: String,
    results: usize,
    /// The rest of a text, when the model has answered.
    end: Option<AnswerEnd>,
}

/// The next part of an answer.
pub enum AnswerPart {
    Text(String),
    End(AnswerEnd),
}

#[derive(Default)]
pub struct AnswerEnd {
    pub metadata: Value,
}

/// Asks the model, or says that nothing was found.
///
/// # Errors
/// The model cannot be called.
pub fn begin(
    chat: &ChatModel,
    question: Question,
    hits: &[SearchHit],
) -> Result<RunningAnswer, Error> {
    let search_query = question.search_query();
    let settings = &chat.settings;
    let is_asked = !hits.is_empty() || settings.answer_without_context;
    let call = if is_asked {
        Some(ModelCall::begin(
            &chat.model,
            settings,
            CallRequest::Chat {
                messages: messages(settings, question, hits),
                max_tokens: settings.max_tokens,
                temperature: settings.temperature,
                stream: settings.stream,
            },
            settings.timeout,
        )?)
    } else {
        None
    };
    Ok(RunningAnswer {
        text: call.is_none().then(|| settings.nothing_found.clone()),
        call,
        citations: CitationCheck::new(hits.len()),
        model: chat.model.name.clone(),
        model_owner: chat.model.owner.name.clone(),
        model_server: chat.settings.base_url.clone(),
        search_query,
        results: hits.len(),
        end: None,
    })
}

fn messages(settings: &ModelSpec, question: Question, hits: &[SearchHit]) -> Vec<ChatMessage> {
    let pieces: Vec<QuotedPiece> = hits
        .iter()
        .map(|hit| QuotedPiece {
            title: hit.title.clone().unwrap_or_else(|| hit.uri.clone()),
            content: hit.content.clone(),
        })
        .collect();
    let instructions = ChatMessage {
        role: Role::System,
        content: fill(&settings.prompt_template, &render_pieces(&pieces)),
    };
    let mut messages = vec![instructions];
    messages.extend(question.conversation);
    messages.push(ChatMessage {
        role: Role::User,
        content: question.query,
    });
    messages
}

/// Returns what the model was given, best first.
pub fn context_used(hits: &[SearchHit]) -> Value {
    let used = hits.iter().map(|hit| {
        json!({
            "title": hit.title,
            "uri": hit.uri,
            "anchor": hit.anchor,
            "score": hit.score,
            "snippet": snippet(&hit.content),
            "document_id": hit.document_id.to_string(),
            "chunk_id": hit.chunk_id.to_string(),
            "citation": hit.citation(),
        })
    });
    used.collect()
}

impl RunningAnswer {
    /// Waits for the next part. The last one is the end.
    ///
    /// # Errors
    /// The model fails.
    pub fn next(&mut self) -> Result<Option<AnswerPart>, Error> {
        if let Some(text) = self.text.take() {
            self.end = Some(self.ended(CitedNumbers::default(), None, Tokens::default()));
            return Ok(Some(AnswerPart::Text(text)));
        }
        while let Some(call) = &mut self.call {
            match call.next()? {
                ModelEvent::Text(text) => {
                    let shown = self.citations.push(&text);
                    if !shown.is_empty() {
                        return Ok(Some(AnswerPart::Text(shown)));
                    }
                }
                ModelEvent::Thought => {}
                ModelEvent::Answered {
                    finish_reason,
                    tokens,
                } => {
                    self.call = None;
                    let check = std::mem::replace(&mut self.citations, CitationCheck::new(0));
                    let (rest, cited) = check.finish();
                    self.end = Some(self.ended(cited, finish_reason, tokens));
                    if !rest.is_empty() {
                        return Ok(Some(AnswerPart::Text(rest)));
                    }
                }
                _ => return Err(unexpected()),
            }
        }
        Ok(self.end.take().map(AnswerPart::End))
    }

    fn ended(
        &self,
        cited: CitedNumbers,
        finish_reason: Option<String>,
        tokens: Tokens,
    ) -> AnswerEnd {
        let metadata = json!({
            "search_query": self.search_query,
            "results_count": self.results,
            "tokens": {
                "input": tokens.input,
                "output": tokens.output,
                "total": tokens.input.saturating_add(tokens.output),
                "estimated": tokens.is_estimated,
            },
            "citations": {"known": cited.known, "unknown": cited.unknown},
            "finish_reason": finish_reason,
            "model_name": self.model,
            "model_owner": self.model_owner,
            "model_server": self.model_server,
        });
        AnswerEnd { metadata }
    }
}
