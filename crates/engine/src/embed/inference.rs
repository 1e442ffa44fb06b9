//! The single thread that runs models, one slice of texts at a time. Others help it with the texts
//! of a slice.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use rag_protocol::{EngineError, embed::Answer};

use super::{
    computation::Stop,
    model::Model,
    replies::{Ticket, internal},
    scheduler::Scheduler,
    token_vectors::TokenVectors,
    tokens::Tokens,
};

/// The texts or pairs of one request, tokenized, and their results so far.
#[derive(Debug)]
pub struct EmbedTask {
    model: Arc<Model>,
    ticket: Ticket,
    query: Option<Query>,
    /// Tokens of each text before truncation, in the order of the request.
    counts: Vec<usize>,
    /// The remaining texts, shortest first. They are taken from the end: the longest first, so that
    /// no thread has a long text left when the others are done.
    left: Vec<(usize, Tokens)>,
    /// One vector or score for each text, in the order of the request.
    vectors: Vec<f32>,
}

/// The text that others are compared with, token by token.
#[derive(Debug)]
struct Query {
    tokens: Tokens,
    vectors: Option<TokenVectors>,
}

impl EmbedTask {
    /// `query`: what the texts are compared with, by a model that compares tokens.
    pub fn new(
        model: Arc<Model>,
        query: Option<Tokens>,
        texts: Vec<Tokens>,
        ticket: Ticket,
    ) -> Self {
        let counts = texts.iter().map(|text| text.count).collect();
        let vectors = vec![0.0; texts.len() * model.width()];
        let mut left: Vec<_> = texts.into_iter().enumerate().collect();
        left.sort_by_key(|(_, text)| text.ids.len());
        Self {
            model,
            ticket,
            query: query.map(|tokens| Query {
                tokens,
                vectors: None,
            }),
            counts,
            left,
            vectors,
        }
    }

    pub fn is_finished(&self) -> bool {
        self.left.is_empty()
    }

    /// Works on the remaining texts until `stop` returns true for the number of those that were
    /// begun.
    fn run_slice(&mut self, stop: Stop<'_>) -> Result<(), EngineError> {
        let texts: Vec<&Tokens> = self.left.iter().rev().map(|(_, text)| text).collect();
        let width = self.model.width();
        let vectors = match &mut self.query {
            None => self.model.run_until(&texts, stop)?,
            Some(query) => compare(&self.model, query, &texts, stop)?,
        };
        for vector in vectors.chunks_exact(width) {
            if let Some((at, _)) = self.left.pop() {
                self.vectors[at * width..(at + 1) * width].copy_from_slice(vector);
            }
        }
        Ok(())
    }

    /// Answers the request with all its vectors or scores.
    pub fn finish(mut self) {
        let payload: Vec<u8> = mem::take(&mut self.vectors)
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let model = self.model.info.clone();
        let tokens = mem::take(&mut self.counts);
        let answer = if self.model.is_scorer() {
            Answer::Scores { model, tokens }
        } else {
            Answer::Embeddings { model, tokens }
        };
        self.ticket.answer(answer, &payload);
    }
}

/// Returns how well each text matches the query; the first texts only if `stop` returns true for
/// their number.
fn compare(
    model: &Model,
    query: &mut Query,
    texts: &[&Tokens],
    stop: Stop<'_>,
) -> Result<Vec<f32>, EngineError> {
    let asked = match &mut query.vectors {
        Some(vectors) => vectors,
        none => none.insert(model.token_vectors(&query.tokens)?),
    };
    let score = |text: &TokenVectors| asked.best_matches(text);
    let vectors = model.token_vectors_until(texts, stop)?;
    Ok(vectors.iter().map(score).collect())
}

/// Serves the queue for the life of the process.
pub fn serve(scheduler: &Scheduler<EmbedTask>) -> ! {
    loop {
        let mut turn = scheduler.next();
        let (client, priority) = (turn.client, turn.priority);
        let stop = |texts| scheduler.ends_slice(client, priority, texts);
        match catch_unwind(AssertUnwindSafe(|| turn.task.run_slice(&stop))) {
            Ok(Ok(())) if turn.task.is_finished() => turn.task.finish(),
            Ok(Ok(())) => scheduler.give_back(turn),
            Ok(Err(error)) => {
                tracing::warn!(detail = error.detail.as_deref(), "{error}");
                turn.task.ticket.fail(error);
            }
            Err(panic) => turn.task.ticket.fail(internal(&panic)),
        }
    }
}
