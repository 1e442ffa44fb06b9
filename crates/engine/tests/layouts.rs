//! Folders with the files of published models, against what `sentence-transformers` makes of
//! queries and passages. Nothing is set: prompts, layers, pooling, length and dimensions come from
//! the folders.
//!
//! `crates/model/tests/reference/make.py` makes the folders.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use rag_definition::model::Precision;
use rag_protocol::{
    ErrorKind,
    call::Purpose,
    embed::{ModelOptions, ModelRef, Priority, Task, TokenRule},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::common::{
    Embeddings, Engine, model, onnxruntime,
    references::{converted, expected, read},
};

/// Largest difference of a number.
const TOLERANCE: f32 = 1e-4;

#[derive(Deserialize)]
struct Expected<T> {
    queries: Vec<T>,
    passages: Vec<T>,
}

#[derive(Deserialize)]
struct Layout {
    texts: Expected<String>,
    vectors: Expected<Vec<f32>>,
}

fn embed(
    engine: &Engine,
    model: &ModelRef,
    purpose: Option<Purpose>,
    texts: &[String],
) -> Embeddings {
    let task = Task::Embed {
        priority: Priority::Bulk,
        purpose,
        texts: texts.to_vec(),
    };
    let (answer, payload) = engine.ask(model, task).unwrap();
    Embeddings::from(answer, &payload)
}

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|v| v * v).sum::<f32>().sqrt()
}

fn check(name: &str, found: &[Vec<f32>], expected: &[Vec<f32>], is_cut: bool) {
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{name}");
        // sentence-transformers leaves a vector shorter than 1 when it cuts it
        let scale = if is_cut { length(expected) } else { 1.0 };
        let differences = found
            .iter()
            .zip(expected)
            .map(|(a, b)| (a - b / scale).abs());
        let difference = differences.fold(0.0, f32::max);
        assert!(difference < TOLERANCE, "{name}, text {n}: {difference}");
    }
}

#[test]
fn folders_need_no_settings() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    for (name, is_cut) in [
        ("layout-leaf-ir", false),
        ("layout-granite-r2", false),
        ("layout-arctic", true),
        ("layout-bge", false),
        ("layout-e5", false),
        ("layout-gte", false),
    ] {
        let dir = converted(name);
        let layout: Layout = expected(name);
        let model = model(dir.path(), Precision::Fp32);
        let queries = embed(&engine, &model, Some(Purpose::Query), &layout.texts.queries);
        check(name, &queries.vectors, &layout.vectors.queries, is_cut);
        let passages = embed(
            &engine,
            &model,
            Some(Purpose::Passage),
            &layout.texts.passages,
        );
        check(name, &passages.vectors, &layout.vectors.passages, is_cut);
        let limit: Value = read(name, "sentence_bert_config.json");
        assert_eq!(limit["max_seq_length"], passages.model.max_tokens, "{name}");
    }
}

#[test]
fn prompts_are_those_of_the_folder_unless_the_request_has_its_own() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = converted("layout-e5");
    let model = model(dir.path(), Precision::Fp32);
    let text = vec!["red".to_owned()];
    let with = embed(&engine, &model, Some(Purpose::Query), &text);
    assert_eq!(with.model.prompts.query, "query: ");
    assert_eq!(with.model.prompts.passage, "passage: ");
    let own = embed(&engine, &model, None, &["query: red".to_owned()]);
    assert_eq!(with.vectors, own.vectors);
    assert_ne!(with.vectors, embed(&engine, &model, None, &text).vectors);
    // the hashes are those of the folder without prompts, so that equal prefixes give equal hashes
    let before = with.model;
    fs::remove_file(dir.path().join("config_sentence_transformers.json")).unwrap();
    let after = embed(&engine, &model, Some(Purpose::Query), &text);
    assert!(after.model.prompts.is_empty());
    assert_eq!(after.model.fingerprint, before.fingerprint);
    assert_ne!(after.vectors, with.vectors);
}

#[test]
fn dimensions_are_cut_where_the_folder_allows_it() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = converted("layout-leaf-ir");
    let layout: Layout = expected("layout-leaf-ir");
    let whole = model(dir.path(), Precision::Fp32);
    let cut = |dimensions| ModelRef {
        options: ModelOptions {
            dimensions: Some(dimensions),
            ..ModelOptions::default()
        },
        ..whole.clone()
    };
    let found = embed(
        &engine,
        &cut(8),
        Some(Purpose::Query),
        &layout.texts.queries,
    );
    let expected = layout
        .vectors
        .queries
        .iter()
        .map(|vector| vector[..8].to_vec());
    check("cut", &found.vectors, &expected.collect::<Vec<_>>(), true);
    assert!(
        found
            .vectors
            .iter()
            .all(|vector| (length(vector) - 1.0).abs() < 1e-5)
    );
    let refused = engine.ask(&cut(12), Task::Describe).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::InvalidRequest);
}

/// Writes a key of a JSON file.
fn change(path: &Path, key: &str, value: Value) {
    let mut content: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    content[key] = value;
    fs::write(path, content.to_string()).unwrap();
}

#[test]
fn settings_that_cannot_be_followed_are_refused_with_their_file() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    for (file, key, value, detail) in [
        (
            "config_sentence_transformers.json",
            "default_prompt_name",
            json!("missing"),
            "default_prompt_name is \"missing\", which prompts lacks",
        ),
        (
            "config_sentence_transformers.json",
            "truncate_dim",
            json!(1000),
            "truncate_dim is 1000, outside 1 to 16",
        ),
        (
            "1_Pooling/config.json",
            "include_prompt",
            json!(false),
            "include_prompt is false: a pooling without the tokens of the prompt is not supported",
        ),
    ] {
        let dir = converted("layout-e5");
        change(&dir.path().join(file), key, value);
        let model = model(dir.path(), Precision::Fp32);
        let error = engine.ask(&model, Task::Describe).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidModel);
        assert!(error.message.contains(file), "{}", error.message);
        assert_eq!(error.detail.as_deref(), Some(detail));
    }
}

#[test]
fn a_prompt_takes_room_in_a_chunk() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = converted("layout-e5");
    let model = model(dir.path(), Precision::Fp32);
    change(
        &dir.path().join("config_sentence_transformers.json"),
        "prompts",
        json!({"passage": "a long prompt of passages ".repeat(30)}),
    );
    let rules = [
        None,
        Some(TokenRule {
            tokenizer: Some(dir.path().to_owned()),
            ..TokenRule::default()
        }),
    ];
    for tokens in rules {
        let task = Task::Count {
            texts: vec!["a".into()],
            tokens,
        };
        let error = engine.ask(&model, task).unwrap_err();
        assert_eq!(error.message, "the passage prefix of the model is too long");
    }
}
