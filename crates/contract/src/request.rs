//! What all requests share.

use rag_definition::{FieldProblem, Fields};
use rag_filter::FilterError;
use serde_json::Value;

/// A request, or its first problem.
pub type Result<T> = std::result::Result<T, FieldProblem>;

/// Reads a request with `read`. Fields that are not `known` are problems.
pub fn parse<T>(
    request: &Value,
    known: &[&str],
    read: impl FnOnce(&Fields<'_>) -> Option<T>,
) -> Result<T> {
    Fields::parse("", request, known, read)
}

/// Returns what a filter is, or reports its problem.
pub fn filter<T>(fields: &Fields<'_>, parsed: std::result::Result<T, FilterError>) -> Option<T> {
    parsed
        .map_err(|error| fields.problems().push(problem_of(error)))
        .ok()
}

/// Returns the problem of a filter.
pub fn problem_of(error: FilterError) -> FieldProblem {
    FieldProblem::new(error.path, error.message).hint(error.hint)
}

/// Returns the problem of a request that PostgreSQL accepts as JSON, and that is still too deep, or
/// has numbers that are too large.
pub fn unreadable(error: &serde_json::Error) -> FieldProblem {
    let message = error.to_string();
    // the place in the text means nothing to the user
    let message = message.split(" at line ").next().unwrap_or_default();
    FieldProblem::new("", message).hint("Send a flatter request with smaller numbers.")
}
