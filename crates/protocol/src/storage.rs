//! A request to a server that searches vectors: what `rag-engine store` reads from its standard
//! input, and the event that it writes to its standard output.
//!
//! Text never goes there. A point has the ids of its chunk and document, the vector, and labels:
//! short texts that filters compare.

use rag_definition::retriever::{IndexOptions, Metric, ServerKind};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{EngineError, ingest::Network};

/// What a server asks for before it answers.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageCredentials {
    /// With a password.
    pub username: Option<String>,
    pub password: Option<String>,
    pub api_key: Option<String>,
}

impl StorageCredentials {
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        [&self.username, &self.password, &self.api_key]
            .into_iter()
            .filter_map(|secret| secret.as_deref())
    }
}

impl std::fmt::Debug for StorageCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StorageCredentials").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageCall {
    /// The name of the retriever, for messages.
    pub retriever: String,
    pub server: ServerKind,
    /// An `http://` or `https://` URL without query.
    pub url: String,
    pub credentials: StorageCredentials,
    pub network: Network,
    /// Limit of the whole call, with all attempts.
    pub timeout_ms: u64,
    pub request: StorageRequest,
}

/// A part of an index on a server: the points of one collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The name of the index, which may have the points of several collections.
    pub index: String,
    pub collection: String,
}

impl Place {
    /// Returns the id of the point of a chunk. Chunk ids of applications may be the same in several
    /// collections.
    pub fn point_id(&self, document: Uuid, chunk: Uuid) -> Uuid {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.collection.len() as u64).to_le_bytes());
        hasher.update(self.collection.as_bytes());
        hasher.update(document.as_bytes());
        hasher.update(chunk.as_bytes());
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        Uuid::from_bytes(bytes)
    }
}

/// How an index is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexShape {
    pub dimensions: usize,
    pub metric: Metric,
    pub options: IndexOptions,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum StorageRequest {
    /// Asks the server who it is.
    Describe,
    /// Replaces the points of some documents. Creates the index if it does not exist.
    Replace {
        place: Place,
        shape: IndexShape,
        documents: Vec<Uuid>,
        points: Vec<Point>,
    },
    /// Deletes the points of a collection. `is_whole`: deletes the index.
    Clear { place: Place, is_whole: bool },
    /// Searches the nearest points.
    Search {
        place: Place,
        vector: Vec<f32>,
        limit: usize,
        ef_search: usize,
        labels: Option<Labelled>,
    },
    /// Counts the points of a collection.
    Count { place: Place },
}

/// The vector of a chunk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub chunk: Uuid,
    pub document: Uuid,
    pub vector: Vec<f32>,
    pub labels: Vec<String>,
}

/// A condition on the labels of a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Labelled {
    All(Vec<Labelled>),
    Any(Vec<Labelled>),
    /// It has one of these labels.
    OneOf(Vec<String>),
}

/// Returns a label that has at most `max` bytes: a text, or the hash of a longer one.
pub fn label(text: String, max: usize) -> String {
    if text.len() <= max {
        text
    } else {
        format!("#{}", blake3::hash(text.as_bytes()).to_hex())
    }
}

/// A point that a search has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPoint {
    pub chunk: Uuid,
    pub document: Uuid,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum StorageEvent {
    /// The name and the version of the server.
    Described {
        server: String,
    },
    /// `created`: the index did not exist before.
    Done {
        created: bool,
    },
    /// The server does not accept one of the points. `created`: as above.
    Refused {
        created: bool,
        error: EngineError,
    },
    /// The nearest first.
    Found {
        points: Vec<FoundPoint>,
    },
    /// The index to search does not exist.
    NoIndex,
    Counted {
        points: u64,
    },
    Failed {
        error: EngineError,
    },
}
