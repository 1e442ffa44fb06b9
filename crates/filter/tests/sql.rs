//! Properties of every statement, whatever the filter: placeholders are numbered without gaps and
//! cast, and the text is free of user input.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use rag_filter::{Param, TitleWords, parse, parse_dify};
use serde_json::{Map, Value, json};

const OPERATORS: [&str; 30] = [
    "eq",
    "ne",
    "in",
    "nin",
    "gt",
    "gte",
    "lt",
    "lte",
    "contains",
    "not contains",
    "start with",
    "end with",
    "is",
    "is not",
    "empty",
    "not empty",
    "=",
    "≠",
    ">",
    "<",
    "≥",
    "≤",
    "before",
    "after",
    "not in",
    "==",
    "!=",
    ">=",
    "<=",
    "text_match",
];
const COLUMNS: [&str; 14] = [
    "category",
    "document_type",
    "title",
    "uri",
    "source",
    "source_file",
    "tags",
    "heading",
    "knowledge_id",
    "page",
    "document_id",
    "chunk_id",
    "indexed_at",
    "fetched_at",
];
const MEMBERS: [&str; 9] = [
    "key",
    "name",
    "operator",
    "comparison_operator",
    "logical_operator",
    "value",
    "conditions",
    "and",
    "or",
];
/// Part of every key and string that the tests generate.
const MARKER: &str = "Ω'";

#[test]
fn an_empty_filter_is_true() {
    for filter in [json!(null), json!({})] {
        let filter = parse(&filter).unwrap();
        assert!(filter.is_unrestricted());
        let sql = filter.to_sql(1);
        assert_eq!((sql.text.as_str(), sql.params.len()), ("true", 0));
    }
}

#[test]
fn containment_puts_metadata_keys_into_one_parameter() {
    let sql = parse(&json!({"category": "tech", "draft": true, "metadata.category": "x"}))
        .unwrap()
        .to_sql(4);
    assert_eq!(
        sql.text,
        "((c.category = $4::text) AND (c.metadata @> $5::jsonb))"
    );
    assert_eq!(
        sql.params,
        [
            Param::Text("tech".into()),
            Param::Json(json!({"draft": true, "category": "x"}))
        ]
    );
}

#[test]
fn containment_of_a_number_includes_its_text() {
    let sql = parse(&json!({"year": 2020})).unwrap().to_sql(1);
    assert_eq!(
        sql.text,
        "(c.metadata @> $1::jsonb OR c.metadata @> $2::jsonb)"
    );
    assert_eq!(
        sql.params,
        [
            Param::Json(json!({"year": 2020})),
            Param::Json(json!({"year": "2020"}))
        ]
    );
}

#[test]
fn groups_keep_their_shape() {
    let filter = json!({"operator": "or", "conditions": [
        {"key": "category", "operator": "ne", "value": "a"},
        {"conditions": [
            {"key": "knowledge_id", "operator": "gt", "value": 1},
            {"key": "indexed_at", "operator": "before", "value": "2024-01-01"}]}]});
    let sql = parse(&filter).unwrap().to_sql(1);
    assert_eq!(
        sql.text,
        "(((c.category = $1::text) IS NOT TRUE) OR ((c.knowledge_id > \
            $2::int8) AND \
         (c.indexed_at < $3::text::timestamptz)))"
    );
    let params = [
        Param::Text("a".into()),
        Param::BigInt(1),
        Param::Timestamp("2024-01-01".into()),
    ];
    assert_eq!(sql.params, params);
}

#[test]
fn fields_of_a_query_are_added() {
    let words = TitleWords {
        query: "pumps".into(),
        config: "pg_catalog.english".into(),
        language_key: None,
    };
    let marked = TitleWords {
        language_key: Some("lang".into()),
        ..words.clone()
    };
    let none = parse(&Value::Null).unwrap();
    let filter = none.with_title(words.clone(), false);
    assert!(!filter.is_unrestricted());
    let sql = filter.with_uri("Docs/", true).to_sql(3);
    assert_eq!(
        sql.text,
        "((rag_internal.bm25_title_matches(c.title, $3::text, $4::text)) AND \
         ((strpos(lower(c.uri), lower($5::text)) > 0) IS NOT TRUE))"
    );
    assert_eq!(sql.params.len(), 3);
    let any = json!({"operator": "or", "conditions": [
        {"key": "title", "operator": "eq", "value": "a"},
        {"key": "title", "operator": "eq", "value": "b"}]});
    let sql = parse(&any).unwrap().with_title(marked, true).to_sql(1);
    assert_eq!(
        sql.text,
        "(((c.title = $1::text) OR (c.title = $2::text)) AND \
         ((rag_internal.bm25_title_matches(chr(1) || left(coalesce(c.metadata ->> $3::text, ''), \
         16) || chr(1) || c.title, $4::text, $5::text)) IS NOT TRUE))"
    );
}

#[test]
fn dify_names_mean_the_same() {
    let own =
        json!({"operator": "or", "conditions": [{"key": "year", "operator": "gte", "value": 1}]});
    let dify = json!({"logical_operator": "or", "conditions": [
        {"name": ["year"], "comparison_operator": "≥", "value": 1}]});
    let statement = |filter| parse(filter).unwrap().to_sql(1);
    assert_eq!(statement(&own), statement(&dify));
}

/// Any JSON, with special names more often than by chance.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        name().prop_map(Value::from),
        Just(json!("2024-02-29T10:00:00Z")),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(MEMBERS.as_slice()).prop_map(str::to_owned),
        prop::sample::select(OPERATORS.as_slice()).prop_map(str::to_owned),
        prop::sample::select(COLUMNS.as_slice()).prop_map(str::to_owned),
        any::<String>(),
    ]
}

/// A text with the marker in it.
fn marked() -> impl Strategy<Value = String> {
    ("[^\0]{0,8}", "[^\0]{0,8}").prop_map(|(before, after)| format!("{before}{MARKER}{after}"))
}

/// A value that suits many operators and keys. Its strings contain the marker unless they must be
/// times.
fn plausible_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        marked().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        Just(json!("2024-02-29 10:00:00+02")),
    ];
    prop_oneof![
        scalar.clone(),
        prop::collection::vec(scalar.clone(), 0..4).prop_map(Value::from),
        prop::collection::vec(marked().prop_map(Value::from), 0..4).prop_map(Value::from),
        (marked(), scalar).prop_map(|(key, value)| Value::Object(Map::from_iter([(key, value)]))),
    ]
}

fn plausible_key() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(COLUMNS.as_slice()).prop_map(str::to_owned),
        marked()
    ]
}

/// One condition that parses.
fn good_condition() -> impl Strategy<Value = Value> {
    let condition = (
        plausible_key(),
        prop::sample::select(OPERATORS.as_slice()),
        plausible_value(),
    )
        .prop_map(|(key, operator, value)| match operator {
            "empty" | "not empty" => json!({"key": key, "operator": operator}),
            _ => json!({"key": key, "operator": operator, "value": value}),
        });
    condition.prop_filter("accepted", |condition| {
        parse(&json!({"conditions": [condition]})).is_ok()
    })
}

fn good_filter() -> impl Strategy<Value = Value> {
    let group = good_condition().prop_recursive(4, 24, 4, |inner| {
        (
            prop::sample::select(vec!["and", "or"]),
            prop::collection::vec(inner, 1..4),
        )
            .prop_map(
                |(operator, conditions)| json!({"operator": operator, "conditions": conditions}),
            )
    });
    let containment = prop::collection::vec((marked(), plausible_value()), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()));
    prop_oneof![
        group.prop_map(|inner| json!({"conditions": [inner]})),
        containment
    ]
    .prop_filter("accepted", |filter| parse(filter).is_ok())
}

/// The numbers of the placeholders, in the order of their first use.
fn placeholders(text: &str) -> Vec<usize> {
    let mut seen = Vec::new();
    for rest in text.split('$').skip(1) {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .expect("a cast follows");
        assert!(rest[digits..].starts_with("::"), "no cast after ${rest}");
        let number = rest[..digits].parse().expect("a number follows $");
        if !seen.contains(&number) {
            seen.push(number);
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_json_is_parsed_or_refused(filter in any_json()) {
        if let Ok(filter) = parse(&filter) {
            filter.to_sql(1);
        }
    }

    #[test]
    fn any_json_is_parsed_or_refused_as_conditions_of_dify(filter in any_json()) {
        if let Ok(filter) = parse_dify(&filter, "") {
            filter.to_sql(1);
        }
    }

    #[test]
    fn no_text_of_dify_stands_in_the_statement(
        key in plausible_key(),
        operator in prop::sample::select(OPERATORS.as_slice()),
        value in plausible_value(),
    ) {
        let filter = json!({"conditions": [
            {"name": key, "comparison_operator": operator, "value": value}]});
        if let Ok(filter) = parse_dify(&filter, "") {
            let sql = filter.to_sql(1);
            prop_assert!(sql.text.is_ascii());
            let expected: Vec<usize> = (1..=sql.params.len()).collect();
            prop_assert_eq!(placeholders(&sql.text.replace(")?$'", ")?'")), expected);
        }
    }

    #[test]
    fn placeholders_count_the_parameters(filter in good_filter(), first in 1usize..50) {
        let sql = parse(&filter).unwrap().to_sql(first);
        let expected: Vec<usize> = (first..first + sql.params.len()).collect();
        // The pattern for timestamps ends in a dollar sign that is not a placeholder.
        prop_assert_eq!(placeholders(&sql.text.replace(")?$'", ")?'")), expected);
    }

    #[test]
    fn no_text_of_the_user_stands_in_the_statement(filter in good_filter()) {
        let sql = parse(&filter).unwrap().to_sql(1);
        prop_assert!(!sql.text.contains('Ω'));
        prop_assert!(sql.text.is_ascii());
        prop_assert_eq!(sql.text.matches('(').count(), sql.text.matches(')').count());
    }
}
