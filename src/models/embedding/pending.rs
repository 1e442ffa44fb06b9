//! Embeddings that were asked for.

use super::{cache::CachePlaces, nodes::Share, remote::RemoteCall};
use crate::{engine::client::EmbeddingTicket, error::Error};

/// What was sent for the texts.
pub enum Request {
    Local(Box<EmbeddingTicket>),
    Remote(Box<RemoteCall>),
}

/// The embeddings of all texts, in their order.
#[derive(Default)]
pub struct FinishedEmbeddings {
    /// The fingerprint of the model that computed them. None: there were no texts.
    pub fingerprint: Option<String>,
    /// An error tells why a server refuses a text.
    pub vectors: Vec<Result<Vec<f32>, Error>>,
}

/// Texts that are being embedded.
pub struct PendingEmbeddings {
    /// The number of texts.
    pub texts: usize,
    /// Where they are cached.
    pub places: CachePlaces,
    /// None: there are no texts.
    pub request: Option<Request>,
    /// The last texts, which other servers embed.
    pub shares: Vec<Share>,
}
