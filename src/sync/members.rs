//! What JSON objects that describe documents and chunks have in common.

use rag_definition::{FieldProblem, Fields, labels::Labels};

use super::document::checked_labels;
use crate::error::Error;

/// Returns the error for a problem of a document or chunk.
pub fn invalid(problem: FieldProblem) -> Error {
    Error::invalid_parameter(problem.to_string()).maybe_hint(problem.hint)
}

/// Returns what was checked, or reports the error as a problem of a field.
pub fn checked<T>(fields: &Fields<'_>, name: &str, checked: Result<T, Error>) -> Option<T> {
    let report = |error: Error| {
        let problem = FieldProblem::new(fields.path(name), error.message);
        let problem = error.hint.into_iter().fold(problem, FieldProblem::hint);
        fields.problems().push(problem);
    };
    checked.map_err(report).ok()
}

/// Reads `category` and `tags`.
pub fn labels(fields: &Fields<'_>) -> Option<Labels> {
    let (category, tags) = (fields.any_text("category"), fields.any_texts("tags"));
    checked_labels(category, tags.as_deref())
        .map_err(|error| {
            let is_tag = error.message.starts_with("a tag");
            fields.problem(if is_tag { "tags" } else { "category" }, error.message);
        })
        .ok()
}
