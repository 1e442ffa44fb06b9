//! Requests: what is read of them, and how mistakes are named.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use rag_contract::{DifyRequest, KnowledgeRequest, RetrieveRequest};
use rag_definition::{
    FieldProblem,
    retriever::{RetrievalMode, WeightSum, Weights},
};
use serde_json::{Value, json};

/// The request of the Retriever's design.
fn seed() -> Value {
    json!({
        "knowledge_id": "AAA-BBB-CCC",
        "query": "What is Dify?",
        "retrieval_setting": {
            "top_k": 5,
            "score_threshold": 0.5,
            "retrieval_mode": "hybrid",
            "vector_weight": 0.7,
            "keyword_weight": 0.3
        },
        "metadata_condition": {
            "operator": "and",
            "conditions": [
                {"key": "category", "operator": "eq", "value": "tech"},
                {"key": "year", "operator": "gte", "value": 2020}
            ]
        }
    })
}

/// The seed with another value at a place: a JSON pointer.
fn changed(place: &str, value: Value) -> Value {
    let mut request = seed();
    let (parent, name) = place.rsplit_once('/').unwrap();
    let parent = request.pointer_mut(parent).unwrap();
    parent
        .as_object_mut()
        .unwrap()
        .insert(name.to_owned(), value);
    request
}

fn mistake<T: std::fmt::Debug>(parsed: Result<T, FieldProblem>) -> String {
    parsed.expect_err("a mistake").to_string()
}

#[test]
fn the_request_of_the_seed_is_read_completely() {
    let request = RetrieveRequest::parse(&seed()).unwrap();
    assert_eq!(request.knowledge.ids(), ["AAA-BBB-CCC"]);
    assert_eq!(request.query, "What is Dify?");
    assert_eq!(request.retriever, None);
    assert_eq!(request.settings.top_k, Some(5));
    assert_eq!(request.settings.threshold, Some(0.5));
    assert_eq!(request.settings.mode, Some(RetrievalMode::Hybrid));
    let weights = request.settings.weights.unwrap();
    assert_eq!((weights.vector, weights.keyword), (0.7, 0.3));
    assert!(!request.filter.is_unrestricted());
}

#[test]
fn what_is_left_out_or_null_is_the_retrievers() {
    for request in [
        json!({"knowledge_id": "a", "query": "b"}),
        json!({"knowledge_id": "a", "query": "b", "retriever_ref": null,
               "retrieval_setting": null, "metadata_condition": null}),
        json!({"knowledge_id": "a", "query": "b", "metadata_condition": {},
               "retrieval_setting": {"top_k": null, "score_threshold": null,
                   "retrieval_mode": null, "vector_weight": null, "keyword_weight": null}}),
    ] {
        let request = RetrieveRequest::parse(&request).unwrap();
        assert_eq!(request.settings, Default::default());
        assert_eq!(request.retriever, None);
        assert!(request.filter.is_unrestricted());
    }
}

#[test]
fn retrievers_are_named_with_their_namespace() {
    let name = |reference: Value| {
        RetrieveRequest::parse(&changed("/retriever_ref", reference))
            .unwrap()
            .retriever
            .unwrap()
            .qualified_name()
    };
    assert_eq!(name(json!({"name": "my-es-retriever"})), "my-es-retriever");
    assert_eq!(
        name(json!({"name": "my-es-retriever", "namespace": "default"})),
        "my-es-retriever"
    );
    assert_eq!(
        name(json!({"name": "x", "namespace": "team-a"})),
        "team-a/x"
    );
    assert_eq!(name(json!({"name": "x", "namespace": null})), "x");
}

#[test]
fn one_weight_gives_the_other_and_both_must_sum_to_one() {
    let weights = |vector, keyword| {
        Weights::new(vector, keyword).map(|weights| weights.map(|w| (w.vector, w.keyword)))
    };
    assert_eq!(weights(None, None), Ok(None));
    assert_eq!(weights(Some(0.75), None), Ok(Some((0.75, 0.25))));
    assert_eq!(weights(Some(0.7), None), Ok(Some((0.7, 0.3))));
    assert_eq!(weights(None, Some(1.0)), Ok(Some((0.0, 1.0))));
    for (vector, keyword) in [(0.7, 0.3), (0.7, 0.31), (0.69, 0.3), (0.0, 1.0)] {
        assert_eq!(
            weights(Some(vector), Some(keyword)),
            Ok(Some((vector, keyword)))
        );
    }
    assert_eq!(weights(Some(0.9), Some(0.9)), Err(WeightSum(1.8)));
    assert!(weights(Some(0.7), Some(0.32)).is_err());
}

#[test]
fn every_mistake_of_rag_retrieve_is_named_with_its_place() {
    let cases = [
        (json!([]), "must be an object, not an array"),
        (json!(null), "must be an object, not null"),
        (json!({"query": "b"}), "knowledge_id: is missing"),
        (json!({"knowledge_id": "a"}), "query: is missing"),
        (changed("/query", json!(" \n")), "query: must not be empty"),
        (
            changed("/knowledge_id", json!(7)),
            "knowledge_id: must be a string, not a number",
        ),
        (changed("/top_k", json!(5)), "top_k: is not a known field"),
        (
            changed("/retrieval_setting/topk", json!(5)),
            "retrieval_setting.topk: is not a known field",
        ),
        (
            changed("/retrieval_setting/top_k", json!(0)),
            "retrieval_setting.top_k: must be an integer from 1 to 10000, not 0",
        ),
        (
            changed("/retrieval_setting/top_k", json!(2.5)),
            "retrieval_setting.top_k: must be an integer from 1 to 10000, not 2.5",
        ),
        (
            changed("/retrieval_setting/top_k", json!("5")),
            "retrieval_setting.top_k: must be an integer from 1 to 10000, not a string",
        ),
        (
            changed("/retrieval_setting/score_threshold", json!(1.5)),
            "retrieval_setting.score_threshold: must be a number from 0 to 1, not 1.5",
        ),
        (
            changed("/retrieval_setting/retrieval_mode", json!("semantic")),
            "retrieval_setting.retrieval_mode: \"semantic\" is not a mode",
        ),
        (
            changed("/retrieval_setting/keyword_weight", json!(0.9)),
            "retrieval_setting.vector_weight: vector_weight and keyword_weight must sum to 1, not \
             1.600",
        ),
        (
            changed("/retrieval_setting/vector_weight", json!(-0.1)),
            "retrieval_setting.vector_weight: must be a number from 0 to 1, not -0.1",
        ),
        (
            changed("/retriever_ref", json!({"namespace": "default"})),
            "retriever_ref.name: is missing",
        ),
        (
            changed("/retriever_ref", json!({"name": "a", "kind": "b"})),
            "retriever_ref.kind: is not a known field",
        ),
        (
            changed("/retriever_ref", json!("a")),
            "retriever_ref: must be an object, not a string",
        ),
        (
            changed("/metadata_condition/conditions/1/operator", json!("ge")),
            "metadata_condition.conditions[1].operator: there is no operator \"ge\"",
        ),
        (
            changed("/metadata_condition", json!("tech")),
            "metadata_condition: expected an object, found a string",
        ),
        (
            changed("/metadata_condition", json!({"knowledge_id": "x"})),
            "metadata_condition.knowledge_id: \"x\" is not a 64-bit integer",
        ),
    ];
    for (request, expected) in cases {
        assert_eq!(
            mistake(RetrieveRequest::parse(&request)),
            expected,
            "{request}"
        );
    }
}

#[test]
fn a_request_of_difys_client_is_read() {
    let request = DifyRequest::parse(&json!({
        "retrieval_setting": {"top_k": null, "score_threshold": 0.0},
        "query": "What is Dify?",
        "knowledge_id": "AAA-BBB-CCC",
        "metadata_condition": {"logical_operator": "and", "conditions": null}
    }))
    .unwrap();
    assert_eq!(request.settings.top_k, None);
    assert_eq!(request.settings.threshold, Some(0.0));
    assert!(request.filter.is_unrestricted());
    let whole = json!({"knowledge_id": "a", "query": "b", "retrieval_setting": {"top_k": 2},
                       "metadata_condition": null});
    assert_eq!(DifyRequest::parse(&whole).unwrap().settings.top_k, Some(2));
}

#[test]
fn every_mistake_of_dify_is_named_with_its_place() {
    let with = |name: &str, value: Value| {
        let mut request = json!({"knowledge_id": "a", "query": "b"});
        request[name] = value;
        request
    };
    let condition = |operator: &str| json!({"conditions": [{"name": "a", "comparison_operator": operator, "value": 1}]});
    let cases = [
        (json!({"knowledge_id": "a"}), "query: is missing"),
        (
            with("retriever_ref", json!({"name": "a"})),
            "retriever_ref: is not a known field",
        ),
        (
            with("retrieval_setting", json!({"retrieval_mode": "vector"})),
            "retrieval_setting.retrieval_mode: is not a known field",
        ),
        (
            with("metadata_condition", json!({"operator": "and"})),
            "metadata_condition.operator: a metadata condition has no member \"operator\"",
        ),
        (
            with("metadata_condition", condition("gte")),
            "metadata_condition.conditions[0].comparison_operator: there is no operator \"gte\"",
        ),
    ];
    for (request, expected) in cases {
        assert_eq!(mistake(DifyRequest::parse(&request)), expected, "{request}");
    }
}

#[test]
fn the_requests_of_agent_core_are_read() {
    let request = KnowledgeRequest::parse(&json!({
        "query": "How to configure the database connection?",
        "n_results": 5,
        "category": "Engineering"
    }))
    .unwrap();
    assert_eq!(
        (request.results, request.collection.as_str()),
        (5, "default")
    );
    let short = KnowledgeRequest::of_arguments(
        "How to configure the database connection?",
        None,
        Some("Engineering"),
        None,
    );
    assert_eq!(short, Ok(request));
    for request in [
        json!({"query": "deployment steps", "tags": ["docker", "production"]}),
        json!({"query": "error handling", "knowledge_ids": [1, 3, 7]}),
        json!({"query": "q", "tags": ["a"], "tags_match": "any", "collection": "c",
               "score_threshold": 0.2, "n_results": 20}),
    ] {
        let request = KnowledgeRequest::parse(&request).unwrap();
        assert!(!request.filter.is_unrestricted());
    }
}

#[test]
fn no_tags_restrict_nothing_and_no_items_find_nothing() {
    let filter = |request| KnowledgeRequest::parse(&request).unwrap().filter;
    for tags in [json!([]), json!(null)] {
        assert!(filter(json!({"query": "q", "tags": tags})).is_unrestricted());
    }
    assert!(!filter(json!({"query": "q", "knowledge_ids": []})).is_unrestricted());
}

#[test]
fn every_mistake_of_a_knowledge_search_is_named_with_its_place() {
    let with = |name: &str, value: Value| {
        let mut request = json!({"query": "b"});
        request[name] = value;
        request
    };
    let cases = [
        (json!({}), "query: is missing"),
        (with("query", json!("")), "query: must not be empty"),
        (with("top_k", json!(1)), "top_k: is not a known field"),
        (
            with("n_results", json!(21)),
            "n_results: must be an integer from 1 to 20, not 21",
        ),
        (
            with("category", json!(["a"])),
            "category: must be a string, not an array",
        ),
        (with("category", json!(" ")), "category: must not be empty"),
        (
            with("tags", json!("a,b")),
            "tags: must be an array of strings, not a string",
        ),
        (
            with("tags", json!(["a", 1])),
            "tags[1]: must be a string, not a number",
        ),
        (with("tags", json!(["a", ""])), "tags[1]: must not be empty"),
        (
            with("tags_match", json!("some")),
            "tags_match: \"some\" is not a way to match tags",
        ),
        (
            with("knowledge_ids", json!(["a"])),
            "knowledge_ids[0]: must be a number, not a string",
        ),
        (
            with("knowledge_ids", json!([1, 2.5])),
            "knowledge_ids[1]: must be a 64-bit integer, not 2.5",
        ),
        (
            with("score_threshold", json!(-1)),
            "score_threshold: must be a number from 0 to 1, not -1",
        ),
    ];
    for (request, expected) in cases {
        assert_eq!(
            mistake(KnowledgeRequest::parse(&request)),
            expected,
            "{request}"
        );
    }
    let of = |q, n, category| mistake(KnowledgeRequest::of_arguments(q, n, category, None));
    assert_eq!(of(" ", None, None), "q: must not be empty");
    assert_eq!(
        of("q", Some(0), None),
        "n: must be an integer from 1 to 20, not 0"
    );
    assert_eq!(of("q", None, Some(" ")), "category: must not be empty");
}

/// Any JSON, with the names of fields more often than by chance.
fn any_json() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 12] = [
        "knowledge_id",
        "query",
        "retrieval_setting",
        "retriever_ref",
        "metadata_condition",
        "top_k",
        "score_threshold",
        "vector_weight",
        "conditions",
        "name",
        "tags",
        "knowledge_ids",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let name = prop::sample::select(NAMES.as_slice()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_read_or_refused(request in any_json()) {
        let _ = RetrieveRequest::parse(&request);
        let _ = DifyRequest::parse(&request);
        let _ = KnowledgeRequest::parse(&request);
    }
}

#[test]
fn a_group_without_conditions_restricts_nothing() {
    for condition in [
        json!({"operator": "and"}),
        json!({"operator": null, "conditions": null}),
        json!({"operator": " Or ", "conditions": []}),
        json!({"logical_operator": "and", "conditions": []}),
    ] {
        let request = RetrieveRequest::parse(&changed("/metadata_condition", condition)).unwrap();
        assert!(request.filter.is_unrestricted());
    }
    let condition = json!({"operator": " Or ", "conditions": [{"key": "year", "value": 2020},
        {"key": "year", "operator": null, "value": 2021}]});
    let request = RetrieveRequest::parse(&changed("/metadata_condition", condition)).unwrap();
    assert!(!request.filter.is_unrestricted());
}

#[test]
fn a_slip_in_a_group_is_no_metadata_key() {
    let request = changed(
        "/metadata_condition",
        json!({"operator": "and", "condition": [{"key": "a", "operator": "eq", "value": 1}]}),
    );
    assert_eq!(
        mistake(RetrieveRequest::parse(&request)),
        "metadata_condition.condition: a group has no member \"condition\""
    );
}

#[test]
fn further_members_of_difys_conditions_are_ignored() {
    let request = json!({"knowledge_id": "a", "query": "q", "metadata_condition": {
        "id": "1", "conditions": [{"id": "x", "name": "year", "comparison_operator": "is",
                                   "value": "2020"}]}});
    assert!(
        !DifyRequest::parse(&request)
            .unwrap()
            .filter
            .is_unrestricted()
    );
    let request = json!({"knowledge_id": "a", "query": "q", "metadata_condition": {
        "operator": "or", "conditions": []}});
    assert!(DifyRequest::parse(&request).is_err());
}

#[test]
fn hints_are_texts_of_their_own() {
    let request = changed(
        "/search_hints",
        json!({"dense_query": "how does Dify work",
        "keywords": ["dify", "llm"], "phrases": ["workflow engine"]}),
    );
    let hints = RetrieveRequest::parse(&request).unwrap().hints;
    assert_eq!(hints.vector_text.as_deref(), Some("how does Dify work"));
    assert_eq!(hints.words.as_deref(), Some("dify llm workflow engine"));
    let request = changed(
        "/search_hints",
        json!({"dense_query": " ", "keywords": [],
        "phrases": null}),
    );
    assert_eq!(
        RetrieveRequest::parse(&request).unwrap().hints,
        Default::default()
    );
    let request = changed("/search_hints", json!({"sparse": "x"}));
    assert_eq!(
        mistake(RetrieveRequest::parse(&request)),
        "search_hints.sparse: is not a known field"
    );
}

#[test]
fn one_or_several_knowledge_bases_are_named() {
    let parse = |value: Value| RetrieveRequest::parse(&value);
    for (request, message) in [
        (json!({"query": "q"}), "knowledge_id: is missing"),
        (
            json!({"knowledge_id": "a", "knowledge_ids": ["b"], "query": "q"}),
            "knowledge_ids: excludes knowledge_id",
        ),
        (
            json!({"knowledge_ids": [], "query": "q"}),
            "knowledge_ids: must not be empty",
        ),
        (
            json!({"knowledge_ids": ["a", 1], "query": "q"}),
            "knowledge_ids[1]: must be a string, not a number",
        ),
    ] {
        assert_eq!(mistake(parse(request)), message);
    }
}

#[test]
fn the_threshold_of_a_knowledge_search_is_for_its_score() {
    let settings = |request: Value| KnowledgeRequest::parse(&request).unwrap().settings();
    let hybrid = settings(json!({"query": "q", "score_threshold": 0.5}));
    assert_eq!((hybrid.threshold, hybrid.min_similarity), (None, Some(0.5)));
    let words = settings(json!({"query": "q", "mode": "keyword", "score_threshold": 0.5}));
    assert_eq!((words.threshold, words.min_similarity), (Some(0.5), None));
    let get = KnowledgeRequest::of_arguments("q", None, Some(""), Some("team")).unwrap();
    assert!(get.filter.is_unrestricted());
    assert_eq!(get.collection, "team");
}
