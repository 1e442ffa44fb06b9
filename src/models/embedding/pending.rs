//! Embeddings that were asked for, and those that were cached.

use rag_protocol::identity::EmbeddingKey;

use super::{EmbeddingInput, remote::RemoteCall, unexpected};
use crate::{
    engine::client::{Embeddings, Ticket},
    error::Error,
};

/// What was sent for the texts that are not cached.
pub enum Request {
    Local(Ticket),
    Remote(RemoteCall),
}

/// The embeddings of all texts, in their order.
pub struct FinishedEmbeddings {
    /// The fingerprint of the model that computed some of them. None: all were cached.
    pub fingerprint: Option<String>,
    pub vectors: Vec<Vec<f32>>,
}

/// Texts that are being embedded.
pub struct PendingEmbeddings {
    /// Those that are not sent yet.
    texts: Vec<String>,
    /// The keys of the texts that were sent, in their order.
    sent: Vec<Option<EmbeddingKey>>,
    pub request: Option<Request>,
}

impl PendingEmbeddings {
    pub fn new(inputs: Vec<EmbeddingInput>) -> Self {
        let (sent, texts) = inputs
            .into_iter()
            .map(|input| (input.key, input.text))
            .unzip();
        Self {
            texts,
            sent,
            request: None,
        }
    }

    /// Returns the texts that have to be embedded, as the model reads them.
    pub fn take_missing(&mut self, prepared: impl Fn(String) -> String) -> Vec<String> {
        let texts = std::mem::take(&mut self.texts);
        texts.into_iter().map(prepared).collect()
    }

    /// Caches vectors of the texts that were sent, from one of them on.
    pub fn keep(&self, _first: usize, _vectors: &[Vec<f32>]) {}

    /// Returns the embeddings of all texts, in their order.
    ///
    /// # Errors
    /// One is missing.
    pub fn merge(self, answer: Option<Embeddings>) -> Result<FinishedEmbeddings, Error> {
        let (fingerprint, vectors) = match answer {
            Some(answer) => (Some(answer.model.fingerprint), answer.vectors),
            None => (None, vec![]),
        };
        match vectors.len() == self.sent.len() {
            true => Ok(FinishedEmbeddings {
                fingerprint,
                vectors,
            }),
            false => Err(unexpected()),
        }
    }
}
