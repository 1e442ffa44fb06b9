//! Requests to `rag-engine embed` and its replies, over a Unix socket.
//!
//! A client may have several requests under way on one connection; a reply carries the `id` of its
//! request, and replies may overtake each other. Closing the connection drops whatever is still
//! queued for it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    EngineError, ErrorKind,
    ingest::{Content, Splitting},
};

/// Which of a model's two graphs is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// `model.onnx`, 32-bit floats.
    Fp32,
    /// `model_int8.onnx`, 8-bit weights with one scale per output channel.
    Int8,
}

impl Precision {
    /// The file of this precision's graph in a model's folder.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Fp32 => "model.onnx",
            Self::Int8 => "model_int8.onnx",
        }
    }
}

/// A model as a client names it. The engine loads it on first use and keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// A sentence-transformers folder: the graphs, `tokenizer.json`, `config.json`, and pooling
    /// configuration.
    pub dir: PathBuf,
    pub precision: Precision,
}

/// What a loaded model is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The folder's name.
    pub name: String,
    /// Length of an embedding.
    pub dimensions: usize,
    /// The most tokens a text may have, special tokens included; what exceeds them is not seen by
    /// the model.
    pub max_tokens: usize,
    /// BLAKE3 hex over graph, tokenizer and pooling: equal fingerprints give equal vectors.
    pub fingerprint: String,
    /// BLAKE3 hex over weights, tokenizer and pooling, the same for each precision: vectors of
    /// models of one identity can be compared.
    pub identity: String,
}

/// Who goes first. Queries are answered between two slices of bulk work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Somebody waits for a search.
    Query,
    /// A sync, or a document being added.
    Bulk,
}

/// For whom a client asks. The engine serves parties in turn, however many clients each has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Party {
    /// OIDs.
    pub database: u32,
    pub role: u32,
}

/// The longest text that is embedded, in bytes: hundreds of times what any supported model sees.
pub const MAX_TEXT: usize = 4 << 20;
/// The largest document that is prepared, in bytes.
pub const MAX_DOCUMENT: usize = 64 << 20;

/// The error for a document of more than [`MAX_DOCUMENT`] bytes.
pub fn too_large(bytes: usize) -> EngineError {
    EngineError::new(ErrorKind::LimitExceeded, "the document is too large").detail(format!(
        "It has {bytes} bytes; the limit is {MAX_DOCUMENT}."
    ))
}

/// Texts of one request, as clients of the server send them: many small requests can be cancelled,
/// and served in turn.
pub const REQUEST_TEXTS: usize = 128;
/// Bytes of their texts. A text that is longer is one of its own.
pub const REQUEST_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the client, echoed in the reply.
    pub id: u64,
    pub model: ModelRef,
    #[serde(flatten)]
    pub task: Task,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Task {
    /// Embed each text; answered by [`Answer::Embeddings`].
    Embed {
        priority: Priority,
        texts: Vec<String>,
    },
    /// Say for whom the requests are that follow. Not answered.
    Introduce { party: Party },
    /// End, so that a new process is started, with the folders of models that the server knows by
    /// then: this one was started without the one of the request. Not answered.
    Leave,
    /// Load the model and tell what it is; answered by [`Answer::Model`].
    Describe,
    /// Extract and split one document; its bytes are the payload. Answered by [`Answer::Content`].
    Prepare {
        /// One of the words of [`crate::ingest::DocumentType`]; `None`: it is told by the name and
        /// the first bytes.
        document_type: Option<String>,
        /// Of a file, its name, path or address. `None`: the bytes are a text in UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        splitting: Splitting,
        /// Its title, in the place of the one that it gives itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub id: u64,
    #[serde(flatten)]
    pub answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The payload holds `tokens.len() * model.dimensions` f32 values, little-endian, a text after
    /// another in the order of the request. Vectors have length 1.
    Embeddings {
        model: ModelInfo,
        /// Tokens of each text, special tokens included, before any truncation.
        tokens: Vec<usize>,
    },
    Model {
        model: ModelInfo,
    },
    /// The payload is the extracted text, UTF-8.
    Content {
        model: ModelInfo,
        content: Content,
    },
    Error {
        error: EngineError,
    },
}
