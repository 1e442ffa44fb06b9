//! Small models of each family, converted, against what `transformers` computes with them.
//!
//! `crates/model/tests/reference/make.py` makes the models and the expected values.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{fs, path::Path};

use crate::common::{
    Embeddings, Engine, model, onnxruntime,
    references::{EMBEDDING, converted, expected, reference},
};
use rag_definition::model::Precision;
use rag_protocol::{
    EngineError, ErrorKind,
    embed::{Answer, Priority, Task},
};
use serde::Deserialize;
use serde_json::{Value, json};

const SCORING: [&str; 5] = [
    "bert-score",
    "xlm-roberta-score",
    "distilbert-score",
    "mpnet-score",
    "modernbert-score",
];
/// Largest difference of a number.
const TOLERANCE: f32 = 1e-4;

#[derive(Deserialize)]
struct Vectors {
    texts: Vec<String>,
    ids: Vec<Vec<u32>>,
    vectors: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Scores {
    pairs: Vec<[String; 2]>,
    ids: Vec<Vec<u32>>,
    scores: Vec<f32>,
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn vectors_are_those_of_transformers() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    for name in EMBEDDING {
        let dir = converted(name);
        let expected: Vectors = expected(name);
        let texts: Vec<&str> = expected.texts.iter().map(String::as_str).collect();
        // all at once, so that texts of several lengths are padded
        let got = Embeddings::of(&engine, &model(dir.path(), Precision::Fp32), &texts);
        assert_eq!(got.model.dimensions, expected.vectors[0].len(), "{name}");
        for (n, (vector, expected_vector)) in got.vectors.iter().zip(&expected.vectors).enumerate()
        {
            let limit = got.model.max_tokens;
            assert_eq!(got.tokens[n].min(limit), expected.ids[n].len(), "{name}");
            let difference = vector
                .iter()
                .zip(expected_vector)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(difference < TOLERANCE, "{name}, text {n}: {difference}");
        }
        let fast = Embeddings::of(&engine, &model(dir.path(), Precision::Int8), &texts);
        assert_eq!(fast.model.identity, got.model.identity, "{name}");
        for (n, (a, b)) in fast.vectors.iter().zip(&got.vectors).enumerate() {
            let cosine = cosine(a, b);
            assert!(cosine > 0.99, "{name}, text {n} in 8 bits: {cosine}");
        }
    }
}

fn score(
    engine: &Engine,
    dir: &Path,
    precision: Precision,
    pair: &[String; 2],
) -> Result<(f32, usize), EngineError> {
    let task = Task::Score {
        priority: Priority::Query,
        query: pair[0].clone(),
        documents: vec![pair[1].clone(); 2],
    };
    match engine.ask(&model(dir, precision), task)? {
        (Answer::Scores { tokens, .. }, payload) => {
            let scores: Vec<f32> = payload
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect();
            assert_eq!(scores.len(), 2);
            assert!((scores[0] - scores[1]).abs() < 1e-6, "{scores:?}");
            Ok((scores[0], tokens[0]))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn scores_are_those_of_transformers() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    for name in SCORING {
        let dir = converted(name);
        let expected: Scores = expected(name);
        for (n, pair) in expected.pairs.iter().enumerate() {
            let (exact, tokens) = score(&engine, dir.path(), Precision::Fp32, pair).unwrap();
            let difference = (exact - expected.scores[n]).abs();
            assert!(difference < TOLERANCE, "{name}, pair {n}: {difference}");
            assert!(tokens >= expected.ids[n].len(), "{name}, pair {n}");
            let (fast, _) = score(&engine, dir.path(), Precision::Int8, pair).unwrap();
            let difference = (fast - exact).abs();
            assert!(difference < 0.5, "{name}, pair {n} in 8 bits: {difference}");
        }
    }
}

#[test]
fn documents_of_several_lengths_are_scored_together() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = converted("bert-score");
    let expected: Scores = expected("bert-score");
    let documents = expected.pairs.iter().map(|pair| pair[1].clone());
    let task = Task::Score {
        priority: Priority::Query,
        query: "rotate keys".into(),
        documents: documents.collect(),
    };
    let answer = engine.ask(&model(dir.path(), Precision::Fp32), task);
    let (_, payload) = answer.unwrap();
    for (n, bytes) in payload.as_chunks::<4>().0.iter().enumerate() {
        let pair = ["rotate keys".to_owned(), expected.pairs[n][1].clone()];
        let (alone, _) = score(&engine, dir.path(), Precision::Fp32, &pair).unwrap();
        assert!((f32::from_le_bytes(*bytes) - alone).abs() < 1e-5);
    }
}

#[test]
fn a_model_does_only_what_it_is_for() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let scorer = converted("bert-score");
    let task = Task::Embed {
        priority: Priority::Query,
        purpose: None,
        texts: vec!["a".into()],
    };
    let error = engine.ask(&model(scorer.path(), Precision::Fp32), task);
    assert_eq!(error.unwrap_err().kind, ErrorKind::InvalidModel);
    let embedder = converted("bert");
    let pair = ["a".to_owned(), "b".to_owned()];
    let error = score(&engine, embedder.path(), Precision::Fp32, &pair).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidModel);
    assert_eq!(
        error.detail.unwrap(),
        "The graph of the model embeds texts."
    );
}

#[test]
fn graphs_in_the_folder_onnx_are_found() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = converted("bert");
    let before = engine.ask(&model(dir.path(), Precision::Fp32), Task::Describe);
    fs::create_dir(dir.path().join("onnx")).unwrap();
    for (from, to) in [
        ("model.onnx", "onnx/model.onnx"),
        ("model_int8.onnx", "onnx/model_quantized.onnx"),
    ] {
        fs::rename(dir.path().join(from), dir.path().join(to)).unwrap();
    }
    for precision in [Precision::Fp32, Precision::Int8] {
        engine
            .ask(&model(dir.path(), precision), Task::Describe)
            .unwrap();
    }
    let after = engine.ask(&model(dir.path(), Precision::Fp32), Task::Describe);
    assert_eq!(before, after);
}

/// Changes `config.json` of a converted model.
fn change(dir: &Path, key: &str, value: Value) {
    let path = dir.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config[key] = value;
    fs::write(path, config.to_string()).unwrap();
}

#[test]
fn files_that_do_not_fit_are_named() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let cases: [(&str, Value, ErrorKind, &str); 4] = [
        (
            "vocab_size",
            json!(100),
            ErrorKind::InvalidModel,
            "it has a token of number 182; the model has 100 words",
        ),
        (
            "hidden_size",
            json!(25),
            ErrorKind::InvalidModel,
            "its output \"sentence_embedding\" has 24 dimensions",
        ),
        (
            "hidden_size",
            json!(1u64 << 60),
            ErrorKind::InvalidModel,
            "hidden_size is 1152921504606846976",
        ),
        (
            "max_position_embeddings",
            json!(1),
            ErrorKind::InvalidModel,
            "max_seq_length is 64, outside 3 to 1",
        ),
    ];
    for (key, value, kind, detail) in cases {
        let dir = converted("bert");
        change(dir.path(), key, value);
        let answer = engine.ask(&model(dir.path(), Precision::Fp32), Task::Describe);
        let error = answer.unwrap_err();
        assert_eq!(error.kind, kind, "{error:?}");
        let actual = error.detail.clone().unwrap_or_default();
        assert!(actual.contains(detail), "{error:?}");
    }
    // the tokenizer of another model
    let dir = converted("bert-score");
    let other = converted("bert");
    fs::copy(
        reference("modernbert").join("tokenizer.json"),
        dir.path().join("tokenizer.json"),
    )
    .unwrap();
    let answer = engine.ask(&model(dir.path(), Precision::Fp32), Task::Describe);
    assert_eq!(answer.unwrap_err().kind, ErrorKind::InvalidModel);
    engine
        .ask(&model(other.path(), Precision::Fp32), Task::Describe)
        .unwrap();
}
