/// What is wrong with a filter, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FilterError {
    /// The place in the JSON: `conditions[1].operator`, or `filter` for the whole.
    pub path: String,
    pub message: String,
    /// What the user can do about it. It becomes the report's HINT and is not part of the display.
    pub hint: String,
}

impl FilterError {
    pub(crate) fn new(path: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let path = if path.is_empty() { "filter" } else { path };
        FilterError {
            path: path.to_owned(),
            message: message.into(),
            hint: hint.into(),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, FilterError>;

/// Returns the path of `field` inside `path`.
pub(crate) fn member(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}
