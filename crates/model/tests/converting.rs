//! The program `rag-model` on a BERT of a few weights. The results of its graphs are tested with
//! ONNX Runtime, in `crates/engine/tests/embedding.rs`.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const HIDDEN: usize = 4;
const WIDE: usize = 8;
const WORDS: usize = 6;

/// The encoder's weights and their shapes.
fn shapes() -> BTreeMap<String, Vec<usize>> {
    let mut shapes = BTreeMap::new();
    let mut add = |name: String, shape: &[usize]| drop(shapes.insert(name, shape.to_vec()));
    for (table, rows) in [("word", WORDS), ("position", 16), ("token_type", 2)] {
        add(
            format!("embeddings.{table}_embeddings.weight"),
            &[rows, HIDDEN],
        );
    }
    for part in [
        "embeddings",
        "encoder.layer.0.attention.output",
        "encoder.layer.0.output",
    ] {
        add(format!("{part}.LayerNorm.weight"), &[HIDDEN]);
        add(format!("{part}.LayerNorm.bias"), &[HIDDEN]);
    }
    let dense = [
        ("attention.self.query", HIDDEN, HIDDEN),
        ("attention.self.key", HIDDEN, HIDDEN),
        ("attention.self.value", HIDDEN, HIDDEN),
        ("attention.output.dense", HIDDEN, HIDDEN),
        ("intermediate.dense", WIDE, HIDDEN),
        ("output.dense", HIDDEN, WIDE),
    ];
    for (part, outputs, inputs) in dense {
        add(format!("encoder.layer.0.{part}.weight"), &[outputs, inputs]);
        add(format!("encoder.layer.0.{part}.bias"), &[outputs]);
    }
    shapes
}

fn safetensors(shapes: &BTreeMap<String, Vec<usize>>) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = vec![];
    for (name, shape) in shapes {
        let start = data.len();
        let values = (0..shape.iter().product())
            .map(|i: usize| ((i * 7 + name.len()) % 11) as f32 / 11.0 - 0.5);
        data.extend(values.flat_map(f32::to_le_bytes));
        header.insert(
            name.clone(),
            json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let header = Value::Object(header).to_string();
    [
        &(header.len() as u64).to_le_bytes(),
        header.as_bytes(),
        &data,
    ]
    .concat()
}

fn folder(weights: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": HIDDEN,
            "intermediate_size": WIDE,
        "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": WORDS,
            "max_position_embeddings": 16,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12
    });
    fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
    fs::write(dir.path().join("model.safetensors"), weights).unwrap();
    dir
}

fn convert(options: &[&str], from: &Path, to: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rag-model"));
    command
        .arg("convert")
        .args(options)
        .arg(from)
        .arg(to)
        .output()
        .unwrap()
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .map(|entries| {
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    names
}

const BOTH: [&str; 4] = ["--precision", "fp32", "--precision", "int8"];

#[test]
fn a_whole_sentence_transformers_folder_is_written() {
    let from = folder(&safetensors(&shapes()));
    let to = from.path().join("new/folder");
    let done = convert(&BOTH, from.path(), &to);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(
        files(&to),
        [
            "1_Pooling",
            "config.json",
            "model.onnx",
            "model_int8.onnx",
            "modules.json",
            "sentence_bert_config.json",
            "tokenizer.json"
        ]
    );
    let read =
        |name: &str| serde_json::from_slice::<Value>(&fs::read(to.join(name)).unwrap()).unwrap();
    assert_eq!(read("sentence_bert_config.json")["max_seq_length"], 16);
    assert_eq!(
        read("1_Pooling/config.json")["pooling_mode_mean_tokens"],
        true
    );
    assert_eq!(read("modules.json")[1]["path"], "1_Pooling");
}

#[test]
fn a_conversion_is_reproducible() {
    let (from, to) = (
        folder(&safetensors(&shapes())),
        tempfile::tempdir().unwrap(),
    );
    let graphs = || {
        assert!(convert(&BOTH, from.path(), to.path()).status.success());
        ["model.onnx", "model_int8.onnx"].map(|name| fs::read(to.path().join(name)).unwrap())
    };
    assert_eq!(graphs(), graphs());
}

#[test]
fn weights_below_a_head_are_found() {
    let prefixed = shapes()
        .into_iter()
        .map(|(name, shape)| (format!("bert.{name}"), shape))
        .collect();
    let from = folder(&safetensors(&prefixed));
    assert!(convert(&BOTH, from.path(), from.path()).status.success());
}

#[test]
fn the_folder_itself_may_be_completed() {
    let from = folder(&safetensors(&shapes()));
    let config = fs::read(from.path().join("config.json")).unwrap();
    assert!(
        convert(&["--precision", "int8"], from.path(), from.path())
            .status
            .success()
    );
    assert_eq!(fs::read(from.path().join("config.json")).unwrap(), config);
    assert!(
        from.path().join("model_int8.onnx").exists() && !from.path().join("model.onnx").exists()
    );
}

#[test]
fn weights_with_another_checksum_are_refused() {
    let weights = safetensors(&shapes());
    let from = folder(&weights);
    let to = from.path().join("out");
    let refused = convert(
        &["--precision", "fp32", "--sha256", &"0".repeat(64)],
        from.path(),
        &to,
    );
    assert_eq!(refused.status.code(), Some(3));
    assert_eq!(files(&to), [""; 0]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        message.contains("its SHA-256 is") && message.contains("hint:"),
        "{message}"
    );
    let digest: String = Sha256::digest(&weights)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    assert!(
        convert(
            &["--precision", "fp32", "--sha256", &digest],
            from.path(),
            &to
        )
        .status
        .success()
    );
}

#[test]
fn a_damaged_model_and_a_missing_one_have_different_exit_codes() {
    let weights = safetensors(&shapes());
    let cut_short = folder(&weights[..weights.len() - 1]);
    assert_eq!(
        convert(&BOTH, cut_short.path(), cut_short.path())
            .status
            .code(),
        Some(3)
    );
    let mut incomplete = shapes();
    incomplete.remove("encoder.layer.0.output.dense.bias");
    let incomplete = folder(&safetensors(&incomplete));
    let refused = convert(&BOTH, incomplete.path(), incomplete.path());
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        String::from_utf8(refused.stderr)
            .unwrap()
            .contains("encoder.layer.0.output.dense.bias")
    );
    assert!(!incomplete.path().join("model.onnx").exists());
    let missing = tempfile::tempdir().unwrap();
    assert_eq!(
        convert(&BOTH, missing.path(), missing.path()).status.code(),
        Some(1)
    );
    assert_eq!(
        convert(&["--precision", "int4"], missing.path(), missing.path())
            .status
            .code(),
        Some(2)
    );
}
