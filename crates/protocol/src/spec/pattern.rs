//! Patterns of paths, in the language of `.gitignore`.
//!
//! Definitions are checked by the code that runs use, so that no definition fails in its run.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// An invalid pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern {
    /// Its position in the list. `None` if each pattern is valid and together they are too large.
    pub index: Option<usize>,
    pub reason: String,
}

/// The hint for an invalid pattern.
pub const HINT: &str = "Write patterns as in a .gitignore file: \"*.md\", \"docs/\", \"/src\".";

/// Compiles patterns. The library calls the paths that they match ignored.
///
/// # Errors
/// A pattern is invalid.
pub fn compile(patterns: &[String]) -> Result<Gitignore, BadPattern> {
    let mut builder = GitignoreBuilder::new("");
    for (index, pattern) in patterns.iter().enumerate() {
        if pattern.contains("//") {
            let reason = "it has two slashes in a row, so no path matches it".into();
            return Err(BadPattern {
                index: Some(index),
                reason,
            });
        }
        // A list of patterns has no comments, and `./docs` can only mean the docs of the root.
        let line = match pattern.strip_prefix("./") {
            Some(rest) => format!("/{rest}"),
            None if pattern.starts_with('#') => format!("\\{pattern}"),
            None => pattern.clone(),
        };
        builder.add_line(None, &line).map_err(|error| BadPattern {
            index: Some(index),
            reason: error.to_string(),
        })?;
    }
    builder.build().map_err(|error| BadPattern {
        index: None,
        reason: error.to_string(),
    })
}
