//! Labels: short texts by which a server without SQL can leave out rows that cannot pass a filter.
//!
//! A row has a label for each value that [`labels`] knows. A filter that some values must pass
//! requires labels of theirs: [`Filter::required_labels`]. Every row that passes the filter has the
//! labels that it requires. The reverse does not hold: comparisons and opposites require none, and
//! the filter decides in the end.

use rag_protocol::storage::Labelled;
use serde_json::Value;

use crate::{
    Filter,
    condition::{MetadataTest, Node, ScalarTest, TagsTest, Test, TextTest},
};

/// A longer label is replaced by its hash.
const MAX_LABEL: usize = 200;
/// The label of rows whose metadata could not be read: they may have any value.
const UNKNOWN: &str = "*";

/// The columns of a row that have labels.
pub struct LabelledRow<'a> {
    pub document_id: &'a str,
    pub source: Option<&'a str>,
    pub document_type: &'a str,
    pub category: Option<&'a str>,
    pub tags: &'a [String],
    pub knowledge_id: Option<i64>,
    /// None: could not be read.
    pub metadata: Option<&'a Value>,
}

/// Returns the labels of a row.
pub fn labels(row: &LabelledRow<'_>) -> Vec<String> {
    let mut labels = vec![
        label("document_id", row.document_id),
        label("document_type", row.document_type),
    ];
    labels.extend(row.source.map(|source| label("source", source)));
    labels.extend(row.category.map(|category| label("category", category)));
    labels.extend(row.tags.iter().map(|tag| label("tags", tag)));
    let knowledge_id = row.knowledge_id.map(|id| id.to_string());
    labels.extend(knowledge_id.map(|id| label("knowledge_id", &id)));
    match row.metadata {
        None => labels.push(UNKNOWN.into()),
        Some(metadata) => {
            let members = metadata.as_object().into_iter().flatten();
            labels.extend(members.filter_map(|(key, value)| of_metadata(key, value)));
        }
    }
    labels.sort_unstable();
    labels.dedup();
    labels
}

fn label(key: &str, value: &str) -> String {
    rag_protocol::storage::label(format!("{key}={value}"), MAX_LABEL)
}

/// Returns the label of a metadata key whose value is neither an array nor an object. Numbers that
/// are equal have the same label.
fn of_metadata(key: &str, value: &Value) -> Option<String> {
    let text = match value {
        Value::Array(_) | Value::Object(_) => return None,
        Value::Number(number) => {
            // -0 is 0
            let number = number.as_f64().filter(|number| number.is_finite())? + 0.0;
            number.to_string()
        }
        other => other.to_string(),
    };
    Some(label(&format!("metadata.{key}"), &text))
}

impl Filter {
    /// Returns the labels that every row has that passes, or None if rows without any may pass.
    pub fn required_labels(&self) -> Option<Labelled> {
        required(&self.root)
    }
}

fn required(node: &Node) -> Option<Labelled> {
    match node {
        Node::All(nodes) => all(nodes.iter().map(required)),
        Node::Any(nodes) => {
            let any: Option<Vec<Labelled>> = nodes.iter().map(required).collect();
            any.map(Labelled::Any)
        }
        Node::Holds(test) => of_test(test),
        Node::Not(_) | Node::NotAll(_) => None,
    }
}

/// Joins what is required.
fn all(parts: impl Iterator<Item = Option<Labelled>>) -> Option<Labelled> {
    let parts: Vec<Labelled> = parts.flatten().collect();
    (!parts.is_empty()).then_some(Labelled::All(parts))
}

fn of_test(test: &Test) -> Option<Labelled> {
    match test {
        Test::Contains(alternatives) => {
            let any: Option<Vec<Labelled>> = alternatives
                .iter()
                .map(|members| {
                    all(members
                        .iter()
                        .map(|(key, value)| one_of_metadata(key, [value])))
                })
                .collect();
            any.map(Labelled::Any)
        }
        Test::Metadata { key, test } => match test {
            MetadataTest::Equals(value) => one_of_metadata(key, [value]),
            MetadataTest::In(values) => one_of_metadata(key, values),
            _ => None,
        },
        Test::Text {
            column: column @ ("category" | "document_type" | "source"),
            test: TextTest::Scalar(test),
        } => of_scalar(column, test, String::clone),
        Test::Texts {
            column: "tags",
            test,
        } => match test {
            TagsTest::AllOf(tags) | TagsTest::Exactly(tags) => {
                all(tags.iter().map(|tag| one_of([label("tags", tag)])))
            }
            TagsTest::AnyOf(tags) => one_of(tags.iter().map(|tag| label("tags", tag))),
            _ => None,
        },
        Test::Integer {
            column: column @ "knowledge_id",
            test,
        } => of_scalar(column, test, i64::to_string),
        Test::Uuid {
            column: column @ "document_id",
            test,
        } => of_scalar(column, test, |id| id.0.to_lowercase()),
        _ => None,
    }
}

fn of_scalar<T>(
    column: &str,
    test: &ScalarTest<T>,
    text: impl Fn(&T) -> String,
) -> Option<Labelled> {
    let label = |value| label(column, &text(value));
    match test {
        ScalarTest::Equals(value) => one_of([label(value)]),
        ScalarTest::In(values) => one_of(values.iter().map(label)),
        _ => None,
    }
}

fn one_of(labels: impl IntoIterator<Item = String>) -> Option<Labelled> {
    Some(Labelled::OneOf(labels.into_iter().collect()))
}

/// Returns None if a value has no label.
fn one_of_metadata<'a>(key: &str, values: impl IntoIterator<Item = &'a Value>) -> Option<Labelled> {
    let labels: Option<Vec<String>> = values
        .into_iter()
        .map(|value| of_metadata(key, value))
        .collect();
    let unknown = UNKNOWN.to_owned();
    labels.map(|labels| Labelled::OneOf(labels.into_iter().chain([unknown]).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse;

    fn has(row: &[String], required: &Labelled) -> bool {
        match required {
            Labelled::All(all) => all.iter().all(|part| has(row, part)),
            Labelled::Any(any) => any.iter().any(|part| has(row, part)),
            Labelled::OneOf(labels) => labels.iter().any(|label| row.contains(label)),
        }
    }

    fn row(metadata: Option<&Value>) -> Vec<String> {
        labels(&LabelledRow {
            document_id: "8a1f2f60-0000-4000-8000-000000000001",
            source: Some("wiki"),
            document_type: "markdown",
            category: Some("ops"),
            tags: &["x".into(), "y".into()],
            knowledge_id: Some(7),
            metadata,
        })
    }

    #[test]
    fn rows_that_pass_have_what_is_required() {
        let metadata = json!({"year": 2020, "zip": "007", "draft": false, "gone": null,
                              "long": "l".repeat(500), "list": [1], "half": 0.5});
        let labels = row(Some(&metadata));
        assert!(labels.iter().all(|label| label.len() <= MAX_LABEL));
        for filter in [
            json!({"year": 2020}),
            json!({"year": "2020"}),
            json!({"year": 2020.0}),
            json!({"half": "0.50"}),
            json!({"zip": "007", "draft": false, "gone": null}),
            json!({"long": "l".repeat(500)}),
            json!({"list": [1], "year": 2020}),
            json!({"category": "ops", "tags": ["y"], "source": ["wiki", "other"]}),
            json!({"key": "tags", "operator": "in", "value": ["z", "x"]}),
            json!({"key": "knowledge_id", "operator": "in", "value": [1, "7"]}),
            json!({"key": "doc_ref", "operator": "eq",
                   "value": "8A1F2F60-0000-4000-8000-000000000001"}),
            json!({"operator": "or", "conditions": [
                {"key": "year", "operator": "in", "value": [1999, 2020]},
                {"key": "category", "operator": "eq", "value": "none"}]}),
        ] {
            let required = parse(&filter).expect("valid").required_labels();
            let required = required.unwrap_or_else(|| panic!("{filter} requires nothing"));
            assert!(has(&labels, &required), "{filter}: {required:?}");
            // whatever it is, it may be in metadata that could not be read
            if !filter.to_string().contains("category") {
                assert!(has(&row(None), &required), "{filter}");
            }
        }
    }

    #[test]
    fn other_rows_lack_it() {
        let labels = row(Some(&json!({"year": 2020})));
        for filter in [
            json!({"year": 2021}),
            json!({"owner": "data"}),
            json!({"tags": ["x", "z"]}),
            json!({"category": "ops", "year": 7}),
        ] {
            let required = parse(&filter).expect("valid").required_labels();
            assert!(!has(&labels, &required.expect("labels")), "{filter}");
        }
    }

    #[test]
    fn comparisons_and_opposites_require_nothing() {
        for filter in [
            json!({}),
            json!({"key": "year", "operator": "gte", "value": 2020}),
            json!({"key": "year", "operator": "ne", "value": 2020}),
            json!({"key": "title", "operator": "eq", "value": "T"}),
            json!({"list": [1]}),
            json!({"operator": "or", "conditions": [
                {"key": "year", "operator": "eq", "value": 2020},
                {"key": "year", "operator": "gt", "value": 2021}]}),
        ] {
            assert_eq!(
                parse(&filter).expect("valid").required_labels(),
                None,
                "{filter}"
            );
        }
    }
}
