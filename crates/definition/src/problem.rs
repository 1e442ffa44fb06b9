//! Problems of what a user wrote, as values.

use std::{cell::RefCell, fmt};

/// One problem of a definition, a manifest or a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldProblem {
    /// `kind`, `spec`, or the path of a field: `spec.paths[2]`. Empty for the whole text.
    pub field: String,
    /// What is wrong. It follows the name of the field: `is missing`.
    pub message: String,
    /// What the user can do about it. It is not part of the display.
    pub hint: Option<String>,
}

impl FieldProblem {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
            hint: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

impl std::error::Error for FieldProblem {}

/// The problems of a text, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<FieldProblem>>);

impl Problems {
    pub fn push(&self, problem: FieldProblem) {
        self.0.borrow_mut().push(problem);
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub fn into_vec(self) -> Vec<FieldProblem> {
        self.0.into_inner()
    }

    /// Returns `value` if there is no problem.
    ///
    /// # Errors
    /// All problems.
    pub fn into_result<T>(self, value: Option<T>) -> Result<T, Vec<FieldProblem>> {
        let problems = self.into_vec();
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            _ => Err(problems),
        }
    }

    /// Returns `value` if there is no problem.
    ///
    /// # Errors
    /// The first problem.
    pub fn first_or<T>(self, value: Option<T>) -> Result<T, FieldProblem> {
        self.into_result(value).map_err(|problems| {
            let mut problems = problems.into_iter();
            problems
                .next()
                .unwrap_or_else(|| FieldProblem::new("", "is not complete"))
        })
    }
}
