//! Embeddings that were asked for.

use super::{cache::CachePlaces, remote::RemoteCall, unexpected};
use crate::{
    engine::client::{Embeddings, Ticket},
    error::Error,
};

/// What was sent for the texts.
pub enum Request {
    Local(Ticket),
    Remote(Box<RemoteCall>),
}

/// The embeddings of all texts, in their order.
pub struct FinishedEmbeddings {
    /// The fingerprint of the model that computed them. None: there were no texts.
    pub fingerprint: Option<String>,
    pub vectors: Vec<Vec<f32>>,
}

/// Texts that are being embedded.
pub struct PendingEmbeddings {
    /// The number of texts.
    pub texts: usize,
    /// Where they are cached.
    pub places: CachePlaces,
    /// None: there are no texts.
    pub request: Option<Request>,
}

impl PendingEmbeddings {
    /// Returns the embeddings of all texts, in their order.
    ///
    /// # Errors
    /// One is missing.
    pub fn merge(self, answer: Option<Embeddings>) -> Result<FinishedEmbeddings, Error> {
        let (fingerprint, vectors) = match answer {
            Some(answer) => (Some(answer.model.fingerprint), answer.vectors),
            None => (None, vec![]),
        };
        match vectors.len() == self.texts {
            true => Ok(FinishedEmbeddings {
                fingerprint,
                vectors,
            }),
            false => Err(unexpected()),
        }
    }
}
