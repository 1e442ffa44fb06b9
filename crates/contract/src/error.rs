use rag_filter::FilterError;

/// What is wrong with a request, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", self.place())]
pub struct RequestError {
    /// The place in the JSON: `retrieval_setting.top_k`. Empty for the whole request.
    pub path: String,
    pub message: String,
    /// What the user can do about it. It is not part of the display.
    pub hint: String,
}

impl RequestError {
    pub(crate) fn new(path: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            message: message.into(),
            hint: hint.into(),
        }
    }

    fn place(&self) -> String {
        match self.path.as_str() {
            "" => String::new(),
            path => format!("{path}: "),
        }
    }
}

/// A request that PostgreSQL accepts as JSON can still be too deep, or have numbers that are too
/// large.
impl From<serde_json::Error> for RequestError {
    fn from(error: serde_json::Error) -> Self {
        let message = error.to_string();
        // the place in the text means nothing to the user
        let message = message.split(" at line ").next().unwrap_or_default();
        Self::new("", message, "Send a flatter request with smaller numbers.")
    }
}

impl From<FilterError> for RequestError {
    fn from(error: FilterError) -> Self {
        Self {
            path: error.path,
            message: error.message,
            hint: error.hint,
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, RequestError>;
