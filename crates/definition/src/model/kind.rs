//! What models do, and where they run.

use serde::{Deserialize, Serialize};

/// What a model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Turns texts into vectors.
    Embedding,
    /// Continues a conversation.
    Chat,
    /// Says how well documents match a query.
    Rerank,
}

impl ModelKind {
    pub const ALL: [Self; 3] = [Self::Embedding, Self::Rerank, Self::Chat];

    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
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
            Self::Embedding => &[
                Provider::Local,
                Provider::OpenAi,
                Provider::Ollama,
                Provider::Cohere,
                Provider::Tei,
            ],
            Self::Chat => &[Provider::OpenAi, Provider::Ollama],
            Self::Rerank => &[Provider::Local, Provider::Cohere, Provider::Tei],
        }
    }
}

/// Where a model runs: on this server, or on another one that speaks an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// A folder on this server.
    Local,
    /// `POST /chat/completions` and `/embeddings`, which many servers have.
    OpenAi,
    /// `POST /api/chat` and `/api/embed`.
    Ollama,
    /// `POST /rerank` with `documents`, which many servers have, and `/embed` with `texts`.
    Cohere,
    /// Text Embeddings Inference: `POST /rerank` with `texts`, and `/embed` with `inputs`.
    Tei,
}

impl Provider {
    pub const ALL: [Self; 5] = [
        Self::Local,
        Self::OpenAi,
        Self::Ollama,
        Self::Cohere,
        Self::Tei,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
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
}

/// Keys of a request that `parameters` cannot have: the call itself sets them.
pub const RESERVED_PARAMETERS: [&str; 11] = [
    "input_type",
    "model",
    "input",
    "inputs",
    "messages",
    "stream",
    "options",
    "query",
    "documents",
    "texts",
    "tools",
];

/// One of the two graphs of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// `model.onnx`, 32-bit floats.
    Fp32,
    /// `model_int8.onnx`, 8-bit weights with one scale per output channel.
    Int8,
}

impl Precision {
    pub const ALL: [Self; 2] = [Self::Fp32, Self::Int8];

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Int8 => "int8",
        }
    }

    /// Returns the names that the graph's file may have in a model's folder.
    pub fn file_names(self) -> &'static [&'static str] {
        match self {
            Self::Fp32 => &["model.onnx", "onnx/model.onnx"],
            Self::Int8 => &[
                "model_int8.onnx",
                "onnx/model_int8.onnx",
                "onnx/model_quantized.onnx",
                "model_quantized.onnx",
            ],
        }
    }

    /// Returns the name of the graph's file in a model's folder.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Fp32 => "model.onnx",
            Self::Int8 => "model_int8.onnx",
        }
    }
}

/// How the vectors of a text's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolingMode {
    /// Their mean.
    Mean,
    /// The vector of the first token.
    Cls,
    /// The vector of the last token.
    Last,
}

impl PoolingMode {
    pub const ALL: [Self; 3] = [Self::Mean, Self::Cls, Self::Last];

    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
            Self::Last => "last",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
