//! The metadata that a filter needs, to explain why a search found nothing.

use serde_json::Value;

use crate::number;
use crate::operator::Operator;
use crate::timestamp;

/// Maximum length of a text that a hint repeats, in bytes.
const MAX_SHOWN: usize = 60;

/// A metadata key that rows must have, and the possible types of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The key's place in the filter.
    pub key_path: String,
    /// The value's.
    pub value_path: String,
    /// The key in `metadata`.
    pub key: String,
    /// Named as in `jsonb_typeof`. An empty list means any type.
    pub types: Vec<&'static str>,
    /// The texts of which the value must be one, if it must.
    pub texts: Vec<String>,
    /// A text that is compared by code point, and that is written as a date, but not in ISO 8601.
    pub unordered_date: Option<String>,
}

/// A key of a filter that means a column. Documents may have a metadata key of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnUse {
    /// The key's place in the filter.
    pub key_path: String,
    pub name: String,
}

impl ColumnUse {
    pub(crate) fn new(key_path: &str, name: &str) -> Self {
        Self {
            key_path: key_path.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl Usage {
    /// Returns the filter for a key within objects, if the key has dots that may stand for them:
    /// `{"file": {"author": "Ann"}}` for `file.author`.
    pub fn nested_form(&self) -> Option<String> {
        let steps: Vec<&str> = self.key.split('.').collect();
        if steps.len() < 2 || steps.iter().any(|step| step.is_empty()) {
            return None;
        }
        let value = match self.texts.as_slice() {
            [text] if text.len() <= MAX_SHOWN => Value::from(text.as_str()).to_string(),
            _ => "...".to_owned(),
        };
        let nest = |inner, step: &&str| format!("{{{}: {inner}}}", Value::from(*step));
        Some(steps.iter().rev().fold(value, nest))
    }

    /// The value of a member of a containment filter, or those of a list.
    pub(crate) fn of_equal<'a>(
        path: &str,
        key: &str,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Self {
        let (mut types, mut texts) = (vec![], vec![]);
        for value in values {
            texts.extend(value.as_str().map(str::to_owned));
            match value {
                Value::Null => types.push("null"),
                Value::Bool(_) => types.push("boolean"),
                Value::Array(_) => types.push("array"),
                Value::Object(_) => types.push("object"),
                Value::Number(_) => types.extend(["number", "string"]),
                Value::String(text) if number::parse(text).is_some() => {
                    types.extend(["number", "string"])
                }
                Value::String(_) => types.push("string"),
            }
        }
        Self {
            key_path: path.to_owned(),
            value_path: path.to_owned(),
            key: key.to_owned(),
            types,
            texts,
            unordered_date: None,
        }
    }

    /// A key whose values may have any type.
    pub(crate) fn of_any_type(key_path: &str, value_path: &str, key: &str) -> Self {
        Self {
            key_path: key_path.to_owned(),
            value_path: value_path.to_owned(),
            key: key.to_owned(),
            types: vec![],
            texts: vec![],
            unordered_date: None,
        }
    }

    /// A condition that is not an opposite: rows without the key do not meet it.
    pub(crate) fn of_condition(
        key_path: &str,
        value_path: &str,
        key: &str,
        operator: Operator,
        given: &Value,
    ) -> Self {
        let equal =
            |values: &mut dyn Iterator<Item = &Value>| Self::of_equal(key_path, key, values);
        let of_types = |types: Vec<&'static str>| Self {
            types,
            ..Self::of_any_type(key_path, value_path, key)
        };
        let usage = match operator {
            Operator::Equals => equal(&mut std::iter::once(given)),
            Operator::In => equal(&mut given.as_array().into_iter().flatten()),
            Operator::Compare(_) => Self {
                unordered_date: given
                    .as_str()
                    .filter(|text| timestamp::is_other_date(text))
                    .map(str::to_owned),
                ..of_types(equal(&mut std::iter::once(given)).types)
            },
            Operator::Time(_) if given.is_number() => of_types(vec!["number", "string"]),
            Operator::Contains if !given.is_string() => of_types(vec!["array"]),
            Operator::Contains | Operator::Matches => of_types(vec!["string", "array"]),
            Operator::Time(_) | Operator::StartsWith | Operator::EndsWith => {
                of_types(vec!["string"])
            }
            Operator::Present => of_types(vec![]),
        };
        Self {
            value_path: value_path.to_owned(),
            ..usage
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_with_dots_has_a_nested_form() {
        let form = |key: &str, value: Value| Usage::of_equal("p", key, [&value]).nested_form();
        for (key, value, expected) in [
            (
                "file.author",
                json!("Ann"),
                Some(r#"{"file": {"author": "Ann"}}"#),
            ),
            (
                "a.b.c",
                json!("x\"y"),
                Some(r#"{"a": {"b": {"c": "x\"y"}}}"#),
            ),
            ("a\".b", json!(1), Some(r#"{"a\"": {"b": ...}}"#)),
            (
                "file.author",
                json!("x".repeat(61)),
                Some(r#"{"file": {"author": ...}}"#),
            ),
            ("author", json!("Ann"), None),
            (".env", json!("Ann"), None),
            ("etc.", json!("Ann"), None),
            ("a..b", json!("Ann"), None),
            (".", json!("Ann"), None),
        ] {
            assert_eq!(form(key, value).as_deref(), expected, "{key}");
        }
    }
}
