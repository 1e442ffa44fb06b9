//! The settings of an embedding model.

use std::path::PathBuf;

use super::{PoolingMode, Provider, folder};
use crate::Fields;

/// Keys of models on this server.
const LOCAL: [&str; 6] = [
    "dimensions",
    "queryPrefix",
    "passagePrefix",
    "pooling",
    "normalize",
    "maxTokens",
];
/// Keys of models on other servers.
const REMOTE: [&str; 8] = [
    "dimensions",
    "queryPrefix",
    "passagePrefix",
    "normalize",
    "maxTokens",
    "batch",
    "concurrency",
    "tokenizer",
];

/// The maximum length of an embedding, which is that of the type of vectors.
pub const MAX_DIMENSIONS: i64 = 16_000;
/// The most tokens that a text may have.
const MAX_TOKENS: i64 = 1 << 20;
/// The fewest, so that a chunk has room beside title and special tokens.
const MIN_TOKENS: i64 = 16;
const MAX_BATCH: i64 = 1000;
const DEFAULT_BATCH: i64 = 32;
const MAX_CONCURRENCY: i64 = 32;
const DEFAULT_CONCURRENCY: i64 = 4;
/// The maximum length of a prefix, in bytes.
const MAX_PREFIX: usize = 1000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbeddingSpec {
    pub dimensions: Option<usize>,
    /// None: as the folder says.
    pub query_prefix: Option<String>,
    /// None: as the folder says.
    pub passage_prefix: Option<String>,
    pub pooling: Option<PoolingMode>,
    pub normalize: Option<bool>,
    pub max_tokens: Option<usize>,
    /// The maximum number of texts of a request.
    pub batch: usize,
    /// The maximum number of requests at the same time.
    pub concurrency: usize,
    /// The folder of the tokenizer of a model on another server.
    pub tokenizer: Option<PathBuf>,
}

/// Returns the keys besides those of every model.
pub fn keys(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::Local => &LOCAL,
        _ => &REMOTE,
    }
}

impl EmbeddingSpec {
    pub fn read(spec: &Fields<'_>) -> Self {
        let pooling = spec.word(
            "pooling",
            &PoolingMode::ALL.map(PoolingMode::name),
            "a pooling",
        );
        let count = |key, least, most| {
            let value = spec.integer(key, least..=most)?;
            usize::try_from(value).ok()
        };
        let size = |key, most, default: i64| {
            let value = spec.integer(key, 1..=most).unwrap_or(default);
            usize::try_from(value).unwrap_or(1)
        };
        Self {
            query_prefix: prefix(spec, "queryPrefix"),
            passage_prefix: prefix(spec, "passagePrefix"),
            pooling: pooling.and_then(PoolingMode::parse),
            normalize: spec.boolean("normalize"),
            dimensions: count("dimensions", 1, MAX_DIMENSIONS),
            max_tokens: count("maxTokens", MIN_TOKENS, MAX_TOKENS),
            batch: size("batch", MAX_BATCH, DEFAULT_BATCH),
            concurrency: size("concurrency", MAX_CONCURRENCY, DEFAULT_CONCURRENCY),
            tokenizer: folder(spec, "tokenizer", false),
        }
    }
}

/// Reads a prefix. An empty one replaces that of a folder by nothing.
fn prefix(spec: &Fields<'_>, key: &str) -> Option<String> {
    let text = spec.any_text(key)?;
    if text.len() > MAX_PREFIX {
        let problem = format!("has {} bytes, and the limit is {MAX_PREFIX}", text.len());
        spec.problem(key, problem);
    }
    Some(text.to_owned())
}
