//! `kind: Retriever`: settings of storage and search for collections.

use serde_json::{Map, Value, json};

use crate::{
    Metadata,
    object::{Object, did_you_mean, shown, type_of},
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
const STORAGE: [&str; 7] = [
    "type",
    "url",
    "username",
    "password",
    "apiKey",
    "ext",
    "indexStrategy",
];
/// Fields of storage on another server.
const REMOTE: [&str; 5] = ["url", "username", "password", "apiKey", "ext"];
/// Types of storage that this version supports.
const STORAGE_TYPES: [&str; 2] = ["hnsw", "flat"];
const STRATEGY: [&str; 4] = ["mode", "prefix", "fixedName", "rollingStep"];
/// Partitions are named `rag_kb_<collection>`.
const PREFIX: &str = "rag";

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

fn check(spec: &Object<'_>) {
    if let Some(storage) = spec.object("storageConfig", &STORAGE) {
        check_storage(&storage);
    }
    if let Some(methods) = spec.object("retrievalMethods", &["vector", "keyword", "hybrid"]) {
        for (method, fields) in [
            ("vector", &["enabled", "defaultWeight"][..]),
            ("keyword", &["enabled", "defaultWeight"]),
            ("hybrid", &["enabled"]),
        ] {
            if let Some(method) = methods.object(method, fields) {
                method.boolean("enabled");
                check_weight(&method);
            }
        }
    }
    if let Some(embedding) = spec.object("embedding", &["model"]) {
        embedding.text("model");
    }
    spec.text("description");
}

fn check_storage(storage: &Object<'_>) {
    let given = storage.text("type");
    let known = given.filter(|given| STORAGE_TYPES.contains(given));
    if let (Some(given), None) = (given, known) {
        let problem = format!("\"{}\" is not supported by this version", shown(given));
        storage.problem(
            "type",
            problem,
            Some(did_you_mean(given, &STORAGE_TYPES, "Types")),
        );
    }
    // With another type, the type is the problem and not the address.
    if known.is_some() || storage.get("type").is_none() {
        for key in REMOTE.into_iter().filter(|key| storage.get(key).is_some()) {
            let problem = format!(
                "is for storage on another server, but \"{}\" is in this database",
                known.unwrap_or("hnsw")
            );
            storage.problem(key, problem, Some("Leave it out.".into()));
        }
    }
    if let Some(strategy) = storage.object("indexStrategy", &STRATEGY) {
        check_strategy(&strategy);
    }
}

fn check_strategy(strategy: &Object<'_>) {
    const HINT: &str = "Write mode: per_dataset.";
    const LATER: &str = "is not supported by this version";
    let mode = strategy.text("mode");
    match mode {
        None | Some("per_dataset") => {}
        Some(mode @ ("fixed" | "rolling")) => {
            strategy.problem("mode", format!("\"{mode}\" {LATER}"), Some(HINT.into()))
        }
        Some(other) => {
            let hint = did_you_mean(other, &["per_dataset", "fixed", "rolling"], "Modes");
            strategy.problem(
                "mode",
                format!("\"{}\" is not a mode", shown(other)),
                Some(hint),
            );
        }
    }
    if let Some(prefix) = strategy.text("prefix")
        && prefix != PREFIX
    {
        let hint = format!("Leave it out, or write prefix: {PREFIX}.");
        strategy.problem(
            "prefix",
            format!("\"{}\" {LATER}", shown(prefix)),
            Some(hint),
        );
    }
    for (key, of) in [("fixedName", "fixed"), ("rollingStep", "rolling")] {
        if strategy.get(key).is_some() && mode != Some(of) {
            strategy.problem(
                key,
                format!("is only for mode \"{of}\""),
                Some("Leave it out.".into()),
            );
        }
    }
}

fn check_weight(method: &Object<'_>) {
    const KEY: &str = "defaultWeight";
    if let Some(given) = method.get(KEY)
        && !given
            .as_f64()
            .is_some_and(|weight| (0.0..=1.0).contains(&weight))
    {
        let found = if given.is_number() {
            given.to_string()
        } else {
            type_of(given).to_owned()
        };
        method.problem(
            KEY,
            format!("must be a number from 0 to 1, not {found}"),
            None,
        );
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
