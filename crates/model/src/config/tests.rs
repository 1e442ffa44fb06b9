use rag_protocol::ErrorKind;
use serde_json::{Value, json};

use super::*;

fn parse(changes: Value) -> Result<Config, EngineError> {
    let mut config = json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": 12, "intermediate_size": 24,
        "num_hidden_layers": 4, "num_attention_heads": 3, "vocab_size": 30,
        "max_position_embeddings": 16, "type_vocab_size": 2, "layer_norm_eps": 1e-12
    });
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    let Value::Object(map) = config else {
        unreachable!()
    };
    Config::parse(&Fields {
        path: "config.json".into(),
        map,
    })
}

#[test]
fn other_architectures_are_refused() {
    assert_eq!(parse(json!({})).unwrap().family, Family::Bert);
    let nomic = |key: &str, value: Value| json!({"model_type": "nomic_bert", key: value});
    for changes in [
        json!({"model_type": "t5"}),
        json!({"hidden_act": "mish"}),
        json!({"position_embedding_type": "relative_key"}),
        json!({"num_attention_heads": 5}),
        json!({"is_decoder": true}),
        json!({"architectures": ["BertForSequenceClassification"]}),
        json!({"architectures": ["BertForSequenceClassification"], "num_labels": 3}),
        nomic("num_attention_heads", json!(4)),
        nomic("prenorm", json!(true)),
        nomic("num_experts", json!(8)),
        nomic("rotary_emb_fraction", json!(0.5)),
        nomic("rope_parameters", json!({"rope_type": "yarn"})),
        json!({"model_type": "modernbert", "local_attention": 100_000, "num_attention_heads": 2}),
    ] {
        let error = parse(changes.clone()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{changes}");
    }
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    for changes in [
        json!({"num_attention_heads": 0}),
        json!({"hidden_size": "12"}),
        json!({"hidden_size": -12}),
        json!({"vocab_size": null}),
        json!({"model_type": "roberta", "pad_token_id": u64::MAX}),
        json!({"model_type": "mpnet", "relative_attention_num_buckets": 1}),
        json!({
            "model_type": "modernbert", "num_attention_heads": 2,
            "num_hidden_layers": 1_000_000_000u64
        }),
    ] {
        let error = parse(changes.clone()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidModel, "{changes}");
    }
}

#[test]
fn layers_alternate_as_the_configuration_says() {
    let seen = |changes: Value| -> Vec<(f64, Option<usize>)> {
        let config = parse(changes).unwrap();
        let seen = |rotation: &LayerRotation| (rotation.theta, rotation.distance);
        config.rotations.iter().map(seen).collect()
    };
    let old = json!({
        "model_type": "modernbert", "num_attention_heads": 2, "global_attn_every_n_layers": 2,
        "global_rope_theta": 160_000.0, "local_rope_theta": null, "local_attention": 8
    });
    let (far, near) = ((160_000.0, None), (160_000.0, Some(4)));
    assert_eq!(seen(old), [far, near, far, near]);
    let new = json!({
        "model_type": "modernbert", "num_attention_heads": 2, "local_attention": 8,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
            "full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 5.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 6.0}
        }
    });
    let (far, near) = ((5.0, None), (6.0, Some(4)));
    assert_eq!(seen(new), [far, near, near, far]);
}

#[test]
fn one_label_makes_a_model_that_scores() {
    let purpose = |changes: Value| parse(changes).unwrap().purpose;
    assert_eq!(purpose(json!({})), Purpose::Embedding);
    let one = json!({
        "architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}
    });
    assert_eq!(purpose(one), Purpose::Score);
}

#[test]
fn a_refusal_names_the_file_and_what_is_supported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    for config in [
        json!({"model_type": "new", "hidden_size": 12}),
        json!({"architectures": ["T5EncoderModel"], "model_type": "t5"}),
        json!({}),
    ] {
        std::fs::write(&path, config.to_string()).unwrap();
        let error = Config::read(dir.path()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{config}");
        assert!(error.detail.unwrap().contains(path.to_str().unwrap()));
        let hint = error.hint.unwrap();
        for family in [
            "BERT",
            "XLM-R",
            "MPNet",
            "DistilBERT",
            "NomicBERT",
            "ModernBERT",
        ] {
            assert!(hint.contains(family), "{hint}");
        }
    }
}
