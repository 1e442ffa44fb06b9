//! Patterns of paths, in the language of `.gitignore`.
//!
//! A definition is checked and a run is carried out by the same code: what a run would refuse
//! cannot be defined.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// A pattern that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern {
    /// Its place in the list; `None` where each one is right and all together are too much.
    pub index: Option<usize>,
    pub reason: String,
}

/// What to say of a pattern that cannot be understood.
pub const HINT: &str = "Write patterns as in a .gitignore file: \"*.md\", \"docs/\", \"/src\".";

/// Compiles patterns: what one of them matches is ignored, in the words of the library.
///
/// # Errors
/// One of them is not a pattern.
pub fn compile(patterns: &[String]) -> Result<Gitignore, BadPattern> {
    let mut builder = GitignoreBuilder::new("");
    for (index, pattern) in patterns.iter().enumerate() {
        if pattern.contains("//") {
            let reason =
                "there is nothing between two of its slashes, so no path matches it".into();
            return Err(BadPattern {
                index: Some(index),
                reason,
            });
        }
        // This is no file, so there are no comments, and `./docs` can only mean the docs of the
        // root.
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
