//! The vectors of the default model.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{Embeddings, Engine, default_model, dot, embed, long_text, model, onnxruntime};
use rag_definition::model::Precision;
use rag_protocol::embed::{Answer, Priority, Task};

/// The first values of some embeddings, computed in 64-bit floats straight from the weights (NumPy,
/// no ONNX).
const REFERENCE: [(&str, [f64; 6]); 3] = [
    (
        "hello world",
        [
            -0.034477273,
            0.031023191,
            0.0067349666,
            0.026109004,
            -0.039362032,
            -0.16030248,
        ],
    ),
    (
        "",
        [
            -0.118838404,
            0.048298717,
            -0.0025481075,
            -0.011011172,
            0.051950774,
            0.01029175,
        ],
    ),
    (
        "how do I rotate the signing keys?",
        [
            0.016300438,
            -0.011317108,
            -0.040667423,
            -0.065779554,
            -0.025372928,
            0.017088401,
        ],
    ),
];

#[test]
fn fp32_equals_the_reference() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let got = Embeddings::of(
        &engine,
        &model(&dir, Precision::Fp32),
        &REFERENCE.map(|(text, _)| text),
    );
    assert_eq!(got.model.dimensions, 384);
    assert_eq!(got.model.max_tokens, 256);
    assert_eq!(got.tokens, [4, 2, 10]);
    for ((text, expected), vector) in REFERENCE.iter().zip(&got.vectors) {
        for (expected, value) in expected.iter().zip(vector) {
            assert!(
                (expected - f64::from(*value)).abs() < 1e-6,
                "{text}: {expected} and {value}"
            );
        }
    }
}

#[test]
fn int8_stays_close_to_fp32() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let sentences = [
        "How do I rotate the signing keys?",
        "VACUUM reclaims storage occupied by dead tuples; in normal operation they are not \
            removed from their table.",
        "Backups run at night.",
        "Индекс перестраивается без блокировки записи.",
        "Die Replik wendet das Protokoll des Hauptservers an, und Abfragen laufen weiter.",
        "SELECT title, score FROM rag_search('signing keys') ORDER BY score DESC LIMIT 5;",
        "Zero-dimensional biomaterials show inductive properties.",
        "Le chat dort sur le clavier.",
        "fn main() { println!(\"{}\", 6 * 7); }",
        "The committee met on 12 May 2024 and approved a budget of 1,250,000 euros for the new \
            library.",
    ];
    let texts: Vec<String> = (0..50)
        .map(|i| {
            (0..=i / 10 * 2)
                .map(|j| sentences[(i + j * 3) % sentences.len()])
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    let exact = Embeddings::of(&engine, &model(&dir, Precision::Fp32), &texts);
    let quick = Embeddings::of(&engine, &model(&dir, Precision::Int8), &texts);
    assert_ne!(exact.model.fingerprint, quick.model.fingerprint);
    assert_eq!(exact.model.identity, quick.model.identity);
    for ((a, b), text) in exact.vectors.iter().zip(&quick.vectors).zip(&texts) {
        assert!((dot(b, b) - 1.0).abs() < 1e-5);
        assert!(dot(a, b) >= 0.98, "{} for {text}", dot(a, b));
    }
}

#[test]
fn a_vector_does_not_depend_on_its_neighbours() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let texts: Vec<String> = (0..20)
        .map(|i| long_text(i).chars().take((i * 37) % 500).collect())
        .collect();
    for precision in [Precision::Fp32, Precision::Int8] {
        let model = model(&dir, precision);
        let together = Embeddings::of(&engine, &model, &texts);
        for (text, expected) in texts.iter().zip(&together.vectors) {
            let alone = Embeddings::of(&engine, &model, &[text]);
            assert_eq!(alone.vectors[0], *expected, "{precision:?}: {text}");
        }
        // by now each text is computed by one thread
        let again = Embeddings::of(&engine, &model, &texts);
        assert_eq!(again.vectors, together.vectors, "{precision:?}");
    }
}

#[test]
fn tokens_are_counted_before_truncation() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    // One token each, between [CLS] and [SEP]; exactly the limit, one more, and many more.
    let texts: Vec<String> = [254, 255, 5000].iter().map(|n| "key ".repeat(*n)).collect();
    let got = Embeddings::of(&engine, &model(&dir, Precision::Fp32), &texts);
    assert_eq!(got.tokens, [256, 257, 5002]);
    for vector in &got.vectors[1..] {
        assert!(
            dot(vector, &got.vectors[0]) > 1.0 - 1e-6,
            "what exceeds the limit is not seen"
        );
    }
}

#[test]
fn the_cosines_of_unrelated_texts_begin_near_0() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    for precision in [Precision::Fp32, Precision::Int8] {
        let got = Embeddings::of(&engine, &model(&dir, precision), &["hello"]);
        assert!(got.model.baseline < 0.1, "{:?}", got.model);
    }
}

#[test]
fn the_description_of_a_model_has_its_fingerprint() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let reference = model(&dir, Precision::Int8);
    let (answer, _) = engine.ask(&reference, Task::Describe).unwrap();
    let Answer::Model { model: described } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(described.name, dir.file_name().unwrap().to_str().unwrap());
    assert_eq!(
        (described.fingerprint.len(), described.identity.len()),
        (64, 64)
    );
    let none: [&str; 0] = [];
    let (answer, payload) = engine
        .ask(&reference, embed(Priority::Bulk, &none))
        .unwrap();
    assert_eq!(Embeddings::from(answer, &payload).model, described);
}
