//! Models of a few numbers, whose embeddings can be computed by hand. A token's vector is its row
//! of [`TABLE`].

use std::{fs, path::Path};

use rag_model::onnx::{Dimension, ElementType, Graph};
use serde_json::json;

pub const DIMENSIONS: usize = 4;

/// Vectors of `[UNK] [CLS] [SEP] red green blue`.
pub const TABLE: [[f32; DIMENSIONS]; 6] = [
    [1.0, 1.0, 1.0, 1.0],
    [0.0, 0.0, 0.0, 2.0],
    [0.0, 0.0, 0.0, 1.0],
    [3.0, 0.0, 0.0, 0.0],
    [0.0, 3.0, 0.0, 0.0],
    [0.0, 0.0, 3.0, 0.0],
];

/// The output of the graph.
#[derive(Clone, Copy)]
pub enum Output {
    /// A vector for each token, under this name.
    Hidden(&'static str),
    /// The mean of all vectors, with padding and not of length 1.
    Pooled,
}

/// Writes a model's folder. `pooling` is the key of `1_Pooling/config.json` that is on.
pub fn write(dir: &Path, output: Output, segments: bool, pooling: Option<&str>) {
    fs::create_dir_all(dir.join("1_Pooling")).unwrap();
    let text = [Dimension::Named("texts"), Dimension::Named("tokens")];
    let mut graph = Graph::default();
    graph.floats("table", &[TABLE.len(), DIMENSIONS], TABLE.as_flattened());
    graph.input("input_ids", ElementType::Int64, &text);
    graph.input("attention_mask", ElementType::Int64, &text);
    if segments {
        graph.input("token_type_ids", ElementType::Int64, &text);
    }
    match output {
        Output::Hidden(name) => {
            graph.node("Gather", &["table", "input_ids"], &[name], &[]);
            graph.output(
                name,
                ElementType::Float,
                &[text[0], text[1], Dimension::Fixed(DIMENSIONS)],
            );
        }
        Output::Pooled => {
            graph.integers("tokens axis", &[1], &[1]);
            graph.node("Gather", &["table", "input_ids"], &["hidden"], &[]);
            let attributes = [rag_model::onnx::Attribute::Int("keepdims", 0)];
            graph.node(
                "ReduceSum",
                &["hidden", "tokens axis"],
                &["sentence_embedding"],
                &attributes,
            );
            graph.output(
                "sentence_embedding",
                ElementType::Float,
                &[text[0], Dimension::Fixed(DIMENSIONS)],
            );
        }
    }
    fs::write(dir.join("model.onnx"), graph.encode("tiny")).unwrap();
    let config = json!({"hidden_size": DIMENSIONS, "max_position_embeddings": 8});
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
    if let Some(key) = pooling {
        fs::write(
            dir.join("1_Pooling/config.json"),
            json!({ key: true }).to_string(),
        )
        .unwrap();
    }
    let special = |token: &str, id: u32| json!({"id": token, "ids": [id], "tokens": [token]});
    let place = |token: &str| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let tokenizer = json!({
        "version": "1.0",
        "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0,
            "direction": "Right"},
        "padding": {"strategy": {"Fixed": 128}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "[UNK]"},
        "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
            "decoder": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [place("[CLS]"), sequence("A"), place("[SEP]")],
            "pair": [place("[CLS]"), sequence("A"), place("[SEP]"), sequence("B"), place("[SEP]")],
            "special_tokens": {"[CLS]": special("[CLS]", 1), "[SEP]": special("[SEP]", 2)}
        },
        "model": {"type": "WordLevel", "unk_token": "[UNK]",
                  "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "red": 3, "green": 4, "blue": 5}}
    });
    fs::write(dir.join("tokenizer.json"), tokenizer.to_string()).unwrap();
}

/// Returns the direction of a sum of rows of [`TABLE`].
pub fn direction(tokens: &[usize]) -> Vec<f32> {
    let mut sum = [0.0f32; DIMENSIONS];
    for token in tokens {
        for (sum, value) in sum.iter_mut().zip(TABLE[*token]) {
            *sum += value;
        }
    }
    let length = sum.iter().map(|v| v * v).sum::<f32>().sqrt();
    sum.iter().map(|v| v / length).collect()
}
