//! What searches take from the spec of a retriever.

use rag_definition::retriever::{Fusion, Methods, RetrievalMode, RetrieverDefinition, Weights};
use serde_json::{Value, json};

fn methods(spec: &Value) -> Methods {
    RetrieverDefinition::parse(spec)
        .unwrap_or_default()
        .methods()
}

#[test]
fn without_methods_all_are_enabled() {
    for spec in [json!({}), json!({"retrievalMethods": null})] {
        let settings = methods(&spec);
        assert_eq!(settings.enabled_modes(), RetrievalMode::ALL);
        assert_eq!(settings.default_mode(), RetrievalMode::Hybrid);
        assert_eq!(settings.weights(), None);
        assert_eq!(settings.top_k(RetrievalMode::Hybrid), None);
    }
}

#[test]
fn methods_that_are_not_named_are_disabled() {
    let settings = methods(&json!({"retrievalMethods": {"vector": {}}}));
    assert_eq!(settings.enabled_modes(), [RetrievalMode::Vector]);
    assert_eq!(settings.default_mode(), RetrievalMode::Vector);
    assert!(!settings.uses_keywords());
    let keyword = json!({"retrievalMethods": {
        "vector": {"enabled": false}, "keyword": {"enabled": true}, "hybrid": {"enabled": false},
    }});
    let settings = methods(&keyword);
    assert_eq!(settings.enabled_modes(), [RetrievalMode::Keyword]);
    assert_eq!(settings.default_mode(), RetrievalMode::Keyword);
}

#[test]
fn settings_of_methods_are_read() {
    let settings = methods(&json!({"retrievalMethods": {
        "vector": {"defaultWeight": 0.6, "topK": 7, "scoreThreshold": 0.2},
        "keyword": {"topK": 9},
        "hybrid": {"fusion": "rrf"},
    }}));
    assert_eq!(
        settings.weights(),
        Some(Weights {
            vector: 0.6,
            keyword: 0.4
        })
    );
    assert_eq!(settings.fusion(), Fusion::ReciprocalRank);
    let top_k = RetrievalMode::ALL.map(|mode| settings.top_k(mode));
    assert_eq!(top_k, [Some(7), Some(9), Some(9)]);
    let threshold = RetrievalMode::ALL.map(|mode| settings.threshold(mode));
    assert_eq!(threshold, [Some(0.2), None, None]);
}
