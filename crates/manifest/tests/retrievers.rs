//! Wrong fields of retrievers are reported with their paths.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod support;

use serde_json::{Value, json};
use support::problems;

fn retriever(spec: Value) -> Value {
    json!({"apiVersion": "agent.wecode.io/v1", "kind": "Retriever", "metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn wrong_retrievers_are_refused() {
    let weight = |found| {
        format!(
            "spec.retrievalMethods.vector.defaultWeight: must be a number from 0 to 1, not {found}"
        )
    };
    let storage = |key: &str, value: Value| json!({"storageConfig": {"type": "hnsw", key: value}});
    let local = |key: &str| {
        format!(
            "spec.storageConfig.{key}: is for storage on another server, but \"hnsw\" is in this \
                database | Leave it out."
        )
    };
    let strategy = |key: &str, value: Value| json!({"storageConfig": {"indexStrategy": {"mode": "per_dataset", key: value}}});
    for (spec, expected) in [
        (
            json!({"storageConfig": {"type": "qdrant", "url": "http://q:6333", "apiKey": "k"}}),
            "spec.storageConfig.type: \"qdrant\" is not supported by this version | Types: hnsw, \
                flat."
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
        (storage("ext", json!({})), local("ext")),
        (json!({"storageConfig": {"url": "x"}}), local("url")),
        (
            storage("tpye", json!(1)),
            "spec.storageConfig.tpye: is not a known field | Did you mean \"type\"? Fields: type, \
                url, username, \
             password, apiKey, ext, indexStrategy."
                .into(),
        ),
        (
            strategy("mode", json!("fixed")),
            "spec.storageConfig.indexStrategy.mode: \"fixed\" is not supported by this version | \
             Write mode: per_dataset."
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
            strategy("prefix", json!("docs")),
            "spec.storageConfig.indexStrategy.prefix: \"docs\" is not supported by this version | \
             Leave it out, or write prefix: rag."
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
            weight("a string"),
        ),
        (
            json!({"retrievalMethods": {"keyword": {"enabled": "yes"}}}),
            "spec.retrievalMethods.keyword.enabled: must be a boolean, not a string | \
             Write true or false, without quotes."
                .into(),
        ),
        (
            json!({"retrievalMethods": {"hybrid": {"defaultWeight": 0.5}}}),
            "spec.retrievalMethods.hybrid.defaultWeight: is not a known field | Fields: \
                enabled."
                .into(),
        ),
        (
            json!({"retrievalMethods": {"vectors": {}}}),
            "spec.retrievalMethods.vectors: is not a known field | Did you mean \"vector\"? \
                Fields: vector, keyword, \
             hybrid."
                .into(),
        ),
        (
            json!({"embedding": "a-model"}),
            "spec.embedding: must be a mapping, not a string | \
            Fields: model."
                .into(),
        ),
        (
            json!({"embedding": {"model": ""}}),
            "spec.embedding.model: must not be empty".into(),
        ),
        (
            json!({"description": ["a"]}),
            "spec.description: must be a string, not a list".into(),
        ),
        (
            json!("hnsw"),
            "spec: must be a mapping, not a string | \
             Fields: storageConfig, retrievalMethods, embedding, description."
                .into(),
        ),
    ] {
        let text = retriever(spec).to_string();
        assert_eq!(problems(&text), [expected], "{text}");
    }
    assert_eq!(
        problems(&retriever(Value::Null).to_string()),
        ["spec: is missing | Fields: storageConfig, retrievalMethods, embedding, description."]
    );
}
