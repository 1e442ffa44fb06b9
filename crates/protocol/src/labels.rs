//! Category and tags: what documents are sorted by. They come from whoever adds a document, or from
//! its source, and where those say nothing from the document itself.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Most characters of a category or a tag: they are keys of indexes.
pub const MAX_CHARS: usize = 200;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    pub category: Option<String>,
    /// Without white space around them, each once.
    pub tags: Option<Vec<String>>,
}

impl Labels {
    /// What somebody says of a document.
    ///
    /// # Errors
    /// The name of what is too long.
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

    /// What the spec of a source, which is known to be right, says of all its documents.
    pub fn of_spec(spec: &Value) -> Self {
        spec.as_object().map(Self::of_metadata).unwrap_or_default()
    }

    /// What a document says of itself: the metadata keys `category` and `tags`. Tags are a list, or
    /// a text with commas between them. What is none, or too long, is left out.
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

    /// These, and where they say nothing the other ones.
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

/// Tags with commas between them.
pub fn split(tags: &str) -> Vec<String> {
    tidy(tags.split(','))
}

/// Without white space around them, none empty, each once, in their order.
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

/// A text, or a number as one.
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
    fn a_document_says_itself_what_it_is_about() {
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
    fn what_is_said_of_a_document_goes_before_what_it_says() {
        let given = Labels::new(Some("guide"), None).unwrap_or_default();
        let both = given.or(Labels::of_spec(
            &json!({"category": "tech", "tags": ["docker"]}),
        ));
        assert_eq!(both.category.as_deref(), Some("guide"));
        assert_eq!(both.tags, Some(vec!["docker".to_owned()]));
        // none is something that can be said
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
