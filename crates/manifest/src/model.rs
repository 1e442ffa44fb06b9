//! The settings of a model on another server.

use std::time::Duration;

use rag_answer::{DEFAULT_TEMPLATE, check_template};
use rag_protocol::{
    call::{ModelKind, Provider, RESERVED_PARAMETERS},
    name::NameForm,
    spec::FieldProblem,
};
use serde_json::{Map, Value};

use crate::{
    object::{Object, Problems, type_of},
    server_url::server_url,
};

/// Keys of every model.
const COMMON: [&str; 9] = [
    "base_url",
    "model",
    "api_key",
    "timeout",
    "parameters",
    "requestsPerMinute",
    "tokensPerMinute",
    "tokensPerDay",
    "description",
];
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

/// The message of an answer if nothing was found.
pub const NOTHING_FOUND: &str = "No document was found that could answer the question.";
const DEFAULT_MAX_TOKENS: i64 = 2048;
const DEFAULT_TEMPERATURE: f64 = 0.7;
const DEFAULT_CANDIDATES: i64 = 50;
/// The default of `timeout` in seconds.
const CHAT_TIMEOUT: f64 = 60.0;
const RERANK_TIMEOUT: f64 = 5.0;
/// The longest timeout, in seconds.
const MAX_TIMEOUT: f64 = 3600.0;
/// The maximum length of a prompt template, in bytes.
const MAX_TEMPLATE: usize = 64 << 10;
/// The maximum number of documents that are reranked.
pub const MAX_CANDIDATES: i64 = 1000;

/// The settings of a model, with the defaults of those that are not given.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    pub base_url: String,
    /// The name at the server. None: the server has only one.
    pub model: Option<String>,
    pub api_key: Option<ModelKey>,
    pub timeout: Duration,
    /// Further keys of requests. One that is null removes a key.
    pub parameters: Map<String, Value>,
    pub requests_per_minute: Option<u64>,
    pub tokens_per_minute: Option<u64>,
    pub tokens_per_day: Option<u64>,
    pub max_tokens: u32,
    pub temperature: f64,
    pub stream: bool,
    pub prompt_template: String,
    pub answer_without_context: bool,
    pub nothing_found: String,
    /// The number of results of a search that are reranked.
    pub candidates: usize,
}

/// The secret that is sent to the server of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelKey {
    /// In the namespace of the model.
    pub secret: String,
    /// None: the token, or else the password.
    pub key: Option<String>,
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
    let problems = Problems::default();
    let document = Map::from_iter([("spec".to_owned(), spec.clone())]);
    let document = Object::new(String::new(), &document, &["spec"], &problems);
    let own: &[&str] = match kind {
        ModelKind::Chat => &CHAT,
        ModelKind::Rerank => &RERANK,
    };
    let known: Vec<&str> = COMMON.iter().chain(own).copied().collect();
    let read = document
        .required_object("spec", &known)
        .and_then(|spec| read(kind, provider, &spec));
    match (problems.into_vec(), read) {
        (problems, Some(typed)) if problems.is_empty() => Ok((stored(spec), typed)),
        (problems, _) => Err(problems),
    }
}

fn read(kind: ModelKind, provider: Provider, spec: &Object<'_>) -> Option<ModelSpec> {
    let is_chat = kind == ModelKind::Chat;
    let timeout = if is_chat {
        CHAT_TIMEOUT
    } else {
        RERANK_TIMEOUT
    };
    let count = |key| integer(spec, key, 1, i64::MAX).map(i64::unsigned_abs);
    let (base_url, model, api_key) = (base_url(spec), model(provider, spec), api_key(spec));
    let timeout = number(spec, "timeout", 0.1, MAX_TIMEOUT).unwrap_or(timeout);
    let max_tokens = integer(spec, "max_tokens", 1, 1_000_000).unwrap_or(DEFAULT_MAX_TOKENS);
    let candidates = integer(spec, "candidates", 1, MAX_CANDIDATES).unwrap_or(DEFAULT_CANDIDATES);
    spec.text("description");
    let spec = ModelSpec {
        base_url: base_url.unwrap_or_default(),
        model: model.map(str::to_owned),
        api_key,
        timeout: Duration::from_secs_f64(timeout),
        parameters: parameters(spec),
        requests_per_minute: count("requestsPerMinute"),
        tokens_per_minute: count("tokensPerMinute"),
        tokens_per_day: count("tokensPerDay"),
        max_tokens: u32::try_from(max_tokens).unwrap_or(u32::MAX),
        temperature: number(spec, "temperature", 0.0, 2.0).unwrap_or(DEFAULT_TEMPERATURE),
        stream: spec.boolean("stream").unwrap_or(true),
        prompt_template: template(spec),
        answer_without_context: spec.boolean("answerWithoutContext").unwrap_or(false),
        nothing_found: spec
            .text("nothingFound")
            .unwrap_or(NOTHING_FOUND)
            .to_owned(),
        candidates: usize::try_from(candidates).unwrap_or(usize::MAX),
    };
    Some(spec)
}

fn base_url(spec: &Object<'_>) -> Option<String> {
    server_url(
        spec,
        "base_url",
        "Write https://host/path, such as https://llm.example.org/v1.",
        "Create a secret and name it in api_key.",
    )
}

fn model<'a>(provider: Provider, spec: &Object<'a>) -> Option<&'a str> {
    const KEY: &str = "model";
    if provider == Provider::Tei {
        if spec.get(KEY).is_some() {
            let problem = "is not for provider \"tei\", whose servers have one model";
            spec.problem(KEY, problem, Some("Leave it out.".into()));
        }
        return None;
    }
    if !spec.has(KEY, Some("Write the name of the model at its server.")) {
        return None;
    }
    spec.text(KEY)
}

fn api_key(spec: &Object<'_>) -> Option<ModelKey> {
    const KEY: &str = "api_key";
    let given = spec.get(KEY)?;
    if !given.is_object() {
        // the value may be the key itself
        let hint = "Create a secret and write {\"secretRef\": {\"name\": ..., \"key\": ...}}.";
        let problem = format!("must name a secret, and not be {}", type_of(given));
        spec.problem(KEY, problem, Some(hint.into()));
        return None;
    }
    let secret = spec
        .object(KEY, &["secretRef"])?
        .required_object("secretRef", &["name", "key"])?;
    let name = secret.name("name", NameForm::Subdomain);
    let key = match secret.get("key") {
        Some(_) => Some(secret.name("key", NameForm::SecretKey)?),
        None => None,
    };
    Some(ModelKey { secret: name?, key })
}

fn parameters(spec: &Object<'_>) -> Map<String, Value> {
    const KEY: &str = "parameters";
    let given = spec.any_object(KEY, None).cloned().unwrap_or_default();
    for key in RESERVED_PARAMETERS {
        if given.contains_key(key) {
            let problem = format!("must not have the key \"{key}\", which calls set");
            spec.problem(KEY, problem, Some("Leave it out.".into()));
        }
    }
    given
}

fn template(spec: &Object<'_>) -> String {
    const KEY: &str = "promptTemplate";
    let Some(text) = spec.text(KEY) else {
        return DEFAULT_TEMPLATE.to_owned();
    };
    if text.len() > MAX_TEMPLATE {
        let problem = format!("has {} bytes, and the limit is {MAX_TEMPLATE}", text.len());
        spec.problem(KEY, problem, None);
    } else if let Err(problem) = check_template(text) {
        spec.problem(KEY, problem.to_string(), None);
    }
    text.to_owned()
}

fn integer(spec: &Object<'_>, key: &str, least: i64, most: i64) -> Option<i64> {
    let given = spec.get(key)?;
    let value = given
        .as_i64()
        .filter(|value| (least..=most).contains(value));
    if value.is_none() {
        let range = match most {
            i64::MAX => "a positive integer".to_owned(),
            _ => format!("an integer from {least} to {most}"),
        };
        wrong_number(spec, key, &range, given);
    }
    value
}

fn number(spec: &Object<'_>, key: &str, least: f64, most: f64) -> Option<f64> {
    let given = spec.get(key)?;
    let value = given
        .as_f64()
        .filter(|value| (least..=most).contains(value));
    if value.is_none() {
        wrong_number(
            spec,
            key,
            &format!("a number from {least} to {most}"),
            given,
        );
    }
    value
}

fn wrong_number(spec: &Object<'_>, key: &str, expected: &str, given: &Value) {
    let found = match given {
        Value::Number(number) => number.to_string(),
        other => type_of(other).to_owned(),
    };
    spec.problem(key, format!("must be {expected}, not {found}"), None);
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
mod tests {
    use serde_json::json;

    use super::*;

    fn chat(spec: Value) -> Result<(Value, ModelSpec), Vec<String>> {
        check_model_spec(ModelKind::Chat, Provider::OpenAi, &spec)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn defaults() {
        let given = json!({"base_url": "https://h/v1", "model": "m", "description": null,
                           "parameters": {"max_tokens": null}});
        let (stored, spec) = chat(given).expect("valid");
        assert_eq!(stored.get("description"), None);
        assert_eq!(stored["parameters"], json!({"max_tokens": null}));
        assert_eq!(spec.timeout, Duration::from_secs(60));
        assert_eq!((spec.max_tokens, spec.temperature), (2048, 0.7));
        assert_eq!(spec.prompt_template, DEFAULT_TEMPLATE);
        assert!(spec.stream && !spec.answer_without_context);
    }

    #[test]
    fn all_faults_at_once() {
        let faults = chat(json!({
            "base_url": "ftp://h", "api_key": "sk-123", "timeout": 0, "temperature": 3,
            "max_tokens": "1", "promptTemplate": "x", "parameters": {"messages": []},
            "tokensPerDay": 0, "candidates": 5
        }))
        .expect_err("wrong");
        let fields: Vec<&str> = faults
            .iter()
            .map(|text| text.split(':').next().unwrap_or(""))
            .collect();
        assert_eq!(
            fields,
            [
                "spec.candidates",
                "spec.base_url",
                "spec.model",
                "spec.api_key",
                "spec.timeout",
                "spec.max_tokens",
                "spec.parameters",
                "spec.tokensPerDay",
                "spec.temperature",
                "spec.promptTemplate",
            ]
        );
        assert!(!faults.concat().contains("sk-123"));
    }

    #[test]
    fn urls_are_only_addresses() {
        for (url, problem) in [
            ("https://u:p@h/v1", "credentials"),
            ("https://h/v1?key=1", "query"),
            ("h/v1", "is not a URL"),
            ("file:///etc/passwd", "must start with"),
        ] {
            let faults = chat(json!({"base_url": url, "model": "m"})).expect_err("wrong");
            assert!(faults[0].contains(problem), "{faults:?}");
        }
    }

    #[test]
    fn rerankers() {
        let check = |provider, spec| check_model_spec(ModelKind::Rerank, provider, &spec);
        let (_, spec) = check(Provider::Tei, json!({"base_url": "http://h"})).expect("valid");
        assert_eq!(
            (spec.candidates, spec.timeout),
            (50, Duration::from_secs(5))
        );
        assert!(check(Provider::Tei, json!({"base_url": "http://h", "model": "m"})).is_err());
        assert!(check(Provider::Cohere, json!({"base_url": "http://h"})).is_err());
        let chat_key = json!({"base_url": "http://h", "temperature": 1});
        assert!(check(Provider::Tei, chat_key).is_err());
    }

    #[test]
    fn keys_are_secrets() {
        let spec = |api_key: Value| {
            chat(json!({"base_url": "https://h", "model": "m", "api_key": api_key}))
        };
        let key = |given| spec(given).expect("valid").1.api_key;
        let expected = |key: Option<&str>| ModelKey {
            secret: "llm".into(),
            key: key.map(Into::into),
        };
        assert_eq!(
            key(json!({"secretRef": {"name": "llm"}})),
            Some(expected(None))
        );
        assert_eq!(
            key(json!({"secretRef": {"name": "llm", "key": "api"}})),
            Some(expected(Some("api")))
        );
        assert!(spec(json!({})).is_err());
        assert!(spec(json!({"secretRef": {"name": "other/llm"}})).is_err());
        assert!(spec(json!({"secretRef": {}})).is_err());
    }
}
