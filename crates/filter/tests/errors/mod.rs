//! Filters that are refused: the path and the text of the error.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod dify;
mod hints;

use rag_filter::{MAX_CONDITIONS, MAX_DEPTH, parse};
use serde_json::{Value, json};

/// The path and the message of a filter's error.
fn error_of(filter: &Value) -> (String, String) {
    let error = match parse(filter) {
        Ok(parsed) => panic!("{filter} was accepted: {parsed:?}"),
        Err(error) => error,
    };
    assert!(!error.hint.is_empty(), "{filter}: no hint");
    assert_eq!(
        error.to_string(),
        format!("{}: {}", error.path, error.message)
    );
    (error.path, error.message)
}

fn one(key: &str, operator: &str, value: Value) -> Value {
    json!({"conditions": [{"key": key, "operator": operator, "value": value}]})
}

#[test]
fn every_mistake_is_named_with_its_place() {
    let condition = json!({"key": "a", "operator": "eq", "value": 1});
    let cases = [
        // The whole.
        (json!([]), "filter", "expected an object, found an array"),
        (
            json!("category = 'x'"),
            "filter",
            "expected an object, found a string",
        ),
        (json!(7), "filter", "expected an object, found a number"),
        (json!(true), "filter", "expected an object, found a boolean"),
        // Groups.
        (
            json!({"conditions": []}),
            "conditions",
            "there are no conditions",
        ),
        (
            json!({"conditions": null}),
            "conditions",
            "expected an array of conditions, found null",
        ),
        (
            json!({"conditions": {}}),
            "conditions",
            "expected an array of conditions, found an object",
        ),
        (
            json!({"conditions": [1]}),
            "conditions[0]",
            "expected a condition or a group, which are objects, found a number",
        ),
        (
            json!({"operator": "xor", "conditions": [condition]}),
            "operator",
            "there is no logical operator \"xor\"",
        ),
        (
            json!({"operator": "nor", "conditions": [condition]}),
            "operator",
            "there is no logical operator \"nor\"",
        ),
        (
            json!({"logical_operator": 1, "conditions": [condition]}),
            "logical_operator",
            "there is no logical operator 1",
        ),
        (
            json!({"operator": "and", "logical_operator": "and", "conditions": [condition]}),
            "filter",
            "\"operator\" and \"logical_operator\" are both given",
        ),
        (
            json!({"conditions": [condition], "category": "x"}),
            "category",
            "a group has no member \"category\"",
        ),
        (
            json!({"conditions": [condition, {"conditions": [condition, {"conditions": []}]}]}),
            "conditions[1].conditions[1].conditions",
            "there are no conditions",
        ),
        // Conditions.
        (
            json!({"conditions": [{}]}),
            "conditions[0]",
            "the condition has no key",
        ),
        (
            json!({"conditions": [{"key": "a", "value": 1}]}),
            "conditions[0]",
            "the condition has no operator",
        ),
        (
            json!({"conditions": [{"key": "a", "operator": "eq"}]}),
            "conditions[0]",
            "the condition has no value",
        ),
        (
            json!({"conditions": [condition, {"key": "a", "operator": "like", "value": 1}]}),
            "conditions[1].operator",
            "there is no operator \"like\"",
        ),
        (
            json!({"conditions": [{"name": ["a"], "comparison_operator": "IZ", "value": 1}]}),
            "conditions[0].comparison_operator",
            "there is no operator \"IZ\"",
        ),
        (
            json!({"conditions": [{"key": "a", "operator": 3, "value": 1}]}),
            "conditions[0].operator",
            "expected the name of an operator, found a number",
        ),
        (
            json!({"conditions": [{"key": "a", "operator": "eq", "value": 1, "values": 2}]}),
            "conditions[0].values",
            "a condition has no member \"values\"",
        ),
        (
            json!({"conditions": [{"key": "a", "name": "a", "operator": "eq", "value": 1}]}),
            "conditions[0]",
            "\"key\" and \"name\" are both given",
        ),
        (
            json!({"conditions": [{"name": ["a", "b"], "operator": "eq", "value": 1}]}),
            "conditions[0].name",
            "expected the name of one key",
        ),
        (
            json!({"conditions": [{"name": [], "operator": "eq", "value": 1}]}),
            "conditions[0].name",
            "expected the name of one key",
        ),
        (
            json!({"conditions": [{"key": null, "operator": "eq", "value": 1}]}),
            "conditions[0].key",
            "expected the name of a key, found null",
        ),
        (
            one("", "eq", json!(1)),
            "conditions[0].key",
            "the key is empty",
        ),
        (
            one("metadata.", "eq", json!(1)),
            "conditions[0].key",
            "the key is empty",
        ),
        (
            one("a\0", "eq", json!(1)),
            "conditions[0].key",
            "the text contains U+0000",
        ),
        // Values of metadata.
        (
            one("a", "in", json!("x")),
            "conditions[0].value",
            "expected an array, found a string",
        ),
        (
            one("a", "nin", json!({})),
            "conditions[0].value",
            "expected an array, found an object",
        ),
        (
            one("a", "gt", json!({})),
            "conditions[0].value",
            "expected a number or a string, found an object",
        ),
        (
            one("a", "lte", json!(null)),
            "conditions[0].value",
            "expected a number or a string, found null",
        ),
        (
            one("a", "≥", json!(true)),
            "conditions[0].value",
            "expected a number or a string, found a boolean",
        ),
        (
            one("a", "contains", json!(["x"])),
            "conditions[0].value",
            "expected a string, a number or a boolean, found an array",
        ),
        (
            one("a", "start with", json!(1)),
            "conditions[0].value",
            "expected a string, found a number",
        ),
        (
            one("a", "end with", json!(null)),
            "conditions[0].value",
            "expected a string, found null",
        ),
        (
            one("a", "before", json!("soon")),
            "conditions[0].value",
            "\"soon\" is not a timestamp",
        ),
        (
            one("a", "after", json!([])),
            "conditions[0].value",
            "expected a timestamp in a string, found an array",
        ),
        (
            one("a", "empty", json!(true)),
            "conditions[0].value",
            "the operator \"empty\" takes no value",
        ),
        (
            one("a", "eq", json!(["x\0"])),
            "conditions[0].value",
            "the text contains U+0000",
        ),
        (
            one("a", "in", json!(["x", {"\0": 1}])),
            "conditions[0].value[1]",
            "the text contains U+0000",
        ),
        // Values of columns.
        (
            one("category", "eq", json!(1)),
            "conditions[0].value",
            "expected a string, found a number",
        ),
        (
            one("category", "in", json!(["x", 1])),
            "conditions[0].value[1]",
            "expected a string, found a number",
        ),
        (
            one("category", "in", json!([null])),
            "conditions[0].value[0]",
            "expected a string, found null",
        ),
        (
            one("title", "before", json!("2024-01-01")),
            "conditions[0].value",
            "the operator \"before\" does not apply to a text column",
        ),
        (
            one("tags", "eq", json!(1)),
            "conditions[0].value",
            "expected a string or an array of strings, found a number",
        ),
        (
            one("tags", "in", json!("a")),
            "conditions[0].value",
            "expected an array, found a string",
        ),
        (
            one("tags", "gt", json!("a")),
            "conditions[0].value",
            "the operator \"gt\" does not apply to tags",
        ),
        (
            one("knowledge_id", "eq", json!("4x")),
            "conditions[0].value",
            "\"4x\" is not a 64-bit integer",
        ),
        (
            one("knowledge_id", "eq", json!(1.5)),
            "conditions[0].value",
            "1.5 is not a 64-bit integer",
        ),
        (
            one("knowledge_id", "eq", json!(u64::MAX)),
            "conditions[0].value",
            "18446744073709551615 is not a 64-bit integer",
        ),
        (
            one("knowledge_id", "gt", json!([1])),
            "conditions[0].value",
            "expected an integer, found an array",
        ),
        (
            one("knowledge_id", "contains", json!(1)),
            "conditions[0].value",
            "the operator \"contains\" does not apply to knowledge_id",
        ),
        (
            one("document_id", "eq", json!("7")),
            "conditions[0].value",
            "\"7\" is not a UUID",
        ),
        (
            one("document_id", "eq", json!(7)),
            "conditions[0].value",
            "expected a UUID in a string, found a number",
        ),
        (
            one(
                "chunk_id",
                "gt",
                json!("6d1c23f1-0000-0000-0000-0000000000b0"),
            ),
            "conditions[0].value",
            "the operator \"gt\" does not apply to chunk_id",
        ),
        (
            one("page", "eq", json!("iv")),
            "conditions[0].value",
            "\"iv\" is not a 64-bit integer",
        ),
        (
            one("heading", "gt", json!("a")),
            "conditions[0].value",
            "the operator \"gt\" does not apply to heading",
        ),
        (
            one("document_type", "in", json!(["pdf", "website"])),
            "conditions[0].value[1]",
            "there is no document_type \"website\"",
        ),
        (
            one("a", "text_match", json!(1)),
            "conditions[0].value",
            "expected a string, found a number",
        ),
        // A condition by itself.
        (
            json!({"key": "a", "operator": "bigger", "value": 4}),
            "operator",
            "there is no operator \"bigger\"",
        ),
        (
            json!({"key": "a", "operator": "gte"}),
            "filter",
            "the condition has no value",
        ),
        (
            json!({"key": "a", "operator": "eq", "value": 1, "b": 2}),
            "b",
            "a condition has no member \"b\"",
        ),
        // Operators of other languages.
        (
            json!({"priority": {"$gt": 3}}),
            "priority.$gt",
            "\"$gt\" is not an operator, and a value of metadata is compared as it is",
        ),
        (
            json!({"$or": [{"a": 1}]}),
            "$or",
            "\"$or\" is not an operator, and a value of metadata is compared as it is",
        ),
        (
            one("knowledge_id", "after", json!(1)),
            "conditions[0].value",
            "the operator \"after\" does not apply to knowledge_id",
        ),
        (
            one("indexed_at", "gt", json!("31.5.2024")),
            "conditions[0].value",
            "\"31.5.2024\" is not a timestamp",
        ),
        (
            one("indexed_at", "gt", json!("2023-02-29")),
            "conditions[0].value",
            "\"2023-02-29\" is not a timestamp",
        ),
        (
            one("fetched_at", "in", json!(["2023-02-28", ""])),
            "conditions[0].value[1]",
            "\"\" is not a timestamp",
        ),
        (
            one("fetched_at", "eq", json!(0)),
            "conditions[0].value",
            "expected a timestamp in a string, found a number",
        ),
        (
            one("fetched_at", "start with", json!("2024")),
            "conditions[0].value",
            "the operator \"start with\" does not apply to a timestamp column",
        ),
        // Containment.
        (
            json!({"category": ["a", 1]}),
            "category[1]",
            "expected a string, found a number",
        ),
        (
            json!({"document_type": "website"}),
            "document_type",
            "there is no document_type \"website\"",
        ),
        (
            json!({"tags": [1]}),
            "tags[0]",
            "expected a string, found a number",
        ),
        (
            json!({"knowledge_id": true}),
            "knowledge_id",
            "expected an integer, found a boolean",
        ),
        (
            json!({"indexed_at": "x"}),
            "indexed_at",
            "\"x\" is not a timestamp",
        ),
        (json!({"": 1}), "filter", "the key is empty"),
        (
            json!({"year": 1, "metadata.year": 2}),
            "metadata.year",
            "the metadata key is given twice",
        ),
        (
            json!({"year": {"a": "\0"}}),
            "year",
            "the text contains U+0000",
        ),
    ];
    for (filter, path, message) in cases {
        assert_eq!(
            error_of(&filter),
            (path.to_owned(), message.to_owned()),
            "{filter}"
        );
    }
}
