//! Requests to `rag-engine embed` and its replies, over a Unix socket.
//!
//! A client may send several requests on one connection before it reads replies. A reply has the
//! `id` of its request, and replies may arrive in another order. Closing the connection drops its
//! queued requests.

use std::path::PathBuf;

use rag_definition::{
    DocumentType,
    model::{PoolingMode, Precision},
};
use serde::{Deserialize, Serialize};

use crate::{
    EngineError, ErrorKind,
    call::Purpose,
    ingest::{Content, NamedPlace, Splitting, Title},
};

/// Names a model. The engine loads it on first use and keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// A sentence-transformers folder: the graphs, `tokenizer.json`, `config.json`, and pooling
    /// configuration.
    pub dir: PathBuf,
    pub precision: Precision,
    #[serde(default, skip_serializing_if = "ModelOptions::is_default")]
    pub options: ModelOptions,
}

/// What replaces the settings in the folder of a model. None leaves them as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelOptions {
    /// Keeps only the first elements of a vector. Only models that were trained for it allow that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<PoolingMode>,
    /// False leaves vectors as long as the model returns them. The default is length 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalize: Option<bool>,
    /// Maximum number of tokens of a text, special tokens included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// True for a model that embeds texts, and whose vectors of tokens score documents.
    #[serde(skip_serializing_if = "is_false")]
    pub compares_tokens: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl ModelOptions {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the tokens of a chunk are counted, so that it is not longer than its model reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRule {
    /// A folder with `tokenizer.json`. None: the tokens are estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// Maximum number of tokens of a text, special tokens included. None: as the folder says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// What the model reads before each chunk. None: as the folder says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// What a model reads before a text, as its folder says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompts {
    pub query: String,
    pub passage: String,
}

impl Prompts {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn of(&self, purpose: Purpose) -> &str {
        match purpose {
            Purpose::Query => &self.query,
            Purpose::Passage => &self.passage,
        }
    }
}

/// The properties of a loaded model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The folder's name.
    pub name: String,
    /// Length of an embedding.
    pub dimensions: usize,
    /// Maximum number of tokens of a text, special tokens included. The model ignores the rest.
    pub max_tokens: usize,
    /// None: the model is on another server.
    pub precision: Option<Precision>,
    /// BLAKE3 hex of graph, tokenizer and pooling: equal fingerprints give equal vectors.
    pub fingerprint: String,
    /// BLAKE3 hex of weights, tokenizer and pooling, equal for both precisions. Vectors of models
    /// with one identity can be compared.
    pub identity: String,
    /// Mean cosine similarity of texts that have nothing to do with each other, 0 to 1.
    pub baseline: f32,
    /// Not part of the hashes.
    #[serde(default, skip_serializing_if = "Prompts::is_empty")]
    pub prompts: Prompts,
}

/// Queries are answered between two slices of bulk work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// For a search.
    Query,
    /// For a sync or a document that is added.
    Bulk,
}

/// The database and role of a client. The engine serves parties in turn, however many clients each
/// has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Party {
    /// OIDs.
    pub database: u32,
    pub role: u32,
}

/// Maximum size of a text in bytes: hundreds of times the input of any supported model.
pub const MAX_TEXT: usize = 4 << 20;
/// Maximum size of a document in bytes.
pub const MAX_DOCUMENT: usize = 64 << 20;

/// Returns the error for a document of more than [`MAX_DOCUMENT`] bytes.
pub fn too_large(bytes: usize) -> EngineError {
    EngineError::new(ErrorKind::LimitExceeded, "the document is too large").detail(format!(
        "It has {bytes} bytes, and the limit is {MAX_DOCUMENT} bytes."
    ))
}

/// Maximum number of texts that the server puts into one request. Many small requests can be
/// canceled and served in turn.
pub const REQUEST_TEXTS: usize = 128;
/// Maximum size of these texts together. A larger text has a request of its own.
pub const REQUEST_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the client and repeated in the reply.
    pub id: u64,
    pub model: ModelRef,
    #[serde(flatten)]
    pub task: Task,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Task {
    /// Embeds the texts. The answer is [`Answer::Embeddings`].
    Embed {
        priority: Priority,
        /// None: the texts are read as they are, without a prompt of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        purpose: Option<Purpose>,
        texts: Vec<String>,
    },
    /// Scores how well documents match a query: by a model that reads both together, or with
    /// [`ModelOptions::compares_tokens`] by the vectors of their tokens. The answer is
    /// [`Answer::Scores`].
    Score {
        priority: Priority,
        query: String,
        documents: Vec<String>,
    },
    /// Counts the tokens of the texts. The answer is [`Answer::Tokens`].
    Count {
        texts: Vec<String>,
        /// None: the request's model counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<TokenRule>,
    },
    /// Sets the party of the following requests. There is no answer.
    Introduce { party: Party },
    /// Ends the process. It was started without access to the folder of the request's model; the
    /// supervisor starts a new one with all folders that the server knows. There is no answer.
    Leave,
    /// Loads the model. The answer is [`Answer::Model`].
    Describe,
    /// Extracts and splits the document in the payload. The answer is [`Answer::Content`].
    Prepare {
        /// A name of [`DocumentType`]. `None`: the name and the first bytes of the
        /// document determine the type.
        document_type: Option<String>,
        /// The name, path or address of a file. `None`: the bytes are text in UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        splitting: Splitting,
        /// Replaces the document's own title.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// None: the request's model counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<TokenRule>,
    },
    /// Splits the text in the payload, which was extracted before. The answer is
    /// [`Answer::Content`], without metadata.
    Split {
        text: StoredText,
        splitting: Splitting,
        /// None: the request's model counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<TokenRule>,
    },
}

/// What the splitter needs to know of a text that was extracted before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredText {
    pub document_type: DocumentType,
    /// The name, path or address of the file. `None`: the text was given without a file.
    pub name: Option<String>,
    pub title: Title,
    /// Number of lines of the file before the text.
    pub lines_before: u32,
    /// See [`Content::anchors`](crate::ingest::Content::anchors).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<NamedPlace>,
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
    /// The payload has `tokens.len() * model.dimensions` f32 values, little-endian, in the order of
    /// the texts. Vectors have length 1, unless [`ModelOptions::normalize`] is false.
    Embeddings {
        model: ModelInfo,
        /// Tokens of each text, special tokens included, before any truncation.
        tokens: Vec<usize>,
    },
    /// The payload has `tokens.len()` f32 values, little-endian, in the order of the documents:
    /// the larger, the better. They are what the model returns, of any size (logits), or -1 to 1
    /// with [`ModelOptions::compares_tokens`].
    Scores {
        model: ModelInfo,
        /// Tokens of each pair or document, special tokens included, before any truncation.
        tokens: Vec<usize>,
    },
    /// Tokens of each text, without special tokens.
    Tokens {
        tokens: Vec<usize>,
    },
    Model {
        model: ModelInfo,
    },
    /// The payload is the extracted text, UTF-8.
    Content {
        content: Content,
    },
    Error {
        error: EngineError,
    },
}
