//! Mistakes in Dify's conditions.

use rag_filter::{MAX_CONDITIONS, parse_dify, parse_member};
use serde_json::{Value, json};

fn dify_error(filter: &Value) -> (String, String) {
    let error = match parse_dify(filter, "metadata_condition") {
        Ok(parsed) => panic!("{filter} was accepted: {parsed:?}"),
        Err(error) => error,
    };
    assert!(!error.hint.is_empty(), "{filter}: no hint");
    let below = error.path.strip_prefix("metadata_condition");
    let path = below.unwrap_or_else(|| panic!("{filter}: {} is another place", error.path));
    (
        path.trim_start_matches('.').to_owned(),
        error.message.clone(),
    )
}

fn condition(name: Value, operator: &str, value: Value) -> Value {
    json!({"conditions": [{"name": name, "comparison_operator": operator, "value": value}]})
}

#[test]
fn every_mistake_of_dify_is_named_with_its_place() {
    let good = json!({"name": "a", "comparison_operator": "is", "value": "x"});
    let cases = [
        (json!([]), "", "expected an object, found an array"),
        (
            json!({"operator": "and", "conditions": [good]}),
            "operator",
            "a metadata condition has no member \"operator\"",
        ),
        (
            json!({"logical_operator": "xor", "conditions": null}),
            "logical_operator",
            "there is no logical operator \"xor\"",
        ),
        (
            json!({"conditions": {}}),
            "conditions",
            "expected an array of conditions, found an object",
        ),
        (
            json!({"conditions": [good, "x"]}),
            "conditions[1]",
            "expected a condition, found a string",
        ),
        (
            json!({"conditions": [{"conditions": [good]}]}),
            "conditions[0]",
            "the condition has no name",
        ),
        (
            json!({"conditions": [{"comparison_operator": "is", "value": "x"}]}),
            "conditions[0]",
            "the condition has no name",
        ),
        (
            json!({"conditions": [{"name": "a", "value": "x"}]}),
            "conditions[0]",
            "the condition has no comparison_operator",
        ),
        // A condition that is skipped is checked all the same.
        (
            condition(json!("a"), "eq", json!(null)),
            "conditions[0].comparison_operator",
            "there is no operator \"eq\"",
        ),
        (
            condition(json!(["a", "b"]), "is", json!("x")),
            "conditions[0].name",
            "expected the name of one key",
        ),
        (
            condition(json!(""), "is", json!("x")),
            "conditions[0].name",
            "the key is empty",
        ),
        (
            condition(json!("a"), "is", json!(["x"])),
            "conditions[0].value",
            "expected a string or a number, found an array",
        ),
        (
            condition(json!("a"), "=", json!({})),
            "conditions[0].value",
            "expected a string or a number, found an object",
        ),
        (
            condition(json!("a"), "in", json!(["x", []])),
            "conditions[0].value[1]",
            "expected a string or a number, found an array",
        ),
        (
            condition(json!("a"), "before", json!("soon")),
            "conditions[0].value",
            "\"soon\" is not a timestamp",
        ),
        (
            condition(json!("tags"), ">", json!("x")),
            "conditions[0].value",
            "the operator \">\" does not apply to tags",
        ),
        (
            condition(json!("knowledge_id"), "is", json!("x")),
            "conditions[0].value",
            "\"x\" is not a 64-bit integer",
        ),
    ];
    for (filter, path, message) in cases {
        assert_eq!(
            dify_error(&filter),
            (path.to_owned(), message.to_owned()),
            "{filter}"
        );
    }
}

#[test]
fn the_hint_for_an_operator_that_dify_lacks_lists_those_of_dify() {
    let filter = condition(json!("a"), "gte", json!(1));
    let error = parse_dify(&filter, "").expect_err("no operator of Dify");
    assert_eq!(error.path, "conditions[0].comparison_operator");
    assert_eq!(
        error.hint,
        "Operators: contains, not contains, start with, end with, is, is not, in, not in, empty, \
         not empty, =, ≠, >, <, ≥, >=, ≤, <=, before, after."
    );
}

#[test]
fn conditions_of_dify_are_counted() {
    let condition = json!({"name": "a", "comparison_operator": "is", "value": "x"});
    let filter = |count| json!({"conditions": vec![condition.clone(); count]});
    assert!(parse_dify(&filter(MAX_CONDITIONS), "").is_ok());
    assert_eq!(
        dify_error(&filter(MAX_CONDITIONS + 1)).1,
        "there are more than 1000 conditions"
    );
}

#[test]
fn the_place_of_a_filter_in_a_document_is_part_of_all_paths() {
    let path_of = |filter: Value| {
        parse_member(&filter, "metadata_condition")
            .expect_err("a mistake")
            .path
    };
    assert_eq!(path_of(json!(7)), "metadata_condition");
    assert_eq!(
        path_of(json!({"conditions": [{"key": "a", "operator": "like", "value": 1}]})),
        "metadata_condition.conditions[0].operator"
    );
    assert_eq!(
        path_of(json!({"key": "a", "operator": "like", "value": 1})),
        "metadata_condition.operator"
    );
    assert_eq!(
        path_of(json!({"knowledge_id": "x"})),
        "metadata_condition.knowledge_id"
    );
    let filter = parse_member(&json!({"year": 2020}), "metadata_condition").expect("a filter");
    assert_eq!(filter.usages()[0].key_path, "metadata_condition.year");
}
