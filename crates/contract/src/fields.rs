//! Reads the fields of a JSON object. A field that is null counts as left out.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::{RequestError, Result};

/// An object whose fields are all known.
pub(crate) struct Fields<'a> {
    /// None for an object that was left out.
    members: Option<&'a Map<String, Value>>,
    path: String,
}

impl<'a> Fields<'a> {
    /// Reads a whole request.
    pub fn of_request(request: &'a Value, known: &[&str]) -> Result<Self> {
        Self::read(Some(request), String::new(), known)
    }

    fn read(value: Option<&'a Value>, path: String, known: &[&str]) -> Result<Self> {
        let members = match value {
            None => None,
            Some(Value::Object(members)) => Some(members),
            Some(other) => return Err(wrong_type(other, "an object", &path)),
        };
        let fields = Self { members, path };
        let unknown = members.and_then(|m| m.keys().find(|name| !known.contains(&name.as_str())));
        match unknown {
            None => Ok(fields),
            Some(name) => Err(RequestError::new(
                &fields.path_of(name),
                "unknown field",
                format!("Fields: {}.", known.join(", ")),
            )),
        }
    }

    pub fn path_of(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.members?.get(name).filter(|value| !value.is_null())
    }

    pub fn object(&self, name: &str, known: &[&str]) -> Result<Self> {
        Self::read(self.value(name), self.path_of(name), known)
    }

    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        let path = self.path_of(name);
        self.value(name).map(|value| text(value, &path)).transpose()
    }

    pub fn required_text(&self, name: &str) -> Result<&'a str> {
        self.text(name)?.ok_or_else(|| {
            RequestError::new(
                &self.path_of(name),
                "is missing",
                format!("Add \"{name}\"."),
            )
        })
    }

    /// Reads a whole number. `2.0` is one.
    pub fn integer(&self, name: &str, range: RangeInclusive<i32>) -> Result<Option<i32>> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let path = self.path_of(name);
        let number = number(value, &path)?;
        check_integer(number, range, &path).map(Some)
    }

    /// Reads a number between 0 and 1.
    pub fn fraction(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let path = self.path_of(name);
        let given = number(value, &path)?;
        match (0.0..=1.0).contains(&given) {
            true => Ok(Some(given)),
            false => Err(RequestError::new(
                &path,
                format!("must be between 0 and 1, not {value}"),
                "Leave it out for the default.",
            )),
        }
    }

    pub fn boolean(&self, name: &str) -> Result<Option<bool>> {
        let path = self.path_of(name);
        let read = |value: &Value| {
            value
                .as_bool()
                .ok_or_else(|| wrong_type(value, "a boolean", &path))
        };
        self.value(name).map(read).transpose()
    }

    /// Reads an array, each element with `read`.
    pub fn list<T>(
        &self,
        name: &str,
        read: impl Fn(&'a Value, &str) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let path = self.path_of(name);
        let items = match self.value(name) {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(wrong_type(other, "an array", &path)),
        };
        let items = items.iter().enumerate();
        items
            .map(|(i, item)| read(item, &format!("{path}[{i}]")))
            .collect::<Result<_>>()
            .map(Some)
    }
}

/// Returns a number as an integer of the range.
pub(crate) fn check_integer(given: f64, range: RangeInclusive<i32>, path: &str) -> Result<i32> {
    let (min, max) = (*range.start(), *range.end());
    match given.fract() == 0.0 && (f64::from(min)..=f64::from(max)).contains(&given) {
        true => Ok(given as i32),
        false => Err(RequestError::new(
            path,
            format!("must be a whole number between {min} and {max}, not {given}"),
            "Leave it out for the default.",
        )),
    }
}

fn number(value: &Value, path: &str) -> Result<f64> {
    value
        .as_f64()
        .ok_or_else(|| wrong_type(value, "a number", path))
}

pub(crate) fn text<'a>(value: &'a Value, path: &str) -> Result<&'a str> {
    value
        .as_str()
        .ok_or_else(|| wrong_type(value, "a string", path))
}

/// Reads a category or a tag.
pub(crate) fn label(value: &Value, path: &str) -> Result<String> {
    checked_label(text(value, path)?, path)
}

pub(crate) fn checked_label(text: &str, path: &str) -> Result<String> {
    not_blank(text, path, "Leave it out to find all documents.")
}

pub(crate) fn checked_query(text: &str, path: &str) -> Result<String> {
    not_blank(text, path, "Give a question, or words to search for.")
}

fn not_blank(text: &str, path: &str, hint: &str) -> Result<String> {
    match text.trim().is_empty() {
        true => Err(RequestError::new(path, "must not be blank", hint)),
        false => Ok(text.to_owned()),
    }
}

pub(crate) fn wrong_type(value: &Value, wanted: &str, path: &str) -> RequestError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    RequestError::new(
        path,
        format!("expected {wanted}, found {found}"),
        format!("Give {wanted}."),
    )
}
