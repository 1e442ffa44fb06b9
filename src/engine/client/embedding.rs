//! Embeddings of any number of texts.
//!
//! The engine accepts a limited number of texts of a client at a time. So only some of them are
//! sent ahead, and the others follow as replies arrive.

use std::collections::VecDeque;

use rag_protocol::{
    call::Purpose,
    embed::{Answer, MAX_TEXT, ModelInfo, ModelRef, Priority, Task},
};

use super::{Client, parts::parts, unexpected};
use crate::error::Error;

/// The number of requests that are sent ahead. A run has three batches in flight, whose texts
/// together stay below what the engine accepts of a client: 64 requests and 4,096 texts.
const REQUESTS_AHEAD: usize = 8;

/// The embeddings of some texts.
pub struct Embeddings {
    pub model: ModelInfo,
    pub vectors: Vec<Vec<f32>>,
    /// Number of tokens of each text, a lower bound for long texts. Only the first
    /// `model.max_tokens` are embedded.
    pub tokens: Vec<usize>,
}

/// Texts that are being embedded.
pub struct EmbeddingTicket {
    model: ModelRef,
    priority: Priority,
    /// What the engine adds the model's prompt for.
    purpose: Option<Purpose>,
    /// The ids of the requests whose replies were not taken yet.
    sent: VecDeque<u64>,
    /// The texts of the requests that follow.
    unsent: VecDeque<Vec<String>>,
}

impl Client {
    /// # Errors
    /// See [`with_client`](super::with_client).
    pub fn embed(
        &mut self,
        model: &ModelRef,
        priority: Priority,
        purpose: Option<Purpose>,
        texts: Vec<String>,
    ) -> Result<Embeddings, Error> {
        let ticket = self.start_embedding(model, priority, purpose, texts)?;
        self.finish_embedding(ticket, &mut || Ok(()))
    }

    /// Sends texts to be embedded; other requests may follow before [`Client::finish_embedding`].
    ///
    /// # Errors
    /// See [`with_client`](super::with_client).
    pub fn start_embedding(
        &mut self,
        model: &ModelRef,
        priority: Priority,
        purpose: Option<Purpose>,
        texts: Vec<String>,
    ) -> Result<EmbeddingTicket, Error> {
        if let Some(text) = texts.iter().find(|text| text.len() > MAX_TEXT) {
            return Err(Error::limit("a text is too long to be embedded")
                .detail(format!(
                    "It has {} bytes; the limit is {MAX_TEXT}.",
                    text.len()
                ))
                .hint("Split the text. A model reads only its first part."));
        }
        self.ensure_reached(model)?;
        let mut ticket = EmbeddingTicket {
            model: model.clone(),
            priority,
            purpose,
            sent: VecDeque::new(),
            unsent: parts(texts).into(),
        };
        self.send_ahead(&mut ticket)?;
        Ok(ticket)
    }

    fn send_ahead(&mut self, ticket: &mut EmbeddingTicket) -> Result<(), Error> {
        while ticket.sent.len() < REQUESTS_AHEAD
            && let Some(texts) = ticket.unsent.pop_front()
        {
            let task = Task::Embed {
                priority: ticket.priority,
                purpose: ticket.purpose,
                texts,
            };
            let request = self.send(&ticket.model, task, &[])?;
            ticket.sent.push_back(request.0);
        }
        Ok(())
    }

    /// Waits for the vectors of an embedding request. Calls `tick` each time when some have come.
    ///
    /// # Errors
    /// See [`with_client`](super::with_client). Errors of `tick` are returned, too.
    pub fn finish_embedding(
        &mut self,
        mut ticket: EmbeddingTicket,
        tick: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Embeddings, Error> {
        let mut embeddings: Option<Embeddings> = None;
        while let Some(id) = ticket.sent.pop_front() {
            let (Answer::Embeddings { model, tokens }, payload) = self.receive(id)? else {
                return Err(unexpected());
            };
            self.send_ahead(&mut ticket)?;
            tick()?;
            let floats: Vec<f32> = payload
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect();
            if model.dimensions == 0 || floats.len() != tokens.len() * model.dimensions {
                return Err(unexpected());
            }
            let vectors = floats.chunks_exact(model.dimensions).map(<[f32]>::to_vec);
            match &mut embeddings {
                None => {
                    embeddings = Some(Embeddings {
                        vectors: vectors.collect(),
                        model,
                        tokens,
                    })
                }
                Some(all) if all.model == model => {
                    all.vectors.extend(vectors);
                    all.tokens.extend(tokens);
                }
                Some(_) => {
                    return Err(Error::new(
                        pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                        "the model was replaced while texts were being embedded",
                    )
                    .hint("Repeat the command."));
                }
            }
        }
        embeddings.ok_or_else(unexpected)
    }
}
