//! Fields that several kinds have.

use super::{PathFilter, pattern};
use crate::{
    Fields,
    labels::{Labels, MAX_CHARS},
};

/// Checks the category and tags of all documents.
pub(super) fn check_labels(fields: &Fields<'_>) {
    let (category, tags) = (fields.text("category"), fields.texts("tags"));
    if let Err(field) = Labels::new(category, tags.as_deref()) {
        fields.problem(field, format!("must have at most {MAX_CHARS} characters"));
    }
}

pub(super) fn path_filter(fields: &Fields<'_>, [paths, exclude_paths]: [&str; 2]) -> PathFilter {
    PathFilter {
        paths: patterns(fields, paths),
        exclude_paths: patterns(fields, exclude_paths),
    }
}

/// Reads patterns of paths, and reports each one that is wrong.
fn patterns(fields: &Fields<'_>, key: &str) -> Vec<String> {
    let patterns = fields.texts(key).unwrap_or_default();
    let mut is_each_right = true;
    for (i, pattern) in patterns.iter().enumerate() {
        if let Err(bad) = pattern::compile(std::slice::from_ref(pattern)) {
            is_each_right = false;
            let problem = format!("\"{pattern}\" is not a valid pattern: {}", bad.reason);
            fields.problem_with(format!("{key}[{i}]"), problem, pattern::HINT);
        }
    }
    if is_each_right && let Err(bad) = pattern::compile(&patterns) {
        let problem = format!("the patterns together are too large: {}", bad.reason);
        fields.problem(key, problem);
    } else if is_each_right && pattern::are_all_negated(&patterns) {
        let hint = "A pattern with ! excludes from what patterns before it match.";
        fields.problem_with(
            key,
            "has only negated patterns, so no path matches them",
            hint,
        );
    }
    patterns
}
