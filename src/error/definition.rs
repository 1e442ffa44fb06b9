//! The errors of a definition, collected to be reported together.

use rag_definition::FieldProblem;

use super::Error;

/// The fields of a source's secret: a manifest has two, a call has one argument.
pub const CREDENTIALS: &str = "credentials";
pub const CREDENTIALS_NAME: &str = "credentials.name";
pub const CREDENTIALS_KEY: &str = "credentials.key";

/// One error.
#[derive(Debug, Clone)]
struct DefinitionError {
    problem: FieldProblem,
    /// The error to raise if it is the only one.
    error: Option<Error>,
}

/// The errors and warnings, in the order in which they were found.
#[derive(Debug, Clone, Default)]
pub struct DefinitionErrors {
    list: Vec<DefinitionError>,
    /// Warnings do not prevent a definition from being accepted. An example is a folder that does
    /// not exist yet.
    warnings: Vec<FieldProblem>,
}

impl DefinitionErrors {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the value, or adds the error of `field`.
    pub fn note<T>(&mut self, field: &str, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.add(field, error)).ok()
    }

    pub fn add(&mut self, field: &str, error: Error) {
        let text = match &error.detail {
            Some(detail) => format!("{} ({})", error.message, detail.trim_end_matches('.')),
            None => error.message.clone(),
        };
        let problem = FieldProblem {
            field: field.into(),
            message: text,
            hint: error.hint.clone(),
        };
        self.list.push(DefinitionError {
            problem,
            error: Some(error),
        });
    }

    pub fn extend(&mut self, problems: impl IntoIterator<Item = FieldProblem>) {
        self.list
            .extend(problems.into_iter().map(|problem| DefinitionError {
                problem,
                error: None,
            }));
    }

    /// Adds problems whose messages are those of an error.
    pub fn extend_with_messages(&mut self, problems: impl IntoIterator<Item = FieldProblem>) {
        for problem in problems {
            let field = problem.field.clone();
            self.add(&field, Error::of_problem(problem));
        }
    }

    pub fn append(&mut self, other: Self) {
        self.list.extend(other.list);
        self.warnings.extend(other.warnings);
    }

    /// Renames the fields, for example to those of a manifest. The messages of errors begin with
    /// the new name.
    #[must_use]
    pub fn in_fields(self, rename: impl Fn(&str) -> String) -> Self {
        let renamed = |entry: DefinitionError| {
            let field = rename(&entry.problem.field);
            let error = entry.error.map(|error| {
                let message = format!("{field}: {}", error.message);
                error.message(message)
            });
            DefinitionError {
                problem: FieldProblem {
                    field,
                    ..entry.problem
                },
                error,
            }
        };
        Self {
            list: self.list.into_iter().map(renamed).collect(),
            warnings: self.warnings,
        }
    }

    /// Renames the fields to arguments of a call.
    #[must_use]
    pub fn in_arguments(mut self) -> Self {
        for field in self.list.iter_mut().map(|entry| &mut entry.problem.field) {
            if matches!(field.as_str(), CREDENTIALS_NAME | CREDENTIALS_KEY) {
                *field = CREDENTIALS.into();
            }
        }
        self
    }

    /// Removes the errors of `field`.
    #[must_use]
    pub fn without(mut self, field: &str) -> Self {
        self.list.retain(|entry| entry.problem.field != field);
        self
    }

    pub fn has(&self, field: &str) -> bool {
        self.list.iter().any(|entry| entry.problem.field == field)
    }

    /// Adds a warning.
    pub fn warn(&mut self, problem: FieldProblem) {
        self.warnings.push(problem);
    }

    pub fn warning_count(&self) -> usize {
        self.warnings.len()
    }

    /// Removes and returns the warnings.
    pub fn take_warnings(&mut self) -> Vec<FieldProblem> {
        std::mem::take(&mut self.warnings)
    }

    pub fn into_problems(self) -> Vec<FieldProblem> {
        self.list.into_iter().map(|entry| entry.problem).collect()
    }

    /// Returns one error for all. Its SQLSTATE is theirs if they have the same one. Its text is
    /// `message` if there are several, or if the only one has no error of its own.
    pub fn to_error(&self, message: impl Into<String>) -> Error {
        match self.list.as_slice() {
            [
                DefinitionError {
                    error: Some(error), ..
                },
            ] => error.clone(),
            errors => {
                let error = Error::invalid(message, &self.clone().into_problems());
                let theirs: Option<Vec<&Error>> =
                    errors.iter().map(|entry| entry.error.as_ref()).collect();
                error.with_state_of(&theirs.unwrap_or_default())
            }
        }
    }
}
