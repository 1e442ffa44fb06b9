//! Category and tags of documents. They come from the call that adds a document or from its source,
//! and otherwise from the document itself.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Maximum length of a category or a tag in characters: they are keys of indexes.
pub const MAX_CHARS: usize = 200;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    pub category: Option<String>,
    /// Distinct, without surrounding white space.
    pub tags: Option<Vec<String>>,
}

impl Labels {
    /// Checks labels that a call or a source gives.
    ///
    /// # Errors
    /// Returns the name of the field that is too long.
    pub fn new(category: Option<&str>, tags: Option<&[String]>) -> Result<Self, &'static str> {
        let is_long = |text: &str| text.trim().chars().count() > MAX_CHARS;
        if category.is_some_and(is_long) {
            return Err("category");
        }
        if tags.is_some_and(|tags| tags.iter().any(|tag| is_long(tag))) {
            return Err("tags");
        }
        Ok(Self {
            category: category.map(|category| category.trim().to_owned()),
            tags: tags.map(|tags| tidy(tags.iter().map(String::as_str))),
        })
    }

    /// Reads the labels from the valid spec of a source.
    pub fn of_spec(spec: &Value) -> Self {
        spec.as_object().map(Self::of_metadata).unwrap_or_default()
    }

    /// Reads the metadata keys `category` and `tags` of a document. Tags are a list or a
    /// comma-separated string. Invalid and too long values are ignored.
    pub fn of_metadata(metadata: &Map<String, Value>) -> Self {
        let category = metadata.get("category").and_then(label);
        let tags = match metadata.get("tags") {
            Some(Value::Array(tags)) => tags.iter().filter_map(label).collect(),
            Some(Value::String(tags)) => split(tags).into_iter().filter(|tag| fits(tag)).collect(),
            _ => vec![],
        };
        let tags = tidy(tags.iter().map(String::as_str));
        Self {
            category,
            tags: (!tags.is_empty()).then_some(tags),
        }
    }

    /// Fills missing labels from `other`.
    #[must_use]
    pub fn or(&self, other: Self) -> Self {
        Self {
            category: self.category.clone().or(other.category),
            tags: self.tags.clone().or(other.tags),
        }
    }

    /// Adds them to a spec.
    pub fn write(&self, spec: &mut Value) {
        if let Some(category) = &self.category {
            spec["category"] = category.as_str().into();
        }
        if let Some(tags) = &self.tags {
            spec["tags"] = tags.as_slice().into();
        }
    }
}

/// Splits a comma-separated list of tags.
pub fn split(tags: &str) -> Vec<String> {
    tidy(tags.split(','))
}

/// Removes surrounding white space, empty tags and duplicates.
fn tidy<'a>(tags: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = HashSet::new();
    tags.map(str::trim)
        .filter(|tag| !tag.is_empty() && seen.insert(*tag))
        .map(str::to_owned)
        .collect()
}

fn fits(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= MAX_CHARS
}

/// Returns a string, or a number as a string.
fn label(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    fits(&text).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn own(metadata: Value) -> (Option<String>, Option<Vec<String>>) {
        let labels = Labels::of_spec(&metadata);
        (labels.category, labels.tags)
    }

    #[test]
    fn labels_are_read_from_the_metadata_of_a_document() {
        let tags = |tags: &[&str]| Some(tags.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            own(json!({"category": " tech ", "tags": ["docker", " docker", "", 7]})),
            (Some("tech".into()), tags(&["docker", "7"]))
        );
        assert_eq!(own(json!({"tags": "a, b,,a"})), (None, tags(&["a", "b"])));
        assert_eq!(
            own(json!({"category": ["tech"], "tags": {"a": 1}})),
            (None, None)
        );
        assert_eq!(own(json!({"category": "", "tags": []})), (None, None));
        assert_eq!(
            own(json!({"category": "x".repeat(201), "tags": ["y".repeat(201), "z"]})),
            (None, tags(&["z"]))
        );
    }

    #[test]
    fn given_labels_take_precedence_over_those_of_the_document() {
        let given = Labels::new(Some("guide"), None).unwrap_or_default();
        let both = given.or(Labels::of_spec(
            &json!({"category": "tech", "tags": ["docker"]}),
        ));
        assert_eq!(both.category.as_deref(), Some("guide"));
        assert_eq!(both.tags, Some(vec!["docker".to_owned()]));
        // an empty list is a value
        let none = Labels {
            category: None,
            tags: Some(vec![]),
        };
        assert_eq!(
            none.or(Labels::of_spec(&json!({"tags": ["docker"]}))).tags,
            Some(vec![])
        );
    }

    #[test]
    fn long_labels_are_refused() {
        assert_eq!(Labels::new(Some(&"x".repeat(201)), None), Err("category"));
        assert_eq!(Labels::new(None, Some(&["x".repeat(201)])), Err("tags"));
        assert!(Labels::new(Some(&"\u{e9}".repeat(200)), None).is_ok());
    }
}
