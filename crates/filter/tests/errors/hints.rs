//! Hints, limits, and what a filter needs of metadata.

use super::*;

#[test]
fn the_hint_for_an_unknown_operator_lists_the_known_ones() {
    let error = parse(&one("a", "~", json!(1))).expect_err("unknown operator");
    for name in [
        "text_match",
        "==",
        "<=",
        "eq",
        "nin",
        "lte",
        "not contains",
        "start with",
        "is not",
        "not empty",
        "≠",
        "≤",
        "before",
        "not in",
    ] {
        assert!(
            error.hint.contains(name),
            "{name} is missing in {:?}",
            error.hint
        );
    }
}

#[test]
fn the_hint_for_an_unsuitable_operator_lists_the_suitable_ones() {
    let error = parse(&one("tags", "gt", json!("a"))).expect_err("unfit operator");
    assert_eq!(
        error.hint,
        "Operators for tags: eq, ne, in, nin, contains, not contains, text_match, empty, not empty."
    );
}

#[test]
fn groups_nest_to_the_limit_and_no_deeper() {
    let nested = |depth| {
        (0..depth).fold(
            json!({"key": "a", "operator": "eq", "value": 1}),
            |inner, _| json!({"conditions": [inner]}),
        )
    };
    assert!(parse(&nested(MAX_DEPTH)).is_ok());
    let (path, message) = error_of(&nested(MAX_DEPTH + 1));
    assert_eq!(path.matches("conditions[0]").count(), MAX_DEPTH);
    assert_eq!(message, "groups are nested deeper than 32 levels");
}

#[test]
fn values_nest_to_the_limit_and_no_deeper() {
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    assert!(parse(&json!({"a": nested(MAX_DEPTH)})).is_ok());
    assert_eq!(
        error_of(&json!({"a": nested(MAX_DEPTH + 1)})).1,
        "the value is nested deeper than 32 levels"
    );
}

#[test]
fn conditions_are_counted_over_all_groups() {
    let condition = json!({"key": "a", "operator": "eq", "value": 1});
    let group = |count| json!({"operator": "or", "conditions": vec![condition.clone(); count]});
    assert!(
        parse(&json!({"conditions": [group(MAX_CONDITIONS / 2), group(MAX_CONDITIONS / 2)]}))
            .is_ok()
    );
    let (path, message) = error_of(&json!({"conditions": [group(MAX_CONDITIONS), condition]}));
    assert_eq!(
        (path.as_str(), message.as_str()),
        ("conditions[1]", "there are more than 1000 conditions")
    );
}

#[test]
fn the_hint_for_an_operator_of_another_language_has_the_right_condition() {
    let error = parse(&json!({"priority": {"$gt": 3}})).expect_err("no operator");
    assert_eq!(
        error.hint,
        r#"Write {"conditions":[{"key":"priority","operator":"gt","value":3}]}."#
    );
    // In a condition it is a value like any other.
    assert!(parse(&one("schema", "eq", json!({"$ref": "#/a"}))).is_ok());
}

#[test]
fn a_filter_lists_the_metadata_keys_that_it_needs() {
    let filter = json!({"operator": "or", "conditions": [
        {"key": "priority", "operator": "gt", "value": 3},
        {"key": "metadata.title", "operator": "contains", "value": "x"},
        {"key": "category", "operator": "eq", "value": "x"},
        {"conditions": [{"key": "draft", "operator": "in", "value": [true, null]}]},
        {"operator": "not", "conditions": [{"key": "team", "operator": "eq", "value": 1}]},
        {"key": "owner", "operator": "ne", "value": "x"}]});
    let asked: Vec<_> = parse(&filter)
        .expect("a filter")
        .usages()
        .iter()
        .map(|usage| {
            (
                usage.value_path.clone(),
                usage.key.clone(),
                usage.types.join(" "),
            )
        })
        .collect();
    let expected = [
        ("conditions[0].value", "priority", "number string"),
        ("conditions[1].value", "title", "string array"),
        ("conditions[3].conditions[0].value", "draft", "boolean null"),
    ];
    assert_eq!(
        asked,
        expected.map(|(path, key, types)| (path.to_owned(), key.to_owned(), types.to_owned()))
    );
    let types = |filter| parse(&filter).expect("a filter").usages()[0].types.clone();
    assert_eq!(types(json!({"priority": true})), ["boolean"]);
    assert_eq!(types(json!({"priority": "4"})), ["number", "string"]);
    assert_eq!(types(json!({"priority": "high"})), ["string"]);
}
