//! Problems of what a user wrote, as values. Their text is made last.

use std::fmt;

use serde_json::Value;

/// One problem of a definition or manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldProblem {
    /// `kind`, `spec`, or the path of a field: `spec.paths[2]`.
    pub field: String,
    pub reason: ProblemReason,
    pub hint: Option<String>,
}

/// What is wrong with a field. Its text follows the name of the field: `is missing`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemReason {
    Missing,
    /// The spec of this kind has no such key.
    UnknownKey {
        kind: &'static str,
    },
    WrongType {
        expected: ExpectedType,
        found: ValueType,
    },
    Other(String),
}

/// What a field must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedType {
    String,
    Strings,
    Boolean,
}

/// The type of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl FieldProblem {
    pub fn new(field: impl Into<String>, reason: impl Into<ProblemReason>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
            hint: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the text without the field.
    pub fn message(&self) -> String {
        self.reason.to_string()
    }
}

impl ProblemReason {
    /// The problem that `value` is not of the type `expected`.
    pub fn wrong_type(expected: ExpectedType, value: &Value) -> Self {
        let found = ValueType::of(value);
        Self::WrongType { expected, found }
    }
}

impl ValueType {
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }
}

impl From<String> for ProblemReason {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl From<&str> for ProblemReason {
    fn from(text: &str) -> Self {
        Self::Other(text.to_owned())
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl fmt::Display for ProblemReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::UnknownKey { kind } => write!(f, "is not a key of kind \"{kind}\""),
            Self::WrongType { expected, found } => write!(f, "must be {expected}, not {found}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for ExpectedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::String => "a string",
            Self::Strings => "an array of strings",
            Self::Boolean => "a boolean",
        })
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}
