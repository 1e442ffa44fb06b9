//! What settings of models may say.

use serde_json::json;

use super::*;

fn chat(spec: Value) -> Result<(Value, ModelSpec), Vec<String>> {
    check_model_spec(ModelKind::Chat, Provider::OpenAi, &spec)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[test]
fn defaults() {
    let given = json!({"base_url": "https://h/v1", "model": "m", "description": null,
                       "parameters": {"max_tokens": null}});
    let (stored, spec) = chat(given).expect("valid");
    assert_eq!(stored.get("description"), None);
    assert_eq!(stored["parameters"], json!({"max_tokens": null}));
    assert_eq!(spec.timeout, Duration::from_secs(60));
    assert_eq!((spec.max_tokens, spec.temperature), (2048, 0.7));
    assert_eq!(spec.prompt_template, DEFAULT_TEMPLATE);
    assert!(spec.stream && !spec.answer_without_context);
}

#[test]
fn all_problems_at_once() {
    let problems = chat(json!({
        "base_url": "ftp://h", "api_key": "sk-123", "timeout": 0, "temperature": 3,
        "max_tokens": "1", "promptTemplate": "x", "parameters": {"messages": []},
        "tokensPerDay": 0, "candidates": 5
    }))
    .expect_err("wrong");
    let fields: Vec<&str> = problems
        .iter()
        .map(|text| text.split(':').next().unwrap_or(""))
        .collect();
    assert_eq!(
        fields,
        [
            "spec.candidates",
            "spec.base_url",
            "spec.model",
            "spec.api_key",
            "spec.timeout",
            "spec.max_tokens",
            "spec.parameters",
            "spec.tokensPerDay",
            "spec.temperature",
            "spec.promptTemplate",
        ]
    );
    assert!(!problems.concat().contains("sk-123"));
}

#[test]
fn prices_are_billionths() {
    let with = |prices: Value| {
        let spec = json!({"base_url": "https://h/v1", "model": "m", "prices": prices});
        chat(spec).map(|(_, spec)| spec.prices)
    };
    assert_eq!(with(Value::Null), Ok(None));
    let prices = Prices {
        input_tokens: 20_000_000,
        output_tokens: 0,
        requests: 2_500_000_000,
    };
    let given = json!({"inputTokens": 0.02, "outputTokens": null, "requests": 2.5});
    assert_eq!(with(given), Ok(Some(prices)));
    let problems = with(json!({"inputTokens": -1, "outputTokens": "1", "input": 1}));
    let problems = problems.expect_err("wrong").join("\n");
    for field in ["inputTokens", "outputTokens", "input"] {
        assert!(
            problems.contains(&format!("spec.prices.{field}:")),
            "{problems}"
        );
    }
    assert!(with(json!(0.02)).is_err());
}

#[test]
fn parameters_may_remove_or_replace_what_is_sent_beside_a_text() {
    let with = |parameters: Value| {
        chat(json!({"base_url": "https://h/v1", "model": "m", "parameters": parameters}))
            .map(|(_, spec)| Value::Object(spec.parameters))
    };
    for parameters in [
        json!({"encoding_format": null}),
        json!({"encoding_format": "base64", "max_tokens": null}),
    ] {
        assert_eq!(with(parameters.clone()), Ok(parameters));
    }
    for key in RESERVED_PARAMETERS {
        let problems = with(json!({key: null})).expect_err("wrong");
        assert!(problems[0].contains("which calls set"), "{problems:?}");
    }
}

#[test]
fn urls_are_only_addresses() {
    for (url, problem) in [
        ("https://u:p@h/v1", "credentials"),
        ("https://h/v1?key=1", "query"),
        ("h/v1", "is not a URL"),
        ("file:///etc/passwd", "must start with"),
    ] {
        let problems = chat(json!({"base_url": url, "model": "m"})).expect_err("wrong");
        assert!(problems[0].contains(problem), "{problems:?}");
    }
}

#[test]
fn rerankers() {
    let check = |provider, spec| check_model_spec(ModelKind::Rerank, provider, &spec);
    let (_, spec) = check(Provider::Tei, json!({"base_url": "http://h"})).expect("valid");
    assert_eq!(
        (spec.candidates, spec.timeout),
        (50, Duration::from_secs(5))
    );
    assert!(check(Provider::Tei, json!({"base_url": "http://h", "model": "m"})).is_err());
    assert!(check(Provider::Cohere, json!({"base_url": "http://h"})).is_err());
    let chat_key = json!({"base_url": "http://h", "temperature": 1});
    assert!(check(Provider::Tei, chat_key).is_err());
}

#[test]
fn keys_are_secrets() {
    let spec =
        |api_key: Value| chat(json!({"base_url": "https://h", "model": "m", "api_key": api_key}));
    let key = |given| spec(given).expect("valid").1.api_key;
    let expected = |key: Option<&str>| SecretRef {
        name: "llm".into(),
        key: key.map(Into::into),
    };
    assert_eq!(
        key(json!({"secretRef": {"name": "llm"}})),
        Some(expected(None))
    );
    assert_eq!(
        key(json!({"secretRef": {"name": "llm", "key": "api"}})),
        Some(expected(Some("api")))
    );
    assert!(spec(json!({})).is_err());
    assert!(spec(json!({"secretRef": {"name": "other/llm"}})).is_err());
    assert!(spec(json!({"secretRef": {}})).is_err());
}

#[test]
fn embedding_models() {
    let check = |provider, spec| {
        check_model_spec(ModelKind::Embedding, provider, &spec)
            .map(|(_, spec)| spec)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let spec = check(
        Provider::Local,
        json!({"path": "/srv/models/e5", "queryPrefix": "query: ", "pooling": "Mean"}),
    )
    .expect("valid");
    assert_eq!(spec.path, PathBuf::from("/srv/models/e5"));
    assert_eq!(spec.embedding.query_prefix.as_deref(), Some("query: "));
    assert_eq!(spec.embedding.passage_prefix, None);
    assert_eq!(spec.embedding.pooling, Some(PoolingMode::Mean));
    // nothing, whatever the folder says
    let none = json!({"path": "/srv/models/e5", "queryPrefix": "", "passagePrefix": null});
    let prefixes = check(Provider::Local, none).expect("valid").embedding;
    assert_eq!(prefixes.query_prefix.as_deref(), Some(""));
    assert_eq!(prefixes.passage_prefix, None);
    let problems = check(
        Provider::Local,
        json!({"path": "models/e5", "base_url": "https://h", "batch": 4, "normalize": "yes",
               "dimensions": 0, "maxTokens": 1, "pooling": "max"}),
    )
    .expect_err("wrong");
    let fields: Vec<&str> = problems
        .iter()
        .map(|text| text.split(':').next().unwrap_or(""))
        .collect();
    assert_eq!(
        fields,
        [
            "spec.base_url",
            "spec.batch",
            "spec.path",
            "spec.pooling",
            "spec.normalize",
            "spec.dimensions",
            "spec.maxTokens",
        ]
    );
    let spec = check(Provider::Tei, json!({"base_url": "http://h"})).expect("valid");
    let embedding = spec.embedding;
    assert_eq!((embedding.batch, embedding.concurrency), (32, 4));
    assert_eq!(embedding.max_tokens, None);
    assert_eq!(spec.timeout, Duration::from_secs(60));
    assert!(check(Provider::OpenAi, json!({"base_url": "http://h"})).is_err());
    let pooling = json!({"base_url": "http://h", "model": "m", "pooling": "cls"});
    assert!(check(Provider::OpenAi, pooling).is_err());
}

#[test]
fn a_reranker_on_this_server_is_a_folder() {
    let check = |spec| check_model_spec(ModelKind::Rerank, Provider::Local, &spec);
    let given = json!({"path": "/srv/m", "precision": "fp32", "candidates": 20});
    let (_, spec) = check(given).expect("valid");
    assert_eq!(spec.path, PathBuf::from("/srv/m"));
    assert_eq!(spec.precision, Some(Precision::Fp32));
    assert_eq!((spec.candidates, spec.timeout.as_secs()), (20, 5));
    assert!(!spec.is_late);
    let (_, late) = check(json!({"late": true})).expect("the default model");
    assert_eq!((late.is_late, late.candidates), (true, 20));
    assert_eq!(late.path, PathBuf::new());
    let (_, late) = check(json!({"late": true, "path": "/m", "candidates": 7})).expect("another");
    assert_eq!((late.path, late.candidates), (PathBuf::from("/m"), 7));
    for wrong in [
        json!({}),
        json!({"path": "m"}),
        json!({"path": "/m\n"}),
        json!({"path": "/m", "precision": "int4"}),
        json!({"path": "/m", "base_url": "http://h"}),
        json!({"late": false}),
        json!({"late": 1}),
    ] {
        assert!(check(wrong.clone()).is_err(), "{wrong}");
    }
}
