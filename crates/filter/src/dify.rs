//! Dify's `metadata_condition`, as its client sends it to an external knowledge base.
//!
//! `{"logical_operator": "and", "conditions": [{"name", "comparison_operator", "value"}]}`: the
//! condition, its operator and its conditions may be null, and `name` may be an array of one. Keys
//! are those of [`parse`](crate::parse), and so is the meaning of most operators. For metadata
//! these differ:
//!
//! | operator | matches |
//! |---|---|
//! | `is` | a string, number or boolean with this text: `is "2020"` matches 2020, and not 2020.0 |
//! | `in` | the same for one of a list, or of one text with commas |
//! | `not empty` | the key exists and is not null; its value may be empty |
//! | `before`, `after` | with a number, or a text that is one: `<` and `>` of numbers |
//!
//! The value of `document_id` or `chunk_id` may also be an id of the document's own, in its
//! metadata.
//!
//! `=` and the other signs compare a number with a text that is one. `is not`, `not in`, `empty`
//! and `not contains` are opposites, as everywhere. A condition without a value is skipped, except
//! for `empty` and `not empty`, whose value does not matter. Members that Dify has beside these are
//! ignored: a version of Dify that sends more still finds what it asks for.

use serde_json::{Map, Value};

use crate::condition::{MetadataTest, Node, Test};
use crate::error::{FilterError, Result, member};
use crate::key::Key;
use crate::operator::{Comparison, Operator};
use crate::parse::{check_count, join, key_name};
use crate::usage::{ColumnUse, Usage};
use crate::{Filter, number, operand, value};

/// Every name, its meaning for columns, and whether it is the opposite.
const NAMES: [(&str, DifyOperator, bool); 20] = {
    use Comparison::*;
    use DifyOperator::*;
    [
        ("contains", Same(Operator::Contains), false),
        ("not contains", Same(Operator::Contains), true),
        ("start with", Same(Operator::StartsWith), false),
        ("end with", Same(Operator::EndsWith), false),
        ("is", Is, false),
        ("is not", Is, true),
        ("in", In, false),
        ("not in", In, true),
        ("empty", NotEmpty, true),
        ("not empty", NotEmpty, false),
        ("=", Same(Operator::Equals), false),
        ("≠", Same(Operator::Equals), true),
        (">", Same(Operator::Compare(Greater)), false),
        ("<", Same(Operator::Compare(Less)), false),
        ("≥", Same(Operator::Compare(GreaterOrEqual)), false),
        (">=", Same(Operator::Compare(GreaterOrEqual)), false),
        ("≤", Same(Operator::Compare(LessOrEqual)), false),
        ("<=", Same(Operator::Compare(LessOrEqual)), false),
        ("before", Same(Operator::Time(Less)), false),
        ("after", Same(Operator::Time(Greater)), false),
    ]
};

/// Members of other forms of a filter, which would be misunderstood if they were ignored.
const MISTAKEN: [&str; 2] = ["operator", "condition"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DifyOperator {
    Is,
    In,
    NotEmpty,
    /// As in other filters.
    Same(Operator),
}

/// Reads Dify's form of a filter. `path` is its place in a larger document. Without conditions it
/// restricts nothing.
pub fn parse_dify(filter: &Value, path: &str) -> Result<Filter> {
    let mut read = Filter::unrestricted();
    match filter {
        Value::Null => {}
        Value::Object(members) => read.root = group(members, path, &mut read)?,
        _ => return Err(value::wrong_type(filter, "an object", path)),
    }
    Ok(read)
}

/// Records the keys in `read`.
fn group(members: &Map<String, Value>, path: &str, read: &mut Filter) -> Result<Node> {
    if let Some(name) = MISTAKEN
        .into_iter()
        .find(|name| members.contains_key(*name))
    {
        return Err(FilterError::new(
            &member(path, name),
            format!("a metadata condition has no member {name:?}"),
            "Members of a metadata condition: logical_operator, conditions.",
        ));
    }
    let operator = members.get("logical_operator").unwrap_or(&Value::Null);
    let join = join(operator, &member(path, "logical_operator"))?;
    let path = member(path, "conditions");
    let conditions = match members.get("conditions") {
        None | Some(Value::Null) => return Ok(Node::All(vec![])),
        Some(Value::Array(conditions)) => conditions,
        Some(other) => return Err(value::wrong_type(other, "an array of conditions", &path)),
    };
    check_count(conditions.len(), &path)?;
    let mut nodes = vec![];
    for (i, given) in conditions.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let Value::Object(members) = given else {
            return Err(value::wrong_type(given, "a condition", &path));
        };
        nodes.extend(condition(members, &path, read)?);
    }
    // an empty OR would match nothing
    Ok(if nodes.is_empty() {
        Node::All(nodes)
    } else {
        join(nodes)
    })
}

/// Returns None for a condition that is skipped.
fn condition(members: &Map<String, Value>, path: &str, read: &mut Filter) -> Result<Option<Node>> {
    let key_path = member(path, "name");
    let name = members
        .get("name")
        .ok_or_else(|| FilterError::new(path, "the condition has no name", "Add \"name\"."))?;
    let key_name = key_name(name, &key_path)?;
    let key = Key::parse(key_name, &key_path)?;

    let name = members.get("comparison_operator").ok_or_else(|| {
        FilterError::new(path, "the condition has no comparison_operator", hint())
    })?;
    let (name, operator, negated) = operator(name, &member(path, "comparison_operator"))?;

    let value_path = member(path, "value");
    let given = members.get("value").unwrap_or(&Value::Null);
    if given.is_null() && operator != DifyOperator::NotEmpty {
        return Ok(None);
    }
    let key = own_id(key, key_name, given, &value_path);
    match &key {
        _ if negated => {}
        Key::Metadata(key) => {
            let usage = Usage::of_any_type(&key_path, &value_path, key);
            read.usages.push(usage);
        }
        _ => read.columns.push(ColumnUse::new(&key_path, key_name)),
    }
    let test = test(key, operator, name, given, &value_path)?;
    Ok(Some(if negated {
        Node::Not(test)
    } else {
        Node::Holds(test)
    }))
}

/// Returns the metadata key of this name for an id that no column can have: documents may have ids
/// of their own.
fn own_id(key: Key, name: &str, given: &Value, path: &str) -> Key {
    match &key {
        Key::Uuid(_) if given.is_string() && value::uuid(given, path).is_err() => {
            Key::Metadata(name.to_owned())
        }
        _ => key,
    }
}

fn operator<'a>(name: &'a Value, path: &str) -> Result<(&'a str, DifyOperator, bool)> {
    let text = name.as_str().ok_or_else(|| FilterError {
        hint: hint(),
        ..value::wrong_type(name, "the name of an operator", path)
    })?;
    NAMES
        .iter()
        .find(|(known, ..)| known.eq_ignore_ascii_case(text))
        .map(|(_, operator, negated)| (text, *operator, *negated))
        .ok_or_else(|| FilterError::new(path, format!("there is no operator {text:?}"), hint()))
}

fn hint() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(name, ..)| *name).collect();
    format!("Operators: {}.", names.join(", "))
}

fn test(key: Key, operator: DifyOperator, name: &str, given: &Value, path: &str) -> Result<Test> {
    match (key, operator) {
        (Key::Metadata(key), DifyOperator::Is) => Ok(Test::Metadata {
            key,
            test: MetadataTest::TextIn(texts_of(given, path)?),
        }),
        (Key::Metadata(key), DifyOperator::In) => Ok(Test::Metadata {
            key,
            test: MetadataTest::TextIn(list(given, path)?),
        }),
        (Key::Metadata(key), DifyOperator::NotEmpty) => Ok(Test::Metadata {
            key,
            test: MetadataTest::HasValue,
        }),
        (key, operator) => {
            let (operator, given) = match operator {
                DifyOperator::Is => (Operator::Equals, text_of(given, path)?.into()),
                DifyOperator::In => (Operator::In, list(given, path)?.into()),
                DifyOperator::NotEmpty => (Operator::Present, Value::Null),
                DifyOperator::Same(operator) => (operator, operand(operator, given, path)?),
            };
            operand::of(key, operator, name, &given, path)
        }
    }
}

/// Returns the value of an operator that other filters have, too, as they expect it.
fn operand(operator: Operator, given: &Value, path: &str) -> Result<Value> {
    match (operator, given) {
        (Operator::Contains | Operator::StartsWith | Operator::EndsWith, _) => {
            text_of(given, path).map(Value::from)
        }
        (Operator::Time(_), Value::String(text)) => {
            Ok(number::parse(text).map_or_else(|| given.clone(), Value::Number))
        }
        (_, Value::Array(_) | Value::Object(_)) => Err(wrong_scalar(given, path)),
        _ => Ok(given.clone()),
    }
}

/// Reads a scalar as text.
fn text_of(given: &Value, path: &str) -> Result<String> {
    Ok(texts_of(given, path)?.swap_remove(0))
}

/// Reads a scalar as the texts that stored values may have: 2020 is `2020`, and 2020.0 also
/// `2020.0`.
fn texts_of(given: &Value, path: &str) -> Result<Vec<String>> {
    match given {
        Value::String(_) => Ok(vec![value::text(given, path)?]),
        Value::Number(number) => Ok(number::texts(number)),
        Value::Bool(flag) => Ok(vec![flag.to_string()]),
        _ => Err(wrong_scalar(given, path)),
    }
}

fn wrong_scalar(given: &Value, path: &str) -> FilterError {
    value::wrong_type(given, "a string or a number", path)
}

/// Reads a list, or one text with commas. Elements that are null or blank do not count.
fn list(given: &Value, path: &str) -> Result<Vec<String>> {
    let mut texts = vec![];
    match given {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate().filter(|(_, item)| !item.is_null()) {
                texts.extend(texts_of(item, &format!("{path}[{i}]"))?);
            }
        }
        Value::String(_) => {
            let text = value::text(given, path)?;
            let parts = text.split(',').map(str::trim);
            texts.extend(parts.filter(|part| !part.is_empty()).map(str::to_owned));
        }
        _ => texts = texts_of(given, path)?,
    }
    Ok(texts)
}
