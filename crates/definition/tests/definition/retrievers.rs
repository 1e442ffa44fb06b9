//! Wrong fields of retrievers are reported with their paths.

use rag_definition::retriever::{
    IndexOptions, Metric, Quantization, RetrieverDefinition, ServerKind, StorageType,
};
use serde_json::{Value, json};

/// Each problem as `field: problem`, with its hint behind a bar.
fn problems(spec: &Value) -> Vec<String> {
    let problems = RetrieverDefinition::parse(spec).err().unwrap_or_default();
    let shown = problems.into_iter().map(|problem| match &problem.hint {
        Some(hint) => format!("{problem} | {hint}"),
        None => problem.to_string(),
    });
    shown.collect()
}

/// The settings as they are written again.
fn written(spec: &Value) -> Option<Value> {
    RetrieverDefinition::parse(spec)
        .ok()
        .map(|read| read.to_json())
}

const RESERVED: &str = "Names with \"_kb_\", and fixed names that end with \"_index_\" and a \
                        number, are reserved for the modes per_dataset and rolling.";
const NAME: &str =
    "Use letters, digits, \".\", \"_\" and \"-\", with a letter or digit at both ends.";

const NOTHING: &str = "spec.retrievalMethods: must enable vector or keyword | Write vector: \
    {enabled: true}, or keyword: {enabled: true}, or both.";

#[test]
fn all_settings_of_retrievers_are_accepted() {
    let spec = json!({
        "storageConfig": {
            "type": "hnsw", "metric": "cosine", "ext": {"m": 24, "ef_construction": 200},
            "indexStrategy": {"mode": "per_dataset", "prefix": "rag"},
        },
        "retrievalMethods": {
            "vector": {"enabled": true, "defaultWeight": 0.6, "topK": 20, "scoreThreshold": 0.2},
            "keyword": {"enabled": true, "defaultWeight": 0.4, "topK": 30, "scoreThreshold": 0},
            "hybrid": {"enabled": true, "fusion": "rrf"},
        },
        "description": "all of it",
    });
    assert_eq!(written(&spec), Some(spec));
    // a method that is not named is disabled
    for spec in [
        json!({}),
        json!({"storageConfig": {"indexStrategy": {"mode": "fixed", "fixedName": "rag_documents"}}}),
        json!({"storageConfig": {"indexStrategy": {"mode": "rolling", "rollingStep": 5000}}}),
        json!({"storageConfig": {"indexStrategy": {"mode": "rolling", "prefix": "wecode"}}}),
        json!({"retrievalMethods": {"keyword": {}}}),
        json!({"retrievalMethods": {"vector": {"enabled": true}, "keyword": {"enabled": false}}}),
        json!({"storageConfig": {"type": "flat", "metric": "l2"}}),
        json!({"storageConfig": {"type": "qdrant", "url": "https://q:6333", "ext": {"m": 64},
                                 "apiKeyRef": {"name": "q", "key": "token"}}}),
        json!({"storageConfig": {"type": "elasticsearch", "url": "https://e:9200/proxy",
                                 "usernameRef": {"name": "e"}, "passwordRef": {"name": "e"}}}),
        json!({"storageConfig": {"type": "pgvector", "metric": "inner_product", "ext": {"m": 32}}}),
    ] {
        assert_eq!(written(&spec), Some(spec));
    }
    let without = json!({"storageConfig": null, "description": "d"});
    assert_eq!(written(&without), Some(json!({"description": "d"})));
}

#[test]
fn wrong_retrievers_are_refused() {
    let weight = |found| {
        format!(
            "spec.retrievalMethods.vector.defaultWeight: must be a number from 0 to 1, not {found}"
        )
    };
    let storage = |key: &str, value: Value| json!({"storageConfig": {"type": "hnsw", key: value}});
    let server = |kind: &str, ext: Value| json!({"storageConfig": {"type": kind, "url": "https://vectors.example.org", "ext": ext}});
    let local = |key: &str| {
        format!(
            "spec.storageConfig.{key}: is for storage on another server, but \"hnsw\" is in this \
                database | Leave it out."
        )
    };
    let strategy = |key: &str, value: Value| json!({"storageConfig": {"indexStrategy": {"mode": "per_dataset", key: value}}});
    for (spec, expected) in [
        (
            json!({"storageConfig": {"type": "faiss"}}),
            "spec.storageConfig.type: \"faiss\" is not supported by this version | Types: hnsw, \
             flat, pgvector, qdrant, elasticsearch."
                .into(),
        ),
        (
            json!({"storageConfig": {"type": "qdrant", "url": "http://q:6333", "apiKey": "k"}}),
            "spec.storageConfig.apiKey: is not stored in settings, which others can read | Create \
             a secret and write apiKeyRef: {\"name\": ...}."
                .into(),
        ),
        (
            json!({"storageConfig": {"type": "qdrant"}}),
            "spec.storageConfig.url: is missing | Write https://host:port, such as \
             https://vectors.example.org:6333."
                .into(),
        ),
        (
            json!({"storageConfig": {"type": "qdrant", "url": "https://q", "passwordRef":
                                     {"name": "q"}}}),
            "spec.storageConfig.passwordRef: is not for storage \"qdrant\", whose servers take an \
             API key | Write apiKeyRef."
                .into(),
        ),
        (
            json!({"storageConfig": {"type": "elasticsearch", "url": "https://e", "usernameRef":
                                     {"name": "e"}}}),
            "spec.storageConfig.passwordRef: is missing beside usernameRef".into(),
        ),
        (
            json!({"storageConfig": {"type": "elasticsearch", "url": "https://e", "apiKeyRef":
                                     "not to be repeated"}}),
            "spec.storageConfig.apiKeyRef: must name a secret, and not be a string | Write \
             apiKeyRef: {\"name\": ..., \"key\": ...}."
                .into(),
        ),
        (storage("url", json!("http://e:9200")), local("url")),
        (storage("username", json!("elastic")), local("username")),
        (
            storage("password", json!("not to be repeated")),
            local("password"),
        ),
        (
            storage("apiKey", json!("not to be repeated")),
            local("apiKey"),
        ),
        (
            storage("passwordRef", json!({"name": "es"})),
            local("passwordRef"),
        ),
        (
            storage("ext", json!({"m": 1})),
            "spec.storageConfig.ext.m: must be an integer from 2 to 100, not 1".into(),
        ),
        (
            storage("ext", json!({"ef_construction": "many"})),
            "spec.storageConfig.ext.ef_construction: must be an integer from 4 to 1000, not a \
             string | Write the number without quotes."
                .into(),
        ),
        (
            storage("ext", json!({"m": 64})),
            "spec.storageConfig.ext.ef_construction: must be at least 2 * m, which is 128".into(),
        ),
        (
            storage("ext", json!({"shards": 3})),
            "spec.storageConfig.ext.shards: is not a known field | Fields: m, ef_construction."
                .into(),
        ),
        (
            server("elasticsearch", json!({"on_disk": true})),
            "spec.storageConfig.ext.on_disk: is not a known field | Fields: m, ef_construction, \
             shards, replicas, quantization."
                .into(),
        ),
        (
            server("qdrant", json!({"replicas": 0, "shards": 0})),
            "spec.storageConfig.ext.shards: must be an integer from 1 to 1024, not 0".into(),
        ),
        (
            server("qdrant", json!({"quantization": "int4"})),
            "spec.storageConfig.ext.quantization: \"int4\" is not a quantization | Did you mean \
             \"int8\"? Values: none, int8, binary."
                .into(),
        ),
        (
            json!({"storageConfig": {"type": "flat", "ext": {"m": 16}}}),
            "spec.storageConfig.ext: is for a vector index, but \"flat\" has none | Leave it out."
                .into(),
        ),
        (
            storage("metric", json!("manhattan")),
            "spec.storageConfig.metric: \"manhattan\" is not a metric | Metrics: cosine, l2, \
             inner_product."
                .into(),
        ),
        (
            json!({"retrievalMethods": {"vector": {"topK": 0}}}),
            "spec.retrievalMethods.vector.topK: must be an integer from 1 to 10000, not 0".into(),
        ),
        (
            json!({"retrievalMethods": {"keyword": {"scoreThreshold": 2}}}),
            "spec.retrievalMethods.keyword.scoreThreshold: must be a number from 0 to 1, not 2"
                .into(),
        ),
        (
            json!({"retrievalMethods": {"vector": {"enabled": false}, "keyword": {"enabled": false},
                                        "hybrid": {"enabled": false}}}),
            NOTHING.into(),
        ),
        (json!({"retrievalMethods": {"hybrid": {}}}), NOTHING.into()),
        (
            json!({"retrievalMethods": {"vector": {}, "hybrid": {"enabled": true}}}),
            "spec.retrievalMethods.hybrid: needs vector and keyword, and one of them is not \
             enabled | Enable both, or write hybrid: {enabled: false}."
                .into(),
        ),
        (
            json!({"retrievalMethods": {"vector": {"defaultWeight": 0.7},
                                        "keyword": {"defaultWeight": 0.5}}}),
            "spec.retrievalMethods: the values of defaultWeight must sum to 1, not 1.200 | Leave \
             one of them out: it is then 1 minus the other."
                .into(),
        ),
        (
            json!({"retrievalMethods": {"vector": {}, "keyword": {}, "hybrid": {"fusion": "rff"}}}),
            "spec.retrievalMethods.hybrid.fusion: \"rff\" is not a kind of fusion | Did you mean \
             \"rrf\"? Values: weighted, rrf."
                .into(),
        ),
        (json!({"storageConfig": {"url": "x"}}), local("url")),
        (
            storage("tpye", json!(1)),
            "spec.storageConfig.tpye: is not a known field | Did you mean \"type\"? Fields: type, \
                metric, url, usernameRef, passwordRef, apiKeyRef, username, \
             password, apiKey, ext, indexStrategy."
                .into(),
        ),
        (
            strategy("mode", json!("per-dataset")),
            "spec.storageConfig.indexStrategy.mode: \"per-dataset\" is not a mode | Did you mean \
                \"per_dataset\"? \
             Modes: per_dataset, fixed, rolling."
                .into(),
        ),
        (
            strategy("prefix", json!("a b")),
            format!(
                "spec.storageConfig.indexStrategy.prefix: \"a b\" is not a name of at most 32 \
                 characters | {NAME}"
            ),
        ),
        (
            strategy("prefix", json!("p".repeat(33))),
            format!(
                "spec.storageConfig.indexStrategy.prefix: \"{}\" is not a name of at most 32 \
                 characters | {NAME}",
                "p".repeat(33)
            ),
        ),
        (
            json!({"storageConfig": {"indexStrategy": {"mode": "fixed", "fixedName": "a\"b"}}}),
            format!(
                "spec.storageConfig.indexStrategy.fixedName: \"a\"b\" is not a name of at most 63 \
                 characters | {NAME}"
            ),
        ),
        (
            json!({"storageConfig": {"indexStrategy": {"mode": "fixed", "fixedName": "a_kb_b"}}}),
            format!(
                "spec.storageConfig.indexStrategy.fixedName: \"a_kb_b\" could be the partition of a \
                 collection | {RESERVED}"
            ),
        ),
        (
            json!({"storageConfig": {"indexStrategy": {"mode": "fixed", "fixedName": "a_index_7"}}}),
            format!(
                "spec.storageConfig.indexStrategy.fixedName: \"a_index_7\" could be the partition \
                 of a collection | {RESERVED}"
            ),
        ),
        (
            strategy("prefix", json!("a_kb")),
            format!(
                "spec.storageConfig.indexStrategy.prefix: \"a_kb\" could be the partition of a \
                 collection | {RESERVED}"
            ),
        ),
        (
            json!({"storageConfig": {"indexStrategy": {"mode": "rolling", "rollingStep": 0}}}),
            "spec.storageConfig.indexStrategy.rollingStep: must be an integer from 1 to 1000000, \
             not 0"
                .into(),
        ),
        (
            json!({"storageConfig": {"indexStrategy": {"mode": "fixed", "prefix": "rag"}}}),
            "spec.storageConfig.indexStrategy.prefix: is only for modes \"per_dataset\" and \
             \"rolling\" | Leave it out."
                .into(),
        ),
        (
            strategy("fixedName", json!("rag_documents")),
            "spec.storageConfig.indexStrategy.fixedName: is only for mode \"fixed\" | Leave it \
                out."
                .into(),
        ),
        (
            strategy("rollingStep", json!(5000)),
            "spec.storageConfig.indexStrategy.rollingStep: is only for mode \"rolling\" | Leave \
                it out."
                .into(),
        ),
        (
            json!({"retrievalMethods": {"vector": {"defaultWeight": 1.1}}}),
            weight("1.1"),
        ),
        (
            json!({"retrievalMethods": {"vector": {"defaultWeight": -0.1}}}),
            weight("-0.1"),
        ),
        (
            json!({"retrievalMethods": {"vector": {"defaultWeight": "1"}}}),
            weight("a string | Write the number without quotes."),
        ),
        (
            json!({"retrievalMethods": {"vector": {}, "keyword": {"enabled": "yes"}}}),
            "spec.retrievalMethods.keyword.enabled: must be a boolean, not a string | \
             Write true or false, without quotes."
                .into(),
        ),
        (
            json!({"retrievalMethods": {"vector": {}, "keyword": {}, "hybrid": {"defaultWeight": 0.5}}}),
            "spec.retrievalMethods.hybrid.defaultWeight: is not a known field | Fields: \
                enabled, fusion."
                .into(),
        ),
        (
            json!({"retrievalMethods": {"vector": {}, "vectors": {}}}),
            "spec.retrievalMethods.vectors: is not a known field | Did you mean \"vector\"? \
                Fields: vector, keyword, \
             hybrid."
                .into(),
        ),
        (
            json!({"embedding": "a-model"}),
            "spec.embedding: must be an object, not a string | \
            Fields: model."
                .into(),
        ),
        (
            json!({"embedding": {"model": ""}}),
            "spec.embedding.model: must not be empty".into(),
        ),
        (
            json!({"description": ["a"]}),
            "spec.description: must be a string, not an array".into(),
        ),
        (
            json!("hnsw"),
            "spec: must be an object, not a string | \
             Fields: storageConfig, retrievalMethods, embedding, description."
                .into(),
        ),
    ] {
        assert_eq!(problems(&spec), [expected], "{spec}");
    }
}

#[test]
fn what_is_left_out_has_a_default() {
    let default = RetrieverDefinition::default();
    assert_eq!(default.storage().storage_type(), StorageType::Hnsw);
    assert_eq!(default.storage().metric(), Metric::Cosine);
    assert_eq!(default.model(), None);
    let spec = json!({"storageConfig": {
        "type": "qdrant", "url": "http://q:6333", "metric": "l2",
        "ext": {"m": 8, "shards": 2, "on_disk": true, "quantization": "int8"},
        "apiKeyRef": {"name": "q"}}});
    let definition = RetrieverDefinition::parse(&spec).unwrap_or_default();
    let storage = definition.storage();
    assert_eq!(storage.server(), Some(ServerKind::Qdrant));
    assert_eq!(storage.url(), Some("http://q:6333"));
    assert_eq!(storage.metric(), Metric::L2);
    assert_eq!(
        storage.options(),
        IndexOptions {
            m: Some(8),
            shards: Some(2),
            on_disk: Some(true),
            quantization: Some(Quantization::Int8),
            ..IndexOptions::default()
        }
    );
    let keys = storage
        .secrets()
        .map(|secret| secret.and_then(|secret| secret.key));
    assert_eq!(keys, [None, None, Some("token".to_owned())]);
}
