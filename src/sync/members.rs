//! The members of JSON objects that describe documents and chunks.

use rag_definition::labels::Labels;
use serde_json::{Map, Value};

use super::document::checked_labels;
use crate::error::Error;

/// An error in a member of an object. An empty name stands for the object itself.
#[derive(Debug)]
pub struct MemberError {
    member: String,
    error: Error,
}

impl MemberError {
    /// Returns the error of an element of an array, with its path.
    pub fn of_element(self, array: &str, place: usize) -> Error {
        self.below(&format!("{array}[{place}]"))
    }

    /// Returns the error of a member of an object, with its path.
    pub fn of_member(self, object: &str, key: &str) -> Error {
        self.below(&format!("{object}[{key:?}]"))
    }

    fn below(self, path: &str) -> Error {
        let dot = if self.member.is_empty() { "" } else { "." };
        let message = format!("{path}{dot}{}: {}", self.member, self.error.message);
        self.error.message(message)
    }
}

/// Returns a function that turns an error into one of a member.
pub fn at(member: &str) -> impl Fn(Error) -> MemberError {
    move |error| MemberError {
        member: member.to_string(),
        error,
    }
}

pub fn wrong(member: &str, problem: &str) -> MemberError {
    at(member)(Error::invalid_parameter(problem))
}

/// Returns the members of an object.
///
/// # Errors
/// It is no object, or has a member that is not in `keys`.
pub fn of_object(
    value: Value,
    what: &str,
    keys: &[&str],
) -> Result<Map<String, Value>, MemberError> {
    let Value::Object(members) = value else {
        return Err(wrong("", "must be an object"));
    };
    if let Some(unknown) = members.keys().find(|key| !keys.contains(&key.as_str())) {
        let error = Error::invalid_parameter(format!("is not a key of {what}"))
            .hint(format!("Keys: {}.", keys.join(", ")));
        return Err(at(unknown)(error));
    }
    Ok(members)
}

/// Removes and returns a member. A null counts as absent.
pub fn take(members: &mut Map<String, Value>, key: &str) -> Option<Value> {
    members.remove(key).filter(|value| !value.is_null())
}

/// Removes and returns a text.
///
/// # Errors
/// It is no text.
pub fn text(members: &mut Map<String, Value>, key: &str) -> Result<Option<String>, MemberError> {
    match take(members, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong(key, "must be a text")),
    }
}

/// Removes and returns a text that must be there.
///
/// # Errors
/// It is missing, or no text.
pub fn required(members: &mut Map<String, Value>, key: &str) -> Result<String, MemberError> {
    text(members, key)?.ok_or_else(|| wrong(key, "is missing"))
}

/// Removes and returns `category` and `tags`.
///
/// # Errors
/// One has another type, or is too long.
pub fn labels(members: &mut Map<String, Value>) -> Result<Labels, MemberError> {
    let category = text(members, "category")?;
    let tags = match take(members, "tags") {
        None => None,
        Some(Value::Array(tags)) => {
            let tags = tags.into_iter().map(|tag| match tag {
                Value::String(tag) => Ok(tag),
                _ => Err(wrong("tags", "must be an array of texts")),
            });
            Some(tags.collect::<Result<Vec<_>, _>>()?)
        }
        Some(_) => return Err(wrong("tags", "must be an array of texts")),
    };
    checked_labels(category.as_deref(), tags.as_deref()).map_err(|error| {
        let is_tag = error.message.starts_with("a tag");
        at(if is_tag { "tags" } else { "category" })(error)
    })
}
