//! The single thread that runs models, one slice of texts at a time.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use rag_protocol::{EngineError, embed::Answer};

use super::{
    model::Model,
    replies::{Ticket, internal},
    scheduler::{SLICE, Scheduler},
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
    /// The remaining texts, shortest first. Slices are taken from the end, so that each has texts
    /// of similar length.
    left: Vec<(usize, Tokens)>,
    /// One vector or score for each text, in the order of the request.
    vectors: Vec<f32>,
}

/// The text that others are compared with, token by token.
#[derive(Debug)]
enum Query {
    Tokenized(Tokens),
    Embedded(TokenVectors),
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
            query: query.map(Query::Tokenized),
            counts,
            left,
            vectors,
        }
    }

    pub fn is_finished(&self) -> bool {
        self.left.is_empty()
    }

    fn run_slice(&mut self) -> Result<(), EngineError> {
        let slice = self.left.split_off(self.left.len().saturating_sub(SLICE));
        let texts: Vec<&Tokens> = slice.iter().map(|(_, text)| text).collect();
        let dimensions = self.model.width();
        let vectors = match &mut self.query {
            None => self.model.run(&texts)?,
            Some(query) => compare(&self.model, query, &texts)?,
        };
        for ((at, _), vector) in slice.iter().zip(vectors.chunks_exact(dimensions)) {
            self.vectors[at * dimensions..(at + 1) * dimensions].copy_from_slice(vector);
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
        let answer = match self.model.is_scorer() {
            true => Answer::Scores { model, tokens },
            false => Answer::Embeddings { model, tokens },
        };
        self.ticket.answer(answer, &payload);
    }
}

/// Returns how well each text matches the query.
fn compare(model: &Model, query: &mut Query, texts: &[&Tokens]) -> Result<Vec<f32>, EngineError> {
    if let Query::Tokenized(tokens) = query {
        *query = Query::Embedded(model.token_vectors(tokens)?);
    }
    let Query::Embedded(query) = query else {
        return Ok(vec![]);
    };
    let score = |text: &&Tokens| Ok(query.best_matches(&model.token_vectors(text)?));
    texts.iter().map(score).collect()
}

/// Serves the queue for the life of the process.
pub fn serve(scheduler: &Scheduler<EmbedTask>) -> ! {
    loop {
        let mut turn = scheduler.next();
        match catch_unwind(AssertUnwindSafe(|| turn.task.run_slice())) {
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
