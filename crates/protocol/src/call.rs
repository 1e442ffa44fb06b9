//! A call of a model on another server: what `rag-engine call` reads from its standard input, and
//! the events that it writes to its standard output.
//!
//! The engine reads one [`Call`]. It writes any number of [`CallEvent::Text`], then one of the
//! other events. A stream that ends without that one means that the engine died.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    EngineError,
    ingest::{Credentials, Network},
};

/// What a model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Continues a conversation.
    Chat,
    /// Says how well documents match a query.
    Rerank,
}

impl ModelKind {
    pub const ALL: [Self; 2] = [Self::Chat, Self::Rerank];

    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Rerank => "rerank",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the providers that have models of this kind.
    pub fn providers(self) -> &'static [Provider] {
        match self {
            Self::Chat => &[Provider::OpenAi, Provider::Ollama],
            Self::Rerank => &[Provider::Cohere, Provider::Tei],
        }
    }
}

/// The interface that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// `POST /chat/completions`, which many servers have.
    OpenAi,
    /// `POST /api/chat`.
    Ollama,
    /// `POST /rerank` with `documents`, which many servers have.
    Cohere,
    /// Text Embeddings Inference: `POST /rerank` with `texts`.
    Tei,
}

impl Provider {
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Ollama, Self::Cohere, Self::Tei];

    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Ollama => "ollama",
            Self::Cohere => "cohere",
            Self::Tei => "tei",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|provider| provider.name() == name)
    }

    /// Returns the path of requests below the base URL.
    pub fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "chat/completions",
            Self::Ollama => "api/chat",
            Self::Cohere | Self::Tei => "rerank",
        }
    }
}

/// Keys of a request that `parameters` cannot have: the call itself sets them.
pub const RESERVED_PARAMETERS: [&str; 8] = [
    "model",
    "messages",
    "stream",
    "options",
    "query",
    "documents",
    "texts",
    "tools",
];

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
    /// The answer is complete.
    Answered {
        usage: TokenUsage,
        /// Why the model stopped: `stop`, `length`, ...
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finish_reason: Option<String>,
    },
    /// A score for each document, in their order.
    Scored { scores: Vec<f64>, usage: TokenUsage },
    Failed {
        error: EngineError,
        /// True if a server may have been at work on the answer, and counts its tokens.
        was_sent: bool,
    },
}
