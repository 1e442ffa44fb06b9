//! Errors of parsing.

/// A problem of a schedule with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {field} at character {position}: {problem}")]
pub struct ParseError {
    /// `minute`, `hour`, `day of month`, `month`, `day of week`, `descriptor`, `duration`, `time
    /// zone`, or `schedule` for the whole.
    pub field: &'static str,
    /// The number of the first wrong character, from 1. If something is missing at the end, the
    /// position after the end.
    pub position: usize,
    pub problem: String,
    /// The HINT. Not part of the display.
    pub hint: Option<String>,
}

impl ParseError {
    pub(crate) fn new(field: &'static str, position: usize, problem: impl Into<String>) -> Self {
        ParseError {
            field,
            position,
            problem: problem.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        ParseError {
            hint: Some(hint.into()),
            ..self
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, ParseError>;
