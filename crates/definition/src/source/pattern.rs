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
        if let Some(reason) = why_nothing_matches(pattern) {
            return Err(BadPattern {
                index: Some(index),
                reason: reason.into(),
            });
        }
        // A list of patterns has no comments, and `./docs` can only mean the docs of the root.
        let (sign, positive) = match pattern.strip_prefix('!') {
            Some(positive) => ("!", positive),
            None => ("", pattern.as_str()),
        };
        let line = match positive.strip_prefix("./") {
            Some(rest) => format!("{sign}/{rest}"),
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

/// Returns true if a list of patterns selects nothing, because each of them only takes away.
pub fn are_all_negated(patterns: &[String]) -> bool {
    !patterns.is_empty() && patterns.iter().all(|pattern| pattern.starts_with('!'))
}

/// Returns why a pattern matches no path, for the patterns that the library accepts.
fn why_nothing_matches(pattern: &str) -> Option<&'static str> {
    let positive = pattern.strip_prefix('!').unwrap_or(pattern);
    let positive = positive.strip_prefix("./").unwrap_or(positive);
    if positive.contains("//") {
        Some("it has two slashes in a row, so no path matches it")
    } else if positive.trim_end().trim_matches('/').is_empty() {
        Some("it names nothing, so no path matches it")
    } else if positive.split('/').any(|part| matches!(part, "." | "..")) {
        Some("paths have no parts \".\" and \"..\", so no path matches it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(pattern: &str) -> Result<Gitignore, BadPattern> {
        compile(&[pattern.into()])
    }

    #[test]
    fn patterns_that_match_nothing_are_refused() {
        for pattern in [
            "a//b", "!", "/", "./", "../x", "a/../b", "a/./b", ".", "!../x",
        ] {
            let bad = compiled(pattern).unwrap_err();
            assert!(bad.reason.ends_with("so no path matches it"), "{pattern}");
        }
        for pattern in [
            "*.md", "./docs", "!docs/", "..a", "a/...", ".github/", "**", "\\!a", " /",
        ] {
            assert!(compiled(pattern).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn a_dot_and_a_slash_stand_for_the_root() {
        let list = ["*.md", "!./a.md"].map(String::from);
        let matcher = compile(&list).unwrap();
        assert!(!matcher.matched("a.md", false).is_ignore());
        assert!(matcher.matched("b/a.md", false).is_ignore());
    }

    #[test]
    fn a_list_that_only_takes_away_is_found() {
        let list = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(are_all_negated(&list(&["!docs/", "!*.md"])));
        assert!(!are_all_negated(&list(&["*.md", "!docs/"])));
        assert!(!are_all_negated(&list(&["\\!a"])));
        assert!(!are_all_negated(&[]));
    }
}
