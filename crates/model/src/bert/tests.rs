use serde_json::json;

use super::*;

fn config(change: (&str, serde_json::Value)) -> Config {
    let mut config = json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": 12, "intermediate_size": 24,
        "num_hidden_layers": 1, "num_attention_heads": 3, "vocab_size": 30,
            "max_position_embeddings": 16,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12
    });
    config[change.0] = change.1;
    serde_json::from_value(config).unwrap()
}

#[test]
fn other_architectures_are_refused() {
    assert!(config(("model_type", json!("bert"))).check().is_ok());
    for change in [
        ("model_type", json!("xlm-roberta")),
        ("hidden_act", json!("relu")),
        ("position_embedding_type", json!("relative_key")),
        ("num_attention_heads", json!(5)),
        ("num_attention_heads", json!(0)),
    ] {
        assert_eq!(
            config(change).check().unwrap_err().kind,
            ErrorKind::Unsupported
        );
    }
}

#[test]
fn a_transposed_matrix_swaps_rows_and_columns() {
    assert_eq!(
        transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3),
        [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
    );
}
