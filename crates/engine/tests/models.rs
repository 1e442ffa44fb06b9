//! Model folders good and bad, without the default model.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{fs, path::Path};

use crate::common::{
    Embeddings, Engine, PROGRAM, embed, eventually, model, model_folder, onnxruntime,
    tiny::{self, DIMENSIONS, Output, direction},
};
use rag_definition::model::Precision;
use rag_protocol::{
    EngineError, ErrorKind,
    embed::{Answer, Priority, Task},
};

const HIDDEN: Output = Output::Hidden("last_hidden_state");

fn describe(engine: &Engine, dir: &Path) -> Result<Answer, EngineError> {
    engine
        .ask(&model(dir, Precision::Fp32), Task::Describe)
        .map(|(answer, _)| answer)
}

fn assert_close(got: &[f32], expected: &[f32]) {
    assert!(
        got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6),
        "{got:?} and {expected:?}"
    );
}

#[test]
fn token_vectors_are_pooled_as_the_folder_says() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = model_folder();
    let texts = ["red green", "blue", "red red red red red red red red red"];
    let (mean, first) = (
        Some("pooling_mode_mean_tokens"),
        Some("pooling_mode_cls_token"),
    );
    for (name, output, segments, pooling) in [
        ("mean", HIDDEN, true, mean),
        ("default", HIDDEN, false, None),
        (
            "other name",
            Output::Hidden("token_embeddings"),
            false,
            mean,
        ),
    ] {
        let dir = dir.path().join(name);
        tiny::write(&dir, output, segments, pooling);
        let got = Embeddings::of(&engine, &model(&dir, Precision::Fp32), &texts);
        assert_eq!(got.model.name, name);
        assert_eq!(
            (got.model.dimensions, got.model.max_tokens),
            (DIMENSIONS, 8)
        );
        assert_eq!(got.tokens, [4, 3, 11]);
        assert_close(&got.vectors[0], &direction(&[1, 3, 4, 2]));
        assert_close(&got.vectors[1], &direction(&[1, 5, 2]));
        assert_close(&got.vectors[2], &direction(&[1, 3, 3, 3, 3, 3, 3, 2]));
    }
    let dir = dir.path().join("cls");
    tiny::write(&dir, HIDDEN, true, first);
    let got = Embeddings::of(&engine, &model(&dir, Precision::Fp32), &texts);
    assert_close(&got.vectors[0], &direction(&[1]));
}

#[test]
fn a_pooled_output_is_only_normalised() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = model_folder();
    tiny::write(dir.path(), Output::Pooled, false, None);
    let got = Embeddings::of(&engine, &model(dir.path(), Precision::Fp32), &["red"]);
    assert_close(&got.vectors[0], &direction(&[1, 3, 2]));
}

/// All words of the texts that the baseline is measured with are `[UNK]`, so they are alike.
#[test]
fn the_baseline_of_a_model_that_finds_all_texts_alike_is_high() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = model_folder();
    tiny::write(dir.path(), Output::Pooled, false, None);
    let Ok(Answer::Model { model }) = describe(&engine, dir.path()) else {
        panic!("no description")
    };
    assert!(model.baseline > 0.95, "{model:?}");
}

#[test]
fn an_invalid_folder_is_reported_and_can_be_repaired() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let root = model_folder();
    let dir = root.path().join("model");

    let missing = describe(&engine, &dir).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::FileNotFound);
    assert!(missing.message.contains("model") && missing.hint.is_some());
    fs::write(root.path().join("file"), "").unwrap();
    assert_eq!(
        describe(&engine, &root.path().join("file"))
            .unwrap_err()
            .kind,
        ErrorKind::WrongFileType
    );

    type Damage = fn(&Path);
    let damages: [(&str, ErrorKind, Damage); 10] = [
        ("model.onnx", ErrorKind::FileNotFound, |dir| {
            fs::remove_file(dir.join("model.onnx")).unwrap()
        }),
        ("model.onnx", ErrorKind::InvalidModel, |dir| {
            let bytes = fs::read(dir.join("model.onnx")).unwrap();
            fs::write(dir.join("model.onnx"), &bytes[..bytes.len() - 70]).unwrap();
        }),
        ("model.onnx", ErrorKind::InvalidModel, |dir| {
            fs::write(dir.join("model.onnx"), "no graph").unwrap()
        }),
        ("model.onnx", ErrorKind::InvalidModel, |dir| {
            tiny::write(dir, Output::Hidden("logits"), true, None)
        }),
        ("tokenizer.json", ErrorKind::FileNotFound, |dir| {
            fs::remove_file(dir.join("tokenizer.json")).unwrap()
        }),
        ("tokenizer.json", ErrorKind::InvalidModel, |dir| {
            fs::write(dir.join("tokenizer.json"), "{}").unwrap()
        }),
        ("config.json", ErrorKind::FileNotFound, |dir| {
            fs::remove_file(dir.join("config.json")).unwrap()
        }),
        ("model.onnx", ErrorKind::InvalidModel, |dir| {
            fs::write(dir.join("config.json"), r#"{"hidden_size": 5}"#).unwrap();
        }),
        ("1_Pooling/config.json", ErrorKind::InvalidModel, |dir| {
            fs::write(
                dir.join("1_Pooling/config.json"),
                r#"{"pooling_mode_weightedmean_tokens": true}"#,
            )
            .unwrap();
        }),
        // A word whose id is beyond the graph's table: only running the graph shows it.
        ("model.onnx", ErrorKind::InvalidModel, |dir| {
            let tokenizer = fs::read_to_string(dir.join("tokenizer.json")).unwrap();
            fs::write(
                dir.join("tokenizer.json"),
                tokenizer.replace("\"[UNK]\":0", "\"[UNK]\":99"),
            )
            .unwrap();
        }),
    ];
    for (i, (file, kind, damage)) in damages.into_iter().enumerate() {
        let _ = fs::remove_dir_all(&dir);
        tiny::write(&dir, HIDDEN, true, None);
        damage(&dir);
        let error = describe(&engine, &dir).expect_err(&format!("damage {i}"));
        assert_eq!(error.kind, kind, "damage {i}: {error:?}");
        assert!(error.message.contains(file), "damage {i}: {error:?}");
        assert!(error.detail.is_some(), "damage {i}: {error:?}");
        let _ = fs::remove_dir_all(&dir);
        tiny::write(&dir, HIDDEN, true, None);
        describe(&engine, &dir).unwrap_or_else(|e| panic!("repaired after damage {i}: {e:?}"));
    }
}

#[test]
fn changed_files_are_noticed() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = model_folder();
    tiny::write(dir.path(), HIDDEN, true, Some("pooling_mode_mean_tokens"));
    let before = describe(&engine, dir.path()).unwrap();
    assert_eq!(describe(&engine, dir.path()).unwrap(), before);
    tiny::write(dir.path(), HIDDEN, true, Some("pooling_mode_cls_token"));
    assert_ne!(describe(&engine, dir.path()).unwrap(), before);
}

/// Makes a model larger: space in JSON is part of no model.
fn enlarge(dir: &Path, bytes: usize) {
    let path = dir.join("tokenizer.json");
    let mut json = fs::read(&path).unwrap();
    json.resize(json.len() + bytes, b' ');
    fs::write(path, json).unwrap();
}

#[test]
fn the_least_recently_used_model_is_dropped() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start_with(&library, &["--model-memory", "20"]);
    let root = model_folder();
    let dirs = ["a", "b", "c"].map(|name| root.path().join(name));
    for dir in &dirs {
        tiny::write(dir, HIDDEN, true, None);
        enlarge(dir, 1 << 20);
    }
    for dir in [&dirs[0], &dirs[1], &dirs[0], &dirs[2]] {
        describe(&engine, dir).unwrap();
    }
    let log = engine.log();
    let dropped: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("dropped a model"))
        .collect();
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert!(dropped[0].contains("/b "), "{dropped:?}");
}

#[test]
fn a_model_that_does_not_fit_is_refused() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start_with(&library, &["--model-memory", "7"]);
    let dir = model_folder();
    tiny::write(dir.path(), HIDDEN, true, None);
    describe(&engine, dir.path()).unwrap();
    enlarge(dir.path(), 1 << 20);
    let error = describe(&engine, dir.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
    let detail = error.detail.unwrap();
    assert_eq!(detail, "It needs about 9 MB, and rag.model_memory is 7 MB.");
    assert!(error.hint.is_some());
}

#[test]
fn an_idle_model_is_dropped_unless_it_was_the_last() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start_with(&library, &["--idle", "0"]);
    let root = model_folder();
    for name in ["a", "b"] {
        let dir = root.path().join(name);
        tiny::write(&dir, HIDDEN, true, None);
        describe(&engine, &dir).unwrap();
    }
    engine.wait_for_log("dropped a model", 1);
    let log = engine.log();
    let dropped: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("dropped a model"))
        .collect();
    assert!(
        dropped.iter().all(|line| line.contains("/a ")),
        "{dropped:?}"
    );
}

#[test]
fn a_provider_that_the_library_lacks_is_an_error() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start_with(&library, &["--execution-provider", "cuda"]);
    let dir = model_folder();
    tiny::write(dir.path(), HIDDEN, true, None);
    let error = describe(&engine, dir.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("\"cuda\""), "{error:?}");
    assert!(error.hint.unwrap().contains("rag.onnxruntime_library"));
}

#[test]
fn a_missing_onnx_runtime_is_an_error_of_the_request() {
    let engine = Engine::start(Path::new("nowhere/libonnxruntime.so"));
    let dir = model_folder();
    tiny::write(dir.path(), HIDDEN, true, None);
    let error = describe(&engine, dir.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::FileNotFound);
    assert!(
        error.message.contains("nowhere/libonnxruntime.so") && error.hint.is_some(),
        "{error:?}"
    );
}

#[test]
fn a_killed_engines_socket_is_replaced() {
    let Some(library) = onnxruntime() else { return };
    let dir = model_folder();
    tiny::write(dir.path(), HIDDEN, true, None);
    let engine = Engine::start(&library);
    describe(&engine, dir.path()).unwrap();
    let mut waiting = engine.connect();
    let engine = engine.kill_and_restart(&library);
    assert!(waiting.receive().is_none(), "the old connection has ended");
    describe(&engine, dir.path()).unwrap();
}

#[test]
fn the_socket_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&engine.socket), 0o600);
    assert_eq!(mode(engine.socket.parent().unwrap()), 0o700);
}

#[test]
fn the_end_of_standard_input_ends_the_engine() {
    let Some(library) = onnxruntime() else { return };
    let mut engine = Engine::start_with(&library, &["--watch-stdin"]);
    drop(engine.process.stdin.take());
    assert_eq!(engine.process.wait().unwrap().code(), Some(6));
}

#[test]
fn the_parents_death_ends_the_engine() {
    use std::{io::BufRead, process::Command};
    let dir = model_folder();
    let script = r#""$0" embed --socket "$1/run/s" --onnxruntime none & echo $!; wait"#;
    let mut parent = Command::new("sh")
        .args(["-c", script, PROGRAM])
        .arg(dir.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(parent.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    eventually("the engine's socket", || dir.path().join("run/s").exists());
    parent.kill().unwrap();
    parent.wait().unwrap();
    let status = Path::new("/proc").join(line.trim()).join("status");
    eventually("the engine to end", || {
        fs::read_to_string(&status).map_or(true, |status| status.contains("State:\tZ"))
    });
}

#[test]
fn too_many_texts_are_refused() {
    let Some(library) = onnxruntime() else { return };
    let engine = Engine::start(&library);
    let dir = model_folder();
    tiny::write(dir.path(), HIDDEN, true, None);
    let mut client = engine.connect();
    let reference = model(dir.path(), Precision::Fp32);
    let error = client
        .ask(&reference, embed(Priority::Bulk, &vec!["red"; 100_001]))
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
    client
        .ask(&reference, embed(Priority::Bulk, &["red"]))
        .unwrap();
    let error = client
        .ask(&reference, embed(Priority::Query, &["x".repeat(5 << 20)]))
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
}
