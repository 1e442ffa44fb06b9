//! Which paths are wanted: gitignore's patterns, turned around. What `paths` match is selected, a selected directory
//! with everything below it; without `paths` everything is. What `excludePaths` match is left out whatever selects it,
//! an excluded directory with everything below it.
//!
//! | pattern | matches |
//! |---|---|
//! | `*.md`, `main.py` | files and directories of that name, at any depth |
//! | `guides/` | directories of that name, at any depth |
//! | `/src`, `docs/guides` | only from the root, since there is a slash that is not the last character |
//! | `**/drafts/*.md` | `**` stands for any number of directories |

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rag_protocol::{EngineError, ErrorKind, spec::PathFilter};

pub struct Filter {
    selected: Option<Gitignore>,
    excluded: Gitignore,
    /// The parts of `paths` that begin with a dot: directories that are looked into although they are hidden.
    named_hidden: Gitignore,
}

impl Filter {
    pub fn new(filter: &PathFilter) -> Result<Self, EngineError> {
        let hidden: Vec<String> = filter
            .paths
            .iter()
            .flat_map(|pattern| pattern.split('/'))
            .filter(|part| part.starts_with('.') && !part.chars().all(|c| c == '.'))
            .map(Into::into)
            .collect();
        Ok(Self {
            selected: if filter.paths.is_empty() { None } else { Some(matcher("paths", &filter.paths)?) },
            excluded: matcher("excludePaths", &filter.exclude_paths)?,
            named_hidden: matcher("paths", &hidden)?,
        })
    }

    /// Whether a file is wanted; `path` is relative to the root.
    pub fn selects(&self, path: &Path) -> bool {
        self.selected.as_ref().is_none_or(|m| m.matched_path_or_any_parents(path, false).is_ignore())
            && !self.excluded.matched_path_or_any_parents(path, false).is_ignore()
    }

    /// Whether a directory may hold something wanted.
    pub fn enters(&self, path: &Path) -> bool {
        !self.excluded.matched_path_or_any_parents(path, true).is_ignore()
    }

    /// Whether a directory is shown, or hidden (its name begins with a dot) and named by a pattern of `paths`.
    pub fn shows(&self, name: &OsStr) -> bool {
        !name.as_bytes().starts_with(b".") || self.named_hidden.matched(name, true).is_ignore()
    }
}

fn matcher(field: &str, patterns: &[String]) -> Result<Gitignore, EngineError> {
    let mut builder = GitignoreBuilder::new("");
    let invalid = |pattern: &str, error: ignore::Error| {
        EngineError::new(ErrorKind::InvalidRequest, format!("spec.{field}: \"{pattern}\" is not a pattern"))
            .detail(error.to_string())
            .hint("Write patterns as in a .gitignore file: \"*.md\", \"docs/\", \"/src\".")
    };
    for pattern in patterns {
        // This is no file, so there are no comments, and `./docs` can only mean the docs of the root.
        let line = match pattern.strip_prefix("./") {
            Some(rest) => format!("/{rest}"),
            None if pattern.starts_with('#') => format!("\\{pattern}"),
            None => pattern.clone(),
        };
        builder.add_line(None, &line).map_err(|e| invalid(pattern, e))?;
    }
    builder.build().map_err(|e| invalid(&patterns.join(", "), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(paths: &[&str], exclude: &[&str]) -> Filter {
        let texts = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect();
        Filter::new(&PathFilter { paths: texts(paths), exclude_paths: texts(exclude) }).unwrap()
    }

    #[track_caller]
    fn check(paths: &[&str], exclude: &[&str], wanted: &[&str], unwanted: &[&str]) {
        let filter = filter(paths, exclude);
        for path in wanted {
            assert!(filter.selects(Path::new(path)), "{path} is wanted");
        }
        for path in unwanted {
            assert!(!filter.selects(Path::new(path)), "{path} is not wanted");
        }
    }

    #[test]
    fn without_paths_everything_is_selected() {
        check(&[], &[], &["a", "a/b/c.md", ".env", "-x", "#y"], &[]);
    }

    #[test]
    fn names_match_at_any_depth_and_slashes_anchor() {
        check(&["*.md"], &[], &["a.md", "x/y/a.md"], &["a.txt", "a.md.txt", "a.MD"]);
        check(&["main.py"], &[], &["main.py", "x/main.py"], &["xmain.py"]);
        check(&["guides/"], &[], &["guides/a", "x/guides/y/a"], &["guides", "guides.md"]);
        check(&["/src"], &[], &["src", "src/a/b.rs"], &["x/src/a"]);
        check(&["docs/guides/"], &[], &["docs/guides/a"], &["x/docs/guides/a"]);
        check(&["**/drafts/*.md"], &[], &["drafts/a.md", "x/y/drafts/a.md"], &["drafts/x/a.md"]);
        check(&["./docs/"], &[], &["docs/a"], &["x/docs/a"]);
        check(&["*"], &["/a"], &["x/y", "b"], &["a", "a/b"]);
        check(&["#notes/", "*.go"], &[], &["#notes/a", "x/b.go"], &["notes/a"]);
    }

    #[test]
    fn a_selected_directory_selects_everything_below_and_exclusion_wins() {
        check(
            &["docs"],
            &["*.tmp", "docs/old/"],
            &["docs/a", "docs/b/c.md"],
            &["docs/a.tmp", "docs/old/a", "docs/old/b/c"],
        );
        check(&["*.md", "!README.md"], &[], &["a.md"], &["README.md"]);
        check(
            &["/src", "main.py", "*.go", "docs/"],
            &["vendor/", "*_test.go", "/src/gen"],
            &["src/a.c", "src/x/y.c", "x/main.py", "a.go", "x/b.go", "docs/a.txt", "x/docs/b/c.txt"],
            &["x/src/a.c", "main.pyc", "a.got", "docs", "vendor/a.go", "x/vendor/docs/a", "a_test.go", "src/gen/a.go"],
        );
        check(&[], &["vendor/"], &["vendor", "a"], &["vendor/a", "x/vendor/y/z"]);
    }

    #[test]
    fn hidden_directories_are_entered_where_a_pattern_names_them() {
        let shows = |paths: &[&str], name: &str| filter(paths, &[]).shows(OsStr::new(name));
        assert!(shows(&[], "docs") && !shows(&[], ".git") && !shows(&["*.md", "**"], ".github"));
        assert!(shows(&[".github/**/*.md"], ".github") && !shows(&[".github/"], ".git"));
        assert!(shows(&["docs/.vuepress/"], ".vuepress") && shows(&[".*/"], ".git"));
    }

    #[test]
    fn a_malformed_pattern_is_named() {
        let filter = PathFilter { paths: vec!["docs/".into(), "[z-a]".into()], exclude_paths: vec![] };
        let error = Filter::new(&filter).err().unwrap();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::InvalidRequest, "spec.paths: \"[z-a]\" is not a pattern")
        );
    }
}
