//! What is wrong with a definition, all of it at once.

use rag_protocol::spec::Problem;

use crate::error::Error;

/// The secret of a source, its name and its key: fields of a manifest, and one argument of a call.
pub const CREDENTIALS: &str = "credentials";
pub const CREDENTIALS_NAME: &str = "credentials.name";
pub const CREDENTIALS_KEY: &str = "credentials.key";

/// One thing that is wrong.
#[derive(Debug, Clone)]
struct Fault {
    problem: Problem,
    /// What is raised where it is the only one.
    error: Option<Error>,
}

/// Things that are wrong, in the order in which they were found.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    list: Vec<Fault>,
    /// They do not keep a definition from being taken: a folder that is not there yet, say.
    warnings: Vec<Problem>,
}

impl Faults {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
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
        let problem = Problem {
            field: field.into(),
            problem: text,
            hint: error.hint.clone(),
        };
        self.list.push(Fault {
            problem,
            error: Some(error),
        });
    }

    pub fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.list.extend(problems.into_iter().map(|problem| Fault {
            problem,
            error: None,
        }));
    }

    pub fn append(&mut self, other: Self) {
        self.list.extend(other.list);
        self.warnings.extend(other.warnings);
    }

    /// The same with other fields, as of a manifest. What is raised names them too.
    #[must_use]
    pub fn in_fields(self, rename: impl Fn(&str) -> String) -> Self {
        let renamed = |fault: Fault| {
            let field = rename(&fault.problem.field);
            let error = fault.error.map(|error| Error {
                message: format!("{field}: {}", error.message),
                ..error
            });
            Fault {
                problem: Problem {
                    field,
                    ..fault.problem
                },
                error,
            }
        };
        Self {
            list: self.list.into_iter().map(renamed).collect(),
            warnings: self.warnings,
        }
    }

    /// The same with fields that are arguments of a call.
    #[must_use]
    pub fn in_arguments(mut self) -> Self {
        for field in self.list.iter_mut().map(|fault| &mut fault.problem.field) {
            if matches!(field.as_str(), CREDENTIALS_NAME | CREDENTIALS_KEY) {
                *field = CREDENTIALS.into();
            }
        }
        self
    }

    /// What is left where nothing is said of `field`.
    #[must_use]
    pub fn without(mut self, field: &str) -> Self {
        self.list.retain(|fault| fault.problem.field != field);
        self
    }

    pub fn has(&self, field: &str) -> bool {
        self.list.iter().any(|fault| fault.problem.field == field)
    }

    /// Notes a warning.
    pub fn warn(&mut self, problem: Problem) {
        self.warnings.push(problem);
    }

    pub fn warning_count(&self) -> usize {
        self.warnings.len()
    }

    /// Returns the warnings and forgets them.
    pub fn take_warnings(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.warnings)
    }

    pub fn into_problems(self) -> Vec<Problem> {
        self.list.into_iter().map(|fault| fault.problem).collect()
    }

    /// The error that names them all, with their SQLSTATE if they have the same one; `message`
    /// where they are several, or the only one has none of its own.
    pub fn to_error(&self, message: impl Into<String>) -> Error {
        match self.list.as_slice() {
            [
                Fault {
                    error: Some(error), ..
                },
            ] => error.clone(),
            faults => {
                let codes: Option<Vec<_>> = faults
                    .iter()
                    .map(|fault| Some(fault.error.as_ref()?.code))
                    .collect();
                let common = codes.filter(|codes| codes.iter().all(|code| *code == codes[0]));
                let error = Error::invalid(message, &self.clone().into_problems());
                Error {
                    code: common.map_or(error.code, |codes| codes[0]),
                    ..error
                }
            }
        }
    }
}
