//! Reads the value of a condition as the type that its key needs.

use rag_definition::DocumentType;
use serde_json::{Map, Value};

use crate::condition::{Timestamp, Uuid};
use crate::error::{FilterError, Result, member};
use crate::operator::Operator;
use crate::{MAX_DEPTH, number, timestamp};

/// The largest integer below which every integer is a distinct `f64`.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// PostgreSQL's text and jsonb cannot hold U+0000.
pub(crate) fn check_text(text: &str, path: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(FilterError::new(
            path,
            "the text contains U+0000",
            "PostgreSQL cannot store that character.",
        ));
    }
    Ok(())
}

/// Reads any JSON that fits in a jsonb.
pub(crate) fn json(value: &Value, path: &str) -> Result<Value> {
    check_json(value, path, 0)?;
    Ok(value.clone())
}

fn check_json(value: &Value, path: &str, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(FilterError::new(
            path,
            format!("the value is nested deeper than {MAX_DEPTH} levels"),
            "Compare with a flatter value.",
        ));
    }
    match value {
        Value::String(text) => check_text(text, path),
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| check_json(item, path, depth + 1)),
        Value::Object(members) => members.iter().try_for_each(|(key, member)| {
            check_text(key, path)?;
            check_json(member, path, depth + 1)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

pub(crate) fn text(value: &Value, path: &str) -> Result<String> {
    let text = value
        .as_str()
        .ok_or_else(|| wrong_type(value, "a string", path))?;
    check_text(text, path)?;
    Ok(text.to_owned())
}

/// Returns the values that mean the same: a number is also that number as a text, and the reverse.
pub(crate) fn alternatives(value: Value) -> Vec<Value> {
    let others: Vec<Value> = match &value {
        Value::Number(given) => number::texts(given)
            .into_iter()
            .map(Value::String)
            .collect(),
        Value::String(text) => number::parse(text).into_iter().map(Value::Number).collect(),
        _ => vec![],
    };
    std::iter::once(value).chain(others).collect()
}

/// Refuses operators of other languages in the place of a value: `{"$gt": 3}`.
pub(crate) fn check_operators(members: &Map<String, Value>, key: &str, path: &str) -> Result<()> {
    let Some((name, given)) = members.iter().find(|(name, _)| name.starts_with('$')) else {
        return Ok(());
    };
    let bare = &name[1..];
    let hint = if ["and", "or"].contains(&bare) {
        format!("Write {{\"operator\": {bare:?}, \"conditions\": [...]}}.")
    } else if Operator::parse(bare, path).is_ok() && !key.is_empty() {
        let condition =
            serde_json::json!({"conditions": [{"key": key, "operator": bare, "value": given}]});
        format!("Write {condition}.")
    } else {
        Operator::hint()
    };
    let message =
        format!("{name:?} is not an operator, and a value of metadata is compared as it is");
    Err(FilterError::new(&member(path, name), message, hint))
}

pub(crate) fn uuid(value: &Value, path: &str) -> Result<Uuid> {
    let text = value
        .as_str()
        .ok_or_else(|| wrong_type(value, "a UUID in a string", path))?;
    let parts = text.split('-');
    let is_hex = text
        .bytes()
        .all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    if !is_hex || !parts.map(str::len).eq([8, 4, 4, 4, 12]) {
        let hint = "Write it as rag_search and rag.documents show it. A metadata key of this name \
            is \
                    written with \"metadata.\" before it.";
        return Err(FilterError::new(
            path,
            format!("{value} is not a UUID"),
            hint,
        ));
    }
    Ok(Uuid(text.to_owned()))
}

/// Reads the name of a type of documents.
pub(crate) fn document_type(value: &Value, path: &str) -> Result<String> {
    let name = text(value, path)?;
    if DocumentType::parse(&name).is_some() {
        return Ok(name);
    }
    let names = DocumentType::ALL.map(DocumentType::name).join(", ");
    let hint =
        format!("Types: {names}. What a knowledge item was registered as is in rag.knowledge.");
    Err(FilterError::new(
        path,
        format!("there is no document_type {name:?}"),
        hint,
    ))
}

/// Reads an integer, or its decimal digits in a string.
pub(crate) fn integer(value: &Value, path: &str) -> Result<i64> {
    let integer = match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            let float = number.as_f64()?;
            (float.fract() == 0.0 && float.abs() <= MAX_EXACT).then_some(float as i64)
        }),
        Value::String(text) => text.parse().ok(),
        _ => return Err(wrong_type(value, "an integer", path)),
    };
    integer.ok_or_else(|| {
        FilterError::new(
            path,
            format!("{value} is not a 64-bit integer"),
            format!("Give a whole number between {} and {}.", i64::MIN, i64::MAX),
        )
    })
}

pub(crate) fn timestamp(value: &Value, path: &str) -> Result<Timestamp> {
    let text = value
        .as_str()
        .ok_or_else(|| wrong_type(value, "a timestamp in a string", path))?;
    timestamp::parse(text).ok_or_else(|| {
        FilterError::new(
            path,
            format!("{value} is not a timestamp"),
            "Write ISO 8601, as in 2024-05-31, 2024-05-31T10:30:00Z or 2024-05-31 10:30:00+02:00.",
        )
    })
}

/// Reads every item of an array with `item`.
pub(crate) fn list<T>(
    value: &Value,
    path: &str,
    item: impl Fn(&Value, &str) -> Result<T>,
) -> Result<Vec<T>> {
    let items = value
        .as_array()
        .ok_or_else(|| wrong_type(value, "an array", path))?;
    items
        .iter()
        .enumerate()
        .map(|(i, element)| item(element, &format!("{path}[{i}]")))
        .collect()
}

/// Reads one string, or an array of strings.
pub(crate) fn texts(value: &Value, path: &str) -> Result<Vec<String>> {
    match value {
        Value::String(_) => Ok(vec![text(value, path)?]),
        Value::Array(_) => list(value, path, text),
        _ => Err(wrong_type(value, "a string or an array of strings", path)),
    }
}

pub(crate) fn wrong_type(value: &Value, wanted: &str, path: &str) -> FilterError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    FilterError::new(
        path,
        format!("expected {wanted}, found {found}"),
        format!("Give {wanted}."),
    )
}
