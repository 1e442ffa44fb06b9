//! Selects paths by gitignore's patterns. `paths` select files, and directories with everything
//! below them; without `paths` everything is selected. `excludePaths` take precedence: what they
//! match is left out, a directory with everything below it.
//!
//! | pattern | matches |
//! |---|---|
//! | `*.md`, `main.py` | files and directories of that name, at any depth |
//! | `guides/` | directories of that name, at any depth |
//! | `/src`, `docs/guides` | only from the root, since there is a slash that is not the last character |
//! | `**/drafts/*.md` | `**` stands for any number of directories |
//!
//! In folders and repositories ([`Filter::wants`]) two kinds of files are left out even if `paths`
//! select them:
//!
//! * **hidden files and directories**, whose names begin with a dot, unless a part of a pattern of
//!   `paths` begins with a dot and matches the name;
//! * **keys and passwords** ([`is_secret`]), unless a pattern of `paths` without wildcards is the
//!   path or the name of that file.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use ignore::gitignore::Gitignore;
use rag_definition::source::{
    PathFilter, SourceSpec,
    pattern::{self, compile},
};
use rag_protocol::{EngineError, ErrorKind};

pub struct Filter {
    selected: Option<Gitignore>,
    excluded: Gitignore,
    /// The parts of `paths` that begin with a dot: they select hidden files.
    named_hidden: Gitignore,
    /// The patterns of `paths` without wildcards: they select files of keys and passwords.
    named_exactly: Gitignore,
}

/// What the filter decides on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Wanted,
    /// No pattern selects it, or it is hidden.
    Unwanted,
    /// It is selected but holds keys or passwords.
    Secret,
}

impl Filter {
    /// `keys` are the names of the two fields in the spec.
    ///
    /// # Errors
    /// A pattern is invalid.
    pub fn new(
        filter: &PathFilter,
        [paths_key, exclude_key]: [&str; 2],
    ) -> Result<Self, EngineError> {
        let hidden: Vec<String> = filter
            .paths
            .iter()
            .flat_map(|pattern| pattern.split('/'))
            .filter(|part| part.starts_with('.') && !part.chars().all(|c| c == '.'))
            .map(Into::into)
            .collect();
        let is_exact =
            |pattern: &&String| !pattern.contains(['*', '?', '[', '!']) && !pattern.ends_with('/');
        let exact: Vec<String> = filter.paths.iter().filter(is_exact).cloned().collect();
        Ok(Self {
            selected: if filter.paths.is_empty() {
                None
            } else {
                Some(matcher(paths_key, &filter.paths)?)
            },
            excluded: matcher(exclude_key, &filter.exclude_paths)?,
            named_hidden: matcher(paths_key, &hidden)?,
            named_exactly: matcher(paths_key, &exact)?,
        })
    }

    /// Returns the filter for the files in an archive that a source has selected: an archive is
    /// read as a directory of its name.
    ///
    /// # Errors
    /// A pattern is invalid.
    pub fn of_members(source: &SourceSpec) -> Result<Self, EngineError> {
        let (filter, keys) = source
            .path_filter()
            .map_or_else(Default::default, |(filter, keys)| (filter.clone(), keys));
        let mut of_members = Self::new(&filter, keys)?;
        of_members.selected = None;
        Ok(of_members)
    }

    /// Returns true if the patterns select a file; `path` is relative to the root.
    pub fn selects(&self, path: &Path) -> bool {
        self.selected
            .as_ref()
            .is_none_or(|m| m.matched_path_or_any_parents(path, false).is_ignore())
            && !self
                .excluded
                .matched_path_or_any_parents(path, false)
                .is_ignore()
    }

    /// Decides on a file of a folder or repository whose directories are entered.
    pub fn wants(&self, path: &Path) -> Verdict {
        let is_shown = path.file_name().is_none_or(|name| self.shows(name, false));
        if !is_shown || !self.selects(path) {
            Verdict::Unwanted
        } else if self.is_withheld(path) {
            Verdict::Secret
        } else {
            Verdict::Wanted
        }
    }

    /// Decides on a file below a root whose directories are not entered one by one.
    pub fn wants_below(&self, path: &Path) -> Verdict {
        let mut directories = path.parent().into_iter().flatten();
        if directories.all(|name| self.shows(name, true)) {
            self.wants(path)
        } else {
            Verdict::Unwanted
        }
    }

    /// Returns true if a file holds keys or passwords and no pattern names exactly that file.
    pub fn is_withheld(&self, path: &Path) -> bool {
        path.file_name().is_some_and(is_secret)
            && !self.named_exactly.matched(path, false).is_ignore()
    }

    /// Returns true if a directory may contain selected files.
    pub fn enters(&self, path: &Path) -> bool {
        path.file_name().is_none_or(|name| self.shows(name, true))
            && !self
                .excluded
                .matched_path_or_any_parents(path, true)
                .is_ignore()
    }

    /// Returns true if a name is not hidden, or a pattern of `paths` names it.
    fn shows(&self, name: &OsStr, is_directory: bool) -> bool {
        !name.as_bytes().starts_with(b".")
            || self.named_hidden.matched(name, is_directory).is_ignore()
    }
}

/// Names of files with keys, passwords and tokens.
const SECRET_NAMES: [&str; 22] = [
    ".boto",
    ".dockercfg",
    ".env",
    ".git-credentials",
    ".htpasswd",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    ".vault-token",
    "_netrc",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "id_rsa",
    "pgpass.conf",
    "terraform.tfstate",
    "terraform.tfstate.backup",
];
/// Prefixes of such names: `.env.production`.
const SECRET_BEGINNINGS: [&str; 1] = [".env."];
/// Suffixes of such names.
const SECRET_ENDINGS: [&str; 9] = [
    ".env",
    ".jks",
    ".kdbx",
    ".key",
    ".keystore",
    ".p12",
    ".pem",
    ".pfx",
    ".ppk",
];

/// Returns true if a file of this name usually holds keys or passwords.
pub fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    SECRET_NAMES.contains(&name.as_str())
        || SECRET_BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
        || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn matcher(key: &str, patterns: &[String]) -> Result<Gitignore, EngineError> {
    compile(patterns).map_err(|bad| {
        let message = match bad.index.and_then(|i| patterns.get(i)) {
            Some(pattern) => format!("spec.{key}: \"{pattern}\" is not a valid pattern"),
            None => format!("spec.{key}: the patterns together are too large"),
        };
        EngineError::new(ErrorKind::InvalidRequest, message)
            .detail(bad.reason)
            .hint(pattern::HINT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(paths: &[&str], exclude: &[&str]) -> Filter {
        let texts = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect();
        Filter::new(
            &PathFilter {
                paths: texts(paths),
                exclude_paths: texts(exclude),
            },
            PathFilter::KEYS,
        )
        .unwrap()
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
        check(&[], &[], &["a", "a/b/c.md", ".x", "-x", "#y"], &[]);
    }

    #[test]
    fn names_match_at_any_depth_and_slashes_anchor() {
        check(
            &["*.md"],
            &[],
            &["a.md", "x/y/a.md"],
            &["a.txt", "a.md.txt", "a.MD"],
        );
        check(&["main.py"], &[], &["main.py", "x/main.py"], &["xmain.py"]);
        check(
            &["guides/"],
            &[],
            &["guides/a", "x/guides/y/a"],
            &["guides", "guides.md"],
        );
        check(&["/src"], &[], &["src", "src/a/b.rs"], &["x/src/a"]);
        check(
            &["docs/guides/"],
            &[],
            &["docs/guides/a"],
            &["x/docs/guides/a"],
        );
        check(
            &["**/drafts/*.md"],
            &[],
            &["drafts/a.md", "x/y/drafts/a.md"],
            &["drafts/x/a.md"],
        );
        check(&["./docs/"], &[], &["docs/a"], &["x/docs/a"]);
        check(&["*"], &["/a"], &["x/y", "b"], &["a", "a/b"]);
        check(
            &["#notes/", "*.go"],
            &[],
            &["#notes/a", "x/b.go"],
            &["notes/a"],
        );
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
            &[
                "src/a.c",
                "src/x/y.c",
                "x/main.py",
                "a.go",
                "x/b.go",
                "docs/a.txt",
                "x/docs/b/c.txt",
            ],
            &[
                "x/src/a.c",
                "main.pyc",
                "a.got",
                "docs",
                "vendor/a.go",
                "x/vendor/docs/a",
                "a_test.go",
                "src/gen/a.go",
            ],
        );
        check(
            &[],
            &["vendor/"],
            &["vendor", "a"],
            &["vendor/a", "x/vendor/y/z"],
        );
    }

    #[test]
    fn a_negated_folder_leaves_files_that_are_matched_by_name() {
        let api = "docs/api/a.md";
        check(&["docs/", "!docs/api/"], &[], &["docs/a.md"], &[api]);
        check(&["*.md", "!docs/api/"], &[], &["docs/a.md", api], &[]);
        check(&["*.md", "!docs/api/**"], &[], &["docs/a.md"], &[api]);
    }

    #[test]
    fn hidden_files_are_selected_if_a_pattern_names_them() {
        let enters = |paths: &[&str], path: &str| filter(paths, &[]).enters(Path::new(path));
        assert!(
            enters(&[], "docs") && !enters(&[], ".git") && !enters(&["*.md", "**"], "a/.github")
        );
        assert!(enters(&[".github/**/*.md"], ".github") && !enters(&[".github/"], ".git"));
        assert!(enters(&["docs/.vuepress/"], "docs/.vuepress") && enters(&[".*/"], ".git"));
        let wants = |paths: &[&str], path: &str| {
            filter(paths, &[]).wants(Path::new(path)) == Verdict::Wanted
        };
        assert!(
            wants(&[], "docs/a.md") && !wants(&[], "docs/.a.md") && !wants(&["*"], ".editorconfig")
        );
        assert!(wants(&[".editorconfig"], "a/.editorconfig") && wants(&["docs/.*"], "docs/.a.md"));
    }

    #[test]
    fn hidden_directories_hide_what_is_below_them() {
        let wants = |paths: &[&str], path: &str| filter(paths, &[]).wants_below(Path::new(path));
        for path in [".git/config", "a/.venv/lib/b.md"] {
            assert_eq!(wants(&[], path), Verdict::Unwanted);
            assert_eq!(wants(&[".git/", ".venv/"], path), Verdict::Wanted);
        }
        assert_eq!(wants(&[], "a/b/c.md"), Verdict::Wanted);
        assert_eq!(wants(&[], "a/b/id_rsa"), Verdict::Secret);
    }

    #[test]
    fn keys_and_passwords_are_selected_if_a_pattern_names_exactly_that_file() {
        let wants = |paths: &[&str], path: &str| filter(paths, &[]).wants(Path::new(path));
        for name in [
            "a/server.PEM",
            "id_rsa",
            "prod.env",
            "x/y/client.key",
            "terraform.tfstate",
        ] {
            for paths in [&[][..], &["*"], &["a/", "x/"], &["**/*.*", "id_*"]] {
                let verdict = if filter(paths, &[]).selects(Path::new(name)) {
                    Verdict::Secret
                } else {
                    Verdict::Unwanted
                };
                assert_eq!(wants(paths, name), verdict, "{name} {paths:?}");
            }
            assert_eq!(wants(&[name], name), Verdict::Wanted, "{name}");
        }
        assert_eq!(wants(&[".env"], "a/.env"), Verdict::Wanted);
        assert_eq!(wants(&[".*"], ".env.local"), Verdict::Secret);
        assert_eq!(wants(&["keys"], "keys/id_rsa"), Verdict::Secret);
        assert_eq!(wants(&["/id_rsa"], "a/id_rsa"), Verdict::Unwanted);
        for name in [
            "id_rsa.pub",
            "keys.md",
            "environment.md",
            "monkey",
            "a.envelope",
        ] {
            assert_eq!(wants(&[], name), Verdict::Wanted, "{name}");
        }
    }

    #[test]
    fn a_malformed_pattern_is_reported() {
        let filter = PathFilter {
            paths: vec!["docs/".into(), "[z-a]".into()],
            exclude_paths: vec![],
        };
        let error = Filter::new(&filter, PathFilter::KEYS).err().unwrap();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (
                ErrorKind::InvalidRequest,
                "spec.paths: \"[z-a]\" is not a valid pattern"
            )
        );
    }
}
