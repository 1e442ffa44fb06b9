//! What is wrong with a definition, all of it at once.

use rag_protocol::spec::Problem;

use crate::error::Error;

/// One thing that is wrong.
#[derive(Debug, Clone)]
struct Fault {
    problem: Problem,
    /// What is raised where it is the only one.
    error: Option<Error>,
}

/// Things that are wrong, in the order in which they were found.
#[derive(Debug, Clone, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value, or else a note of what is wrong with `field`.
    pub fn note<T>(&mut self, field: &str, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.add(field, error)).ok()
    }

    pub fn add(&mut self, field: &str, error: Error) {
        let text = match &error.detail {
            Some(detail) => format!("{} ({})", error.message, detail.trim_end_matches('.')),
            None => error.message.clone(),
        };
        let problem = Problem { field: field.into(), problem: text, hint: error.hint.clone() };
        self.0.push(Fault { problem, error: Some(error) });
    }

    pub fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.0.extend(problems.into_iter().map(|problem| Fault { problem, error: None }));
    }

    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The same with other fields, as of a manifest. What is raised names them too.
    #[must_use]
    pub fn in_fields(self, rename: impl Fn(&str) -> String) -> Self {
        let renamed = |fault: Fault| {
            let field = rename(&fault.problem.field);
            let error = fault.error.map(|error| Error { message: format!("{field}: {}", error.message), ..error });
            Fault { problem: Problem { field, ..fault.problem }, error }
        };
        Self(self.0.into_iter().map(renamed).collect())
    }

    pub fn into_problems(self) -> Vec<Problem> {
        self.0.into_iter().map(|fault| fault.problem).collect()
    }

    /// The error for a definition of `what`.
    pub fn into_error(mut self, what: &str) -> Error {
        match self.0.as_mut_slice() {
            [Fault { error, .. }] if error.is_some() => error.take().unwrap_or_else(|| Error::invalid_spec(what, &[])),
            _ => Error::invalid_spec(what, &self.into_problems()),
        }
    }
}
