//! The settings of a model.

mod embedding;
mod kind;
mod template;

use std::{path::PathBuf, time::Duration};

use serde_json::{Map, Value};

pub use self::{
    embedding::EmbeddingSpec,
    kind::{ModelKind, PoolingMode, Precision, Provider, RESERVED_PARAMETERS},
    template::{DEFAULT_TEMPLATE, PLACEHOLDER, TemplateProblem, check_template},
};
use crate::{FieldProblem, Fields, Problems, SecretRef, fields::type_of, usage::Prices};

/// Keys of every model on another server.
const REMOTE: [&str; 10] = [
    "base_url",
    "model",
    "api_key",
    "timeout",
    "parameters",
    "requestsPerMinute",
    "tokensPerMinute",
    "tokensPerDay",
    "prices",
    "description",
];
/// Keys of every model on this server.
const LOCAL: [&str; 2] = ["path", "description"];
/// Keys of chat models.
const CHAT: [&str; 6] = [
    "max_tokens",
    "temperature",
    "stream",
    "promptTemplate",
    "answerWithoutContext",
    "nothingFound",
];
/// Keys of rerankers.
const RERANK: [&str; 1] = ["candidates"];
/// Keys of rerankers on this server.
const LOCAL_RERANK: [&str; 4] = ["candidates", "late", "precision", "timeout"];

/// The message of an answer if nothing was found.
pub const NOTHING_FOUND: &str = "No document was found that could answer the question.";
const DEFAULT_MAX_TOKENS: i64 = 2048;
const DEFAULT_TEMPERATURE: f64 = 0.7;
const DEFAULT_CANDIDATES: i64 = 50;
/// With 20 results `late` is as good as with 50 (benches/README.md), in two fifths of the time.
const LATE_CANDIDATES: i64 = 20;
/// The default of `timeout` in seconds.
const CHAT_TIMEOUT: f64 = 60.0;
const RERANK_TIMEOUT: f64 = 5.0;
const EMBEDDING_TIMEOUT: f64 = 60.0;
/// The longest timeout, in seconds.
const MAX_TIMEOUT: f64 = 3600.0;
/// The maximum length of a prompt template, in bytes.
const MAX_TEMPLATE: usize = 64 << 10;
/// The highest price, of a million tokens or of a thousand requests.
const MAX_PRICE: f64 = 1_000_000.0;
/// The maximum number of documents that are reranked.
pub const MAX_CANDIDATES: i64 = 1000;

/// The settings of a model, with the defaults of those that are not given.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// The folder of a model on this server.
    pub path: PathBuf,
    /// Which graph of that folder is used. None: as the setting `rag.model_precision` says.
    pub precision: Option<Precision>,
    /// The address of another server.
    pub base_url: String,
    /// The name at the server. None: the server has only one.
    pub model: Option<String>,
    /// The secret that is sent to the server. Without a key it is the token, or else the password.
    pub api_key: Option<SecretRef>,
    pub timeout: Duration,
    /// Further keys of requests. One that is null removes a key.
    pub parameters: Map<String, Value>,
    pub requests_per_minute: Option<u64>,
    pub tokens_per_minute: Option<u64>,
    pub tokens_per_day: Option<u64>,
    /// None: nobody knows what calls cost.
    pub prices: Option<Prices>,
    pub max_tokens: u32,
    pub temperature: f64,
    pub stream: bool,
    pub prompt_template: String,
    pub answer_without_context: bool,
    pub nothing_found: String,
    /// The number of results of a search that are reranked.
    pub candidates: usize,
    /// The model embeds texts, and its vectors of tokens score documents. Without a path it is the
    /// default model.
    pub is_late: bool,
    pub embedding: EmbeddingSpec,
}

/// Checks the settings of a model. Returns them as they are, without the keys that are `null`, and
/// in their types.
///
/// # Errors
/// Every problem, with the path of its field (`spec.base_url`).
pub fn check_model_spec(
    kind: ModelKind,
    provider: Provider,
    spec: &Value,
) -> Result<(Value, ModelSpec), Vec<FieldProblem>> {
    let own: &[&str] = match kind {
        ModelKind::Chat => &CHAT,
        ModelKind::Rerank if provider == Provider::Local => &LOCAL_RERANK,
        ModelKind::Rerank => &RERANK,
        ModelKind::Embedding => embedding::keys(provider),
    };
    let common: &[&str] = match provider {
        Provider::Local => &LOCAL,
        _ => &REMOTE,
    };
    let known: Vec<&str> = common.iter().chain(own).copied().collect();
    let problems = Problems::default();
    let fields = Fields::of("spec", spec, &known, &problems);
    let typed = fields.and_then(|spec| read(kind, provider, &spec));
    problems.into_result(typed.map(|typed| (stored(spec), typed)))
}

fn read(kind: ModelKind, provider: Provider, spec: &Fields<'_>) -> Option<ModelSpec> {
    let timeout = match kind {
        ModelKind::Chat => CHAT_TIMEOUT,
        ModelKind::Rerank => RERANK_TIMEOUT,
        ModelKind::Embedding => EMBEDDING_TIMEOUT,
    };
    let count = |key| spec.integer(key, 1..=i64::MAX).map(i64::unsigned_abs);
    let is_late = spec.boolean("late").unwrap_or(false);
    let path = match provider {
        Provider::Local => folder(spec, "path", !is_late),
        _ => None,
    };
    let (base_url, model, api_key) = match provider {
        Provider::Local => (None, None, None),
        _ => (base_url(spec), model(provider, spec), api_key(spec)),
    };
    let precisions = Precision::ALL.map(Precision::name);
    let precision = spec.word("precision", &precisions, "a precision");
    let timeout = spec.number("timeout", 0.1..=MAX_TIMEOUT).unwrap_or(timeout);
    let max_tokens = spec
        .integer("max_tokens", 1..=1_000_000)
        .unwrap_or(DEFAULT_MAX_TOKENS);
    let candidates = if is_late {
        LATE_CANDIDATES
    } else {
        DEFAULT_CANDIDATES
    };
    let candidates = spec
        .integer("candidates", 1..=MAX_CANDIDATES)
        .unwrap_or(candidates);
    spec.text("description");
    let embedding = match kind {
        ModelKind::Embedding => EmbeddingSpec::read(spec),
        _ => EmbeddingSpec::default(),
    };
    let spec = ModelSpec {
        path: path.unwrap_or_default(),
        embedding,
        precision: precision.and_then(Precision::parse),
        base_url: base_url.unwrap_or_default(),
        model: model.map(str::to_owned),
        api_key,
        timeout: Duration::from_secs_f64(timeout),
        parameters: parameters(spec),
        requests_per_minute: count("requestsPerMinute"),
        tokens_per_minute: count("tokensPerMinute"),
        tokens_per_day: count("tokensPerDay"),
        prices: prices(spec),
        max_tokens: u32::try_from(max_tokens).unwrap_or(u32::MAX),
        temperature: spec
            .number("temperature", 0.0..=2.0)
            .unwrap_or(DEFAULT_TEMPERATURE),
        stream: spec.boolean("stream").unwrap_or(true),
        prompt_template: template(spec),
        answer_without_context: spec.boolean("answerWithoutContext").unwrap_or(false),
        nothing_found: spec
            .text("nothingFound")
            .unwrap_or(NOTHING_FOUND)
            .to_owned(),
        candidates: usize::try_from(candidates).unwrap_or(usize::MAX),
        is_late,
    };
    Some(spec)
}

/// Reads the absolute path of a folder on this server.
fn folder(spec: &Fields<'_>, key: &str, is_required: bool) -> Option<PathBuf> {
    const HINT: &str = "Write the absolute path of a folder on the server.";
    if is_required && !spec.has(key, Some(HINT)) {
        return None;
    }
    let text = spec.text(key)?;
    let is_absolute = text.starts_with('/');
    if !is_absolute || text.contains(['\0', '\n']) {
        let problem = if is_absolute {
            "must not contain a line break or a zero byte"
        } else {
            "must be an absolute path"
        };
        spec.problem_with(key, problem, HINT);
        return None;
    }
    Some(PathBuf::from(text))
}

fn base_url(spec: &Fields<'_>) -> Option<String> {
    spec.server_url(
        "base_url",
        "Write https://host/path, such as https://llm.example.org/v1.",
        "Create a secret and name it in api_key.",
    )
}

fn model<'a>(provider: Provider, spec: &Fields<'a>) -> Option<&'a str> {
    const KEY: &str = "model";
    if provider == Provider::Tei {
        if spec.get(KEY).is_some() {
            let problem = "is not for provider \"tei\", whose servers have one model";
            spec.problem_with(KEY, problem, "Leave it out.");
        }
        return None;
    }
    if !spec.has(KEY, Some("Write the name of the model at its server.")) {
        return None;
    }
    spec.text(KEY)
}

fn api_key(spec: &Fields<'_>) -> Option<SecretRef> {
    const KEY: &str = "api_key";
    let given = spec.get(KEY)?;
    if !given.is_object() {
        // the value may be the key itself
        let hint = "Create a secret and write {\"secretRef\": {\"name\": ..., \"key\": ...}}.";
        let problem = format!("must name a secret, and not be {}", type_of(given));
        spec.problem_with(KEY, problem, hint);
        return None;
    }
    let secret = spec.object(KEY, &["secretRef"])?;
    SecretRef::read(&secret.required_object("secretRef", &SecretRef::FIELDS)?)
}

fn parameters(spec: &Fields<'_>) -> Map<String, Value> {
    const KEY: &str = "parameters";
    let given = spec.any_object(KEY).cloned().unwrap_or_default();
    for key in RESERVED_PARAMETERS {
        if given.contains_key(key) {
            let problem = format!("must not have the key \"{key}\", which calls set");
            spec.problem_with(KEY, problem, "Leave it out.");
        }
    }
    given
}

fn prices(spec: &Fields<'_>) -> Option<Prices> {
    let prices = spec.object("prices", &["inputTokens", "outputTokens", "requests"])?;
    let price = |key| {
        let price = prices.number(key, 0.0..=MAX_PRICE).unwrap_or(0.0);
        (price * Prices::BILLION).round() as u64
    };
    Some(Prices {
        input_tokens: price("inputTokens"),
        output_tokens: price("outputTokens"),
        requests: price("requests"),
    })
}

fn template(spec: &Fields<'_>) -> String {
    const KEY: &str = "promptTemplate";
    let Some(text) = spec.text(KEY) else {
        return DEFAULT_TEMPLATE.to_owned();
    };
    if text.len() > MAX_TEMPLATE {
        let problem = format!("has {} bytes, and the limit is {MAX_TEMPLATE}", text.len());
        spec.problem(KEY, problem);
    } else if let Err(problem) = check_template(text) {
        spec.problem(KEY, problem.to_string());
    }
    text.to_owned()
}

/// Returns the settings without the keys that are `null`. Those of `parameters` have a meaning.
fn stored(spec: &Value) -> Value {
    let Value::Object(map) = spec else {
        return spec.clone();
    };
    let given = map.iter().filter(|(_, value)| !value.is_null());
    Value::Object(
        given
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

#[cfg(test)]
mod tests;
