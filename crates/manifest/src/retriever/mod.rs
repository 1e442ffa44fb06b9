//! `kind: Retriever`: settings of storage and search for collections.

mod storage;

use rag_contract::{Fusion, MAX_TOP_K, RetrievalMode, RetrieverSettings, Weights};
use rag_protocol::spec::FieldProblem;
use serde_json::{Map, Value, json};

use crate::{
    Metadata,
    object::{Object, Problems, type_of},
};

/// Settings of storage and search, as the proposal of the Retriever describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retriever {
    pub metadata: Metadata,
    /// The given keys, without those that are `null`.
    pub spec: Value,
}

const SPEC: [&str; 4] = [
    "storageConfig",
    "retrievalMethods",
    "embedding",
    "description",
];

impl Retriever {
    /// Returns `None` if there are problems.
    pub(crate) fn read(document: &Object<'_>, metadata: Option<Metadata>) -> Option<Self> {
        check(&document.required_object("spec", &SPEC)?);
        Some(Self {
            metadata: metadata?,
            spec: without_nulls(document.get("spec")?),
        })
    }

    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": "agent.wecode.io/v1",
            "kind": "Retriever",
            "metadata": self.metadata.to_json(),
            "spec": self.spec,
        })
    }
}

/// Checks the settings of a retriever. Returns them without the keys that are `null`.
///
/// # Errors
/// Every problem, with the path of its field (`spec.storageConfig.type`).
pub fn check_retriever_spec(spec: &Value) -> Result<Value, Vec<FieldProblem>> {
    let problems = Problems::default();
    let document = Map::from_iter([("spec".to_owned(), spec.clone())]);
    let document = Object::new(String::new(), &document, &["spec"], &problems);
    if let Some(spec) = document.required_object("spec", &SPEC) {
        check(&spec);
    }
    let problems = problems.into_vec();
    match problems.is_empty() {
        true => Ok(without_nulls(spec)),
        false => Err(problems),
    }
}

fn check(spec: &Object<'_>) {
    if let Some(storage) = spec.object("storageConfig", &storage::FIELDS) {
        storage::check(&storage);
    }
    if let Some(methods) = spec.object("retrievalMethods", &["vector", "keyword", "hybrid"]) {
        check_methods(spec, &methods);
    }
    if let Some(embedding) = spec.object("embedding", &["model"]) {
        embedding.text("model");
    }
    spec.text("description");
}

/// Returns an integer, or reports a problem if it is none from `least` to `most`.
pub(crate) fn integer(object: &Object<'_>, key: &str, least: i64, most: i64) -> Option<i64> {
    let given = object.get(key)?;
    let value = given
        .as_i64()
        .filter(|value| (least..=most).contains(value));
    if value.is_none() {
        let problem = format!(
            "must be an integer from {least} to {most}, not {}",
            described(given)
        );
        object.problem(key, problem, None);
    }
    value
}

/// Returns a number as it is, and the type of any other value.
fn described(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        other => type_of(other).to_owned(),
    }
}

fn check_methods(spec: &Object<'_>, methods: &Object<'_>) {
    const METHOD: [&str; 4] = ["enabled", "defaultWeight", "topK", "scoreThreshold"];
    let mut is_complete = true;
    for name in ["vector", "keyword"] {
        if let Some(method) = methods.object(name, &METHOD) {
            method.boolean("enabled");
            fraction(&method, "defaultWeight");
            fraction(&method, "scoreThreshold");
            integer(&method, "topK", 1, i64::from(MAX_TOP_K));
        } else {
            is_complete &= methods.get(name).is_none();
        }
    }
    let mut wants_hybrid = false;
    if let Some(hybrid) = methods.object("hybrid", &["enabled", "fusion"]) {
        wants_hybrid = hybrid.boolean("enabled") != Some(false);
        hybrid.word("fusion", &Fusion::ALL.map(Fusion::name), "a kind of fusion");
    }
    if is_complete {
        check_enabled(spec, methods, wants_hybrid);
    }
}

/// Checks the methods together.
fn check_enabled(spec: &Object<'_>, methods: &Object<'_>, wants_hybrid: bool) {
    let given = ["vector", "keyword", "hybrid"].map(|name| (name, methods.get(name)));
    let given = given
        .into_iter()
        .filter_map(|(name, method)| Some((name.to_owned(), method?.clone())));
    let settings = RetrieverSettings::of(&json!({
        "retrievalMethods": given.collect::<Map<String, Value>>()
    }));
    let is_enabled = |mode| settings.enables(mode);
    if !is_enabled(RetrievalMode::Vector) && !is_enabled(RetrievalMode::Keyword) {
        spec.problem(
            "retrievalMethods",
            "must enable vector or keyword",
            Some("Write vector: {enabled: true}, or keyword: {enabled: true}, or both.".into()),
        );
    } else if wants_hybrid && !is_enabled(RetrievalMode::Hybrid) {
        methods.problem(
            "hybrid",
            "needs vector and keyword, and one of them is not enabled",
            Some("Enable both, or write hybrid: {enabled: false}.".into()),
        );
    } else {
        let weight = |method: Option<rag_contract::MethodSettings>| method.and_then(|m| m.weight);
        let (vector, keyword) = (weight(settings.vector), weight(settings.keyword));
        if Weights::new(vector, keyword, "").is_err() {
            let sum = vector.unwrap_or_default() + keyword.unwrap_or_default();
            spec.problem(
                "retrievalMethods",
                format!("the values of defaultWeight must sum to 1, not {sum:.3}"),
                Some("Leave one of them out: it is then 1 minus the other.".into()),
            );
        }
    }
}

fn fraction(method: &Object<'_>, key: &str) {
    if let Some(given) = method.get(key)
        && !given
            .as_f64()
            .is_some_and(|value| (0.0..=1.0).contains(&value))
    {
        let problem = format!("must be a number from 0 to 1, not {}", described(given));
        method.problem(key, problem, None);
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(key, value)| (key.clone(), without_nulls(value)))
                    .collect::<Map<_, _>>(),
            )
        }
        other => other.clone(),
    }
}
