//! Late interaction: scores of documents by the vectors of their tokens.
//!
//! `crates/model/tests/reference/late.py` makes the expected scores.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use crate::common::{
    Client, Embeddings, Engine, default_model, model, onnxruntime,
    references::{EMBEDDING, converted, expected, read},
};
use rag_definition::model::Precision;
use rag_protocol::{
    EngineError, ErrorKind,
    embed::{Answer, ModelInfo, ModelOptions, ModelRef, Priority, Task},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Texts {
    texts: Vec<String>,
    ids: Vec<Vec<u32>>,
}

fn late(dir: &Path, precision: Precision) -> ModelRef {
    ModelRef {
        options: ModelOptions {
            compares_tokens: true,
            ..ModelOptions::default()
        },
        ..model(dir, precision)
    }
}

fn compare(query: &str, documents: &[String]) -> Task {
    Task::Score {
        priority: Priority::Query,
        query: query.into(),
        documents: documents.to_vec(),
    }
}

struct Scores {
    scores: Vec<f32>,
    tokens: Vec<usize>,
    model: ModelInfo,
}

fn score(
    engine: &Engine,
    model: &ModelRef,
    query: &str,
    documents: &[String],
) -> Result<Scores, EngineError> {
    match engine.ask(model, compare(query, documents))? {
        (Answer::Scores { tokens, model }, payload) => {
            let numbers = payload.as_chunks::<4>().0.iter();
            Ok(Scores {
                scores: numbers.map(|b| f32::from_le_bytes(*b)).collect(),
                tokens,
                model,
            })
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn scores_are_those_of_the_reference() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = converted("bert");
    let texts: Texts = expected("bert");
    let scores: Vec<Vec<f32>> = read("bert", "late.json");
    for (query, expected) in texts.texts.iter().zip(&scores) {
        let exact = score(
            &engine,
            &late(dir.path(), Precision::Fp32),
            query,
            &texts.texts,
        );
        let exact = exact.unwrap();
        for (n, (score, expected)) in exact.scores.iter().zip(expected).enumerate() {
            assert!((score - expected).abs() < 1e-5, "{n}: {score}, {expected}");
            let read = exact.tokens[n].min(exact.model.max_tokens);
            assert_eq!(read, texts.ids[n].len());
        }
        let fast = score(
            &engine,
            &late(dir.path(), Precision::Int8),
            query,
            &texts.texts,
        );
        for (score, expected) in fast.unwrap().scores.iter().zip(expected) {
            assert!((score - expected).abs() < 0.05, "{score}, {expected}");
        }
    }
}

#[test]
fn each_family_compares_tokens() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    for name in EMBEDDING {
        let dir = converted(name);
        let texts: Texts = expected(name);
        for precision in Precision::ALL {
            let late = late(dir.path(), precision);
            for (n, query) in texts.texts.iter().enumerate() {
                let scores = score(&engine, &late, query, &texts.texts).unwrap().scores;
                assert!((scores[n] - 1.0).abs() < 1e-5, "{name}, itself: {scores:?}");
                assert!(
                    scores.iter().all(|score| *score <= 1.0),
                    "{name}: {scores:?}"
                );
            }
        }
    }
}

#[test]
fn neighbours_change_no_bit() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = converted("bert");
    let texts: Texts = expected("bert");
    for precision in Precision::ALL {
        let late = late(dir.path(), precision);
        // more than one slice, of several lengths
        let many: Vec<String> = texts.texts.iter().cycle().take(19).cloned().collect();
        let together = score(&engine, &late, "rotate keys", &many).unwrap().scores;
        for (document, together) in many.iter().zip(together) {
            let alone = score(
                &engine,
                &late,
                "rotate keys",
                std::slice::from_ref(document),
            )
            .unwrap();
            assert_eq!(alone.scores, [together], "{precision:?}");
        }
    }
}

#[test]
fn the_default_model_finds_the_answer() {
    let (Some(library), Some(dir)) = (onnxruntime(), default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let documents = [
        "Bread is baked in an oven at 220 degrees.",
        "The signing keys are replaced in the first week of each quarter.",
        "",
    ]
    .map(String::from);
    for precision in Precision::ALL {
        let late = late(&dir, precision);
        let query = "when do we rotate the keys?";
        let scores = score(&engine, &late, query, &documents).unwrap().scores;
        assert!(scores[1] > scores[0] + 0.1, "{scores:?}");
        assert!(scores[1] > scores[2] + 0.1, "{scores:?}");
        // an empty query consists of special tokens
        let scores = score(&engine, &late, "", &documents).unwrap().scores;
        assert!(
            scores.iter().all(|score| (-1.0..=1.0).contains(score)),
            "{scores:?}"
        );

        let long = "The door has a lock. ".repeat(200);
        let longer = format!("{long}{}", "when do we rotate the keys? ".repeat(40_000));
        let cut = score(&engine, &late, query, &[long, longer]).unwrap();
        assert_eq!(
            cut.scores[0], cut.scores[1],
            "what follows 256 tokens is not read"
        );
        assert!(cut.tokens.iter().all(|tokens| *tokens > 256));
        assert_eq!(cut.model.max_tokens, 256);
    }
}

#[test]
fn embeddings_stay_as_they_are() {
    let (Some(library), Some(dir)) = (onnxruntime(), default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    for precision in Precision::ALL {
        let plain = model(&dir, precision);
        let before = Embeddings::of(&engine, &plain, &["hello"]);
        score(&engine, &late(&dir, precision), "hello", &["hi".into()]).unwrap();
        let after = Embeddings::of(&engine, &plain, &["hello"]);
        assert_eq!(before.vectors, after.vectors);
        assert_eq!(before.model, after.model);
    }
}

#[test]
fn other_models_and_tasks_are_refused() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let scorer = converted("bert-score");
    let late_scorer = late(scorer.path(), Precision::Fp32);
    let error = score(&engine, &late_scorer, "a", &["b".into()])
        .err()
        .unwrap();
    assert_eq!(error.kind, ErrorKind::InvalidModel);
    let detail = error.detail.unwrap();
    assert_eq!(
        detail,
        "it does not return the vectors of tokens, only logits"
    );
    let embedder = converted("bert");
    let task = Task::Embed {
        priority: Priority::Query,
        purpose: None,
        texts: vec!["a".into()],
    };
    let late_embedder = late(embedder.path(), Precision::Fp32);
    let error = engine.ask(&late_embedder, task).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidModel);
    let none = score(&engine, &late_embedder, "a", &[]).unwrap();
    assert!(none.scores.is_empty());
}

#[test]
fn a_client_that_hangs_up_costs_a_slice() {
    let (Some(library), Some(dir)) = (onnxruntime(), default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let late = late(&dir, Precision::Int8);
    let documents = vec!["The keys of the door. ".repeat(100); 1000];
    let mut gone: Client = engine.connect();
    gone.send(&late, compare("keys", &documents));
    drop(gone);
    engine.wait_for_log("disconnected", 1);
    let scores = score(&engine, &late, "keys", &documents[..1])
        .unwrap()
        .scores;
    assert_eq!(scores.len(), 1);
}
