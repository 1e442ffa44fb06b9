//! Which rows Dify's conditions return.

use rag_filter::parse_dify;
use serde_json::{Value, json};

use super::check_rows;

/// A condition of one key, as Dify's client sends it.
fn one(name: &str, operator: &str, value: Value) -> Value {
    json!({"logical_operator": "and", "conditions": [
        {"name": name, "comparison_operator": operator, "value": value}]})
}

fn cases() -> Vec<(Value, &'static str)> {
    let null = Value::Null;
    let all = "1 2 3 4 5 6";
    vec![
        // Nothing is restricted.
        (json!(null), all),
        (json!({}), all),
        (json!({"logical_operator": "or", "conditions": null}), all),
        (json!({"logical_operator": null, "conditions": []}), all),
        // A condition without a value is skipped, also beside others.
        (one("year", "is", null.clone()), all),
        (
            json!({"conditions": [{"name": "year", "comparison_operator": ">"}]}),
            all,
        ),
        (
            json!({"logical_operator": "or", "conditions": [
                {"name": "year", "comparison_operator": "is"},
                {"name": ["category"], "comparison_operator": "is", "value": "news"}]}),
            "2",
        ),
        (
            json!({"logical_operator": "OR", "conditions": [
                {"name": "lang", "comparison_operator": "is", "value": "en"},
                {"name": "category", "comparison_operator": "is", "value": "news"}]}),
            "1 2",
        ),
        // "is" compares as text, the signs compare numbers and texts that are numbers.
        (one("year", "is", json!("2020")), "1 2"),
        (one("year", "is", json!(2020)), "1 2"),
        (one("year", "is", json!(2020.0)), "1 2 6"),
        (one("year", "is", json!("2020.0")), "6"),
        (one("year", "is not", json!("2020")), "3 4 5 6"),
        (one("year", "=", json!("2020")), "1 2 6"),
        (one("year", "=", json!(2020)), "1 2 6"),
        (one("year", "≠", json!(2020)), "3 4 5"),
        (one("year", ">", json!("2020")), "5"),
        (one("year", "≥", json!("2020")), "1 2 5 6"),
        (one("year", ">=", json!(2021)), "5"),
        (one("year", "<", json!("2021")), "1 2 6"),
        (one("year", "≤", json!(2020)), "1 2 6"),
        (one("year", "<=", json!(2019)), ""),
        (one("level", "<", json!("10")), "5"),
        (one("draft", "is", json!("false")), "1 5"),
        (one("draft", "=", json!("false")), "5"),
        (one("note", "is", json!("null")), ""),
        (one("topics", "is", json!("[]")), ""),
        // A list, or one text with commas.
        (one("lang", "in", json!(["en", "EN"])), "1 2"),
        (one("lang", "in", json!("en, EN ,")), "1 2"),
        (one("lang", "In", json!("en")), "1"),
        (one("lang", "not in", json!("en,EN")), "3 4 5 6"),
        (one("year", "in", json!([2020, null, "2021.5"])), "1 2 5"),
        (one("year", "in", json!("2020,2021.5")), "1 2 5"),
        (one("year", "in", json!(2020)), "1 2"),
        (one("lang", "in", json!([])), ""),
        (one("lang", "not in", json!(" , ")), all),
        // Text.
        (one("lang", "contains", json!("n")), "1"),
        (one("lang", "not contains", json!("n")), "2 3 4 5 6"),
        (one("topics", "contains", json!("a")), "1 2"),
        (one("lang", "start with", json!("50%")), "5"),
        (one("lang", "end with", json!("'x")), "5"),
        (one("lang", "contains", json!(50)), "5"),
        // A key is empty if it is missing or null.
        (one("note", "empty", null.clone()), "1 3 4 6"),
        (one("note", "not empty", null.clone()), "2 5"),
        (one("topics", "empty", json!("ignored")), "3 4"),
        (one("category", "empty", null.clone()), "3 4"),
        (one("tags", "not empty", null.clone()), "1 2 5 6"),
        // Times, and numbers that stand for them.
        (one("date", "before", json!("2024-06-01T00:00:00Z")), "1"),
        (one("date", "after", json!("2024-05-31T00:00:00Z")), "6"),
        (one("year", "before", json!(2021)), "1 2 6"),
        (one("year", "after", json!("2020.5")), "5"),
        (one("indexed_at", "before", json!("2024-05-31")), "4"),
        // Columns.
        (one("category", "is", json!("tech")), "1 6"),
        (one("category", "is not", json!("tech")), "2 3 4 5"),
        (one("category", "in", json!("tech,news")), "1 2 6"),
        (one("category", "=", json!("news")), "2"),
        (one("title", "start with", json!("The ")), "1"),
        (one("tags", "contains", json!("c")), "5"),
        (one("tags", "in", json!("c,z")), "5"),
        (one("knowledge_id", "is", json!("42")), "5 6"),
        (one("knowledge_id", "in", json!("1,42")), "1 5 6"),
        (one("knowledge_id", "<", json!(1)), "4"),
        (
            one(
                "document_id",
                "is",
                json!("6d1c23f1-0000-0000-0000-00000000000b"),
            ),
            "6",
        ),
        (one("metadata.category", "is", json!("hidden")), "1"),
        (
            json!({"logical_operator": "and", "conditions": [
                {"name": ["category"], "comparison_operator": "contains", "value": "ec"},
                {"name": "knowledge_id", "comparison_operator": "not empty", "value": null}]}),
            "1 5 6",
        ),
    ]
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn every_operator_of_dify_returns_the_rows_it_promises() {
    check_rows(&cases(), |filter| parse_dify(filter, "metadata_condition"));
}
