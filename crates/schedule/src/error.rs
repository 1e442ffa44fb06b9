/// What is wrong with a schedule, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {field} is wrong at character {position}: {problem}")]
pub struct ParseError {
    /// `minute`, `hour`, `day of month`, `month`, `day of week`, `descriptor`, `duration`, `time
    /// zone`, or `schedule` for the whole.
    pub field: &'static str,
    /// The character of the text at which the trouble begins, from 1; one past the end where
    /// something is missing.
    pub position: usize,
    pub problem: String,
    /// What the user can do about it: for the report's HINT, not part of the display.
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
