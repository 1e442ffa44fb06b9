//! A call of a model on another server: what `rag-engine call` reads from its standard input, and
//! the events that it writes to its standard output.
//!
//! The engine reads one [`Call`]. It writes any number of [`CallEvent::Text`],
//! [`CallEvent::Embedded`] or [`CallEvent::Refused`], then one of the other events. A stream that
//! ends without that one means that the engine died.

use rag_definition::model::Provider;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    EngineError,
    ingest::{Credentials, Network},
};

/// The maximum number of documents of a request to rerank that Text Embeddings Inference accepts
/// as installed.
pub const TEI_DOCUMENTS: usize = 32;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The name of the model in the database, for messages.
    pub name: String,
    pub provider: Provider,
    /// An `http://` or `https://` URL without query.
    pub base_url: String,
    /// The name of the model at its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Further keys of the request. One that is `null` removes the key.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// For the server of `base_url`.
    pub credentials: Option<Credentials>,
    pub network: Network,
    /// Limit of the whole call, with all attempts.
    pub timeout_ms: u64,
    pub request: CallRequest,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum CallRequest {
    Chat {
        messages: Vec<ChatMessage>,
        max_tokens: u32,
        temperature: f64,
        /// Asks for the answer in pieces.
        stream: bool,
    },
    Rerank {
        query: String,
        documents: Vec<String>,
    },
    Embed {
        /// With their prefixes.
        texts: Vec<String>,
        purpose: Purpose,
        /// The number of dimensions that the server is asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dimensions: Option<usize>,
        /// Scales vectors to length 1.
        normalize: bool,
        /// The maximum number of texts of a request.
        batch: usize,
        /// The maximum number of requests at the same time.
        concurrency: usize,
        /// Limit of each request, with all attempts.
        request_timeout_ms: u64,
    },
}

impl CallRequest {
    /// Returns the path of requests below the base URL.
    pub fn path(&self, provider: Provider) -> &'static str {
        match (self, provider) {
            (Self::Chat { .. }, Provider::Ollama) => "api/chat",
            (Self::Chat { .. }, _) => "chat/completions",
            (Self::Rerank { .. }, _) => "rerank",
            (Self::Embed { .. }, Provider::Ollama) => "api/embed",
            (Self::Embed { .. }, Provider::Cohere | Provider::Tei) => "embed",
            (Self::Embed { .. }, _) => "embeddings",
        }
    }

    /// Returns the number of requests that are sent if none is repeated.
    pub fn requests(&self, provider: Provider) -> usize {
        match (self, provider) {
            (Self::Embed { texts, batch, .. }, _) => texts.len().div_ceil((*batch).max(1)),
            (Self::Rerank { documents, .. }, Provider::Tei) => {
                documents.len().div_ceil(TEI_DOCUMENTS)
            }
            _ => 1,
        }
    }
}

/// What a text is embedded for. Models may read a prefix before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Query,
    Passage,
}

impl Purpose {
    pub const ALL: [Self; 2] = [Self::Query, Self::Passage];

    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Passage => "passage",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.name() == name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    pub role: Role,
    pub content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::User, Self::Assistant, Self::System];

    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The tokens that a server has counted. `None` if it does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    pub input: Option<u64>,
    pub output: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum CallEvent {
    /// The next piece of a chat model's answer.
    Text { text: String },
    /// A chat model has thought. Its thoughts are no part of the answer.
    Thought { bytes: usize },
    /// The answer is complete.
    Answered {
        /// Without the tokens of former events.
        usage: TokenUsage,
        /// Why the model stopped: `stop`, `length`, ...
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finish_reason: Option<String>,
    },
    /// A score for each document, in their order.
    Scored { scores: Vec<f64>, usage: TokenUsage },
    /// The vectors of some texts. The payload has their elements, as f32, little-endian.
    Embedded {
        /// The place of the first of these texts.
        first: usize,
        count: usize,
        #[serde(skip)]
        vectors: Vec<f32>,
        usage: TokenUsage,
    },
    /// The server refuses a text, and accepts others.
    Refused { place: usize, error: EngineError },
    Failed {
        error: EngineError,
        /// True if a server may have been at work on the answer, and counts its tokens.
        was_sent: bool,
    },
}
