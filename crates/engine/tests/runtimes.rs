//! OpenVINO as the runtime of graphs, against ONNX Runtime.
//!
//! Tests that need OpenVINO are skipped where `RAG_OPENVINO` does not name its library: it is
//! installed on request only.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::common::{
    Embeddings, Engine, default_model, dot, embed, long_text, model, onnxruntime,
    references::{EMBEDDING, converted},
};
use rag_definition::model::Precision;
use rag_protocol::{
    EngineError, ErrorKind,
    embed::{Priority, Task},
};

/// Models whose graphs have no mask. OpenVINO 2026.4 computes some of them wrongly.
const WITHOUT_MASK: [&str; 3] = ["xlm-roberta-long", "nomic-bert", "modernbert"];

/// Returns the libraries of both runtimes.
fn runtimes() -> Option<(PathBuf, String)> {
    let openvino = env::var("RAG_OPENVINO")
        .ok()
        .filter(|path| !path.is_empty());
    if openvino.is_none() {
        eprintln!("skipped: RAG_OPENVINO is not set");
    }
    Some((onnxruntime()?, openvino?))
}

/// Returns both runtimes' libraries, and the default model's folder.
fn with_default_model() -> Option<(PathBuf, String, PathBuf)> {
    let ((onnxruntime, openvino), dir) = runtimes().zip(default_model())?;
    Some((onnxruntime, openvino, dir))
}

fn start(onnxruntime: &Path, openvino: &str, choice: &str) -> Engine {
    let options = ["--openvino", openvino, "--execution-provider", choice];
    Engine::start_with(onnxruntime, &options)
}

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = (0..20).map(long_text).collect();
    texts.push("one".into());
    texts.push("How are the signing keys rotated, and by whom?".into());
    texts.extend((1..12).map(|words| "some words ".repeat(words)));
    texts
}

#[test]
fn embeddings_of_both_runtimes_are_the_same() {
    let Some((onnxruntime, openvino, dir)) = with_default_model() else {
        return;
    };
    let (one, other) = (
        Engine::start(&onnxruntime),
        start(&onnxruntime, &openvino, "openvino"),
    );
    let model = model(&dir, Precision::Fp32);
    let texts = texts();
    let expected = Embeddings::of(&one, &model, &texts);
    let found = Embeddings::of(&other, &model, &texts);
    other.wait_for_log("runtime=\"openvino\"", 1);
    assert_eq!(found.model, expected.model);
    assert_eq!(found.tokens, expected.tokens);
    for (n, (a, b)) in found.vectors.iter().zip(&expected.vectors).enumerate() {
        let cosine = dot(a, b);
        assert!(cosine > 0.9995, "text {n}: {cosine}");
    }
}

#[test]
fn embeddings_do_not_depend_on_other_texts() {
    let Some((onnxruntime, openvino, dir)) = with_default_model() else {
        return;
    };
    let engine = start(&onnxruntime, &openvino, "openvino");
    let model = model(&dir, Precision::Fp32);
    let texts = texts();
    let together = Embeddings::of(&engine, &model, &texts);
    for (text, expected) in texts.iter().zip(&together.vectors) {
        let alone = Embeddings::of(&engine, &model, &[text]);
        assert_eq!(alone.vectors[0], *expected, "{text}");
    }
}

#[test]
fn families_of_both_runtimes_are_the_same() {
    let Some((onnxruntime, openvino)) = runtimes() else {
        return;
    };
    let plain = Engine::start(&onnxruntime);
    let texts = texts();
    for name in EMBEDDING {
        let dir = converted(name);
        let model = model(dir.path(), Precision::Fp32);
        let engine = start(&onnxruntime, &openvino, "openvino");
        let expected = Embeddings::of(&plain, &model, &texts);
        let found = Embeddings::of(&engine, &model, &texts);
        for (a, b) in found.vectors.iter().zip(&expected.vectors) {
            assert!(dot(a, b) > 0.995, "{name}: {}", dot(a, b));
        }
        if WITHOUT_MASK.contains(&name) {
            engine.wait_for_log("runtime=\"onnxruntime\"", 1)
        } else {
            engine.wait_for_log("runtime=\"openvino\"", 1)
        }
    }
}

#[test]
fn graphs_in_8_bits_stay_with_onnx_runtime() {
    let Some((onnxruntime, openvino, dir)) = with_default_model() else {
        return;
    };
    let engine = start(&onnxruntime, &openvino, "openvino");
    let texts = texts();
    let found = Embeddings::of(&engine, &model(&dir, Precision::Int8), &texts);
    let plain = Engine::start(&onnxruntime);
    let expected = Embeddings::of(&plain, &model(&dir, Precision::Int8), &texts);
    assert_eq!(found.vectors, expected.vectors);
    engine.wait_for_log("runtime=\"onnxruntime\"", 1);
}

#[test]
fn idle_models_are_dropped_and_loaded_again() {
    let Some((onnxruntime, openvino, dir)) = with_default_model() else {
        return;
    };
    let options = [
        "--openvino",
        &openvino,
        "--execution-provider",
        "openvino",
        "--idle",
        "1",
    ];
    let engine = Engine::start_with(&onnxruntime, &options);
    let (default, other) = (model(&dir, Precision::Fp32), converted("bert"));
    let before = Embeddings::of(&engine, &default, &texts());
    Embeddings::of(&engine, &model(other.path(), Precision::Fp32), &["one"]);
    engine.wait_for_log("dropped a model", 1);
    let after = Embeddings::of(&engine, &default, &texts());
    assert_eq!(before.vectors, after.vectors);
    engine.wait_for_log("loaded a model", 3);
}

#[test]
fn work_of_a_client_that_hangs_up_is_dropped() {
    let Some((onnxruntime, openvino, dir)) = with_default_model() else {
        return;
    };
    let engine = start(&onnxruntime, &openvino, "openvino");
    let model = model(&dir, Precision::Fp32);
    let mut client = engine.connect();
    let texts: Vec<String> = (0..2000).map(long_text).collect();
    client.send(&model, embed(Priority::Bulk, &texts[..1]));
    client.send(&model, embed(Priority::Bulk, &texts));
    client.receive().unwrap();
    drop(client);
    engine.wait_for_log("disconnected", 1);
    let found = Embeddings::of(&engine, &model, &["another client"]);
    assert_eq!(found.vectors.len(), 1);
}

#[test]
fn a_damaged_plugin_is_an_error_only_if_it_is_required() {
    let Some((onnxruntime, openvino)) = runtimes() else {
        return;
    };
    let dir = converted("bert");
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(Path::new(&openvino).parent().unwrap()).unwrap() {
        let from = entry.unwrap().path();
        let to = folder.path().join(from.file_name().unwrap());
        if from.to_string_lossy().contains("cpu_plugin") {
            fs::write(to, "").unwrap()
        } else {
            fs::copy(from, to).map(drop).unwrap()
        }
    }
    let library = folder.path().join("libopenvino_c.so");
    let engine = start(&onnxruntime, library.to_str().unwrap(), "openvino");
    let error = describe(&engine, dir.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error:?}");
    assert!(error.message.contains("OpenVINO"), "{error:?}");
    assert!(error.hint.unwrap().contains("rag.execution_provider"));
    let engine = start(&onnxruntime, library.to_str().unwrap(), "auto");
    describe(&engine, dir.path()).unwrap();
    engine.wait_for_log("runtime=\"onnxruntime\"", 1);
}

fn describe(engine: &Engine, dir: &Path) -> Result<(), EngineError> {
    engine
        .ask(&model(dir, Precision::Fp32), Task::Describe)
        .map(drop)
}

#[test]
fn a_missing_openvino_is_an_error_only_if_it_is_required() {
    let Some(onnxruntime) = onnxruntime() else {
        return;
    };
    let dir = converted("bert");
    let engine = start(&onnxruntime, "nowhere/libopenvino_c.so", "openvino");
    let error = describe(&engine, dir.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::FileNotFound);
    assert!(error.hint.unwrap().contains("WITH_OPENVINO=1"));
    let engine = start(&onnxruntime, "nowhere/libopenvino_c.so", "auto");
    describe(&engine, dir.path()).unwrap();
    engine.wait_for_log("runtime=\"onnxruntime\"", 1);
}

#[test]
fn a_file_that_is_no_library_is_an_error_only_if_it_is_required() {
    let Some(onnxruntime) = onnxruntime() else {
        return;
    };
    let dir = converted("bert");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libopenvino_c.so");
    let another_library = fs::read(&onnxruntime).unwrap();
    for content in [&b""[..], b"no library", &another_library] {
        fs::write(&file, content).unwrap();
        let engine = start(&onnxruntime, file.to_str().unwrap(), "openvino");
        let error = describe(&engine, dir.path()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error:?}");
        let engine = start(&onnxruntime, file.to_str().unwrap(), "auto");
        describe(&engine, dir.path()).unwrap();
        engine.wait_for_log("runtime=\"onnxruntime\"", 1);
    }
}
