//! Which paths are wanted: gitignore's patterns, turned around. What `paths` match is selected, a
//! selected directory with everything below it; without `paths` everything is. What `excludePaths`
//! match is left out whatever selects it, an excluded directory with everything below it.
//!
//! | pattern | matches |
//! |---|---|
//! | `*.md`, `main.py` | files and directories of that name, at any depth |
//! | `guides/` | directories of that name, at any depth |
//! | `/src`, `docs/guides` | only from the root, since there is a slash that is not the last character |
//! | `**/drafts/*.md` | `**` stands for any number of directories |
//!
//! Of files on disk and in repositories ([`Filter::wants`]) two kinds are left out that `paths`
//! could select:
//!
//! * **hidden ones**: a file or directory whose name begins with a dot, unless a part of a pattern
//!   of `paths` that begins with a dot matches the name;
//! * **keys and passwords** ([`is_secret`]), unless a pattern of `paths` without wildcards is the
//!   path of that file, or its name.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use ignore::gitignore::Gitignore;
use rag_protocol::{
    EngineError, ErrorKind,
    spec::{
        PathFilter,
        pattern::{self, compile},
    },
};

pub struct Filter {
    selected: Option<Gitignore>,
    excluded: Gitignore,
    /// The parts of `paths` that begin with a dot: what is looked at although it is hidden.
    named_hidden: Gitignore,
    /// The patterns of `paths` that have no wildcards: what they match themselves was meant.
    named_exactly: Gitignore,
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Wanted,
    /// No pattern selects it, or it is hidden.
    Unwanted,
    /// It would be wanted but for what it is.
    Secret,
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
        let is_exact =
            |pattern: &&String| !pattern.contains(['*', '?', '[', '!']) && !pattern.ends_with('/');
        let exact: Vec<String> = filter.paths.iter().filter(is_exact).cloned().collect();
        Ok(Self {
            selected: if filter.paths.is_empty() {
                None
            } else {
                Some(matcher("paths", &filter.paths)?)
            },
            excluded: matcher("excludePaths", &filter.exclude_paths)?,
            named_hidden: matcher("paths", &hidden)?,
            named_exactly: matcher("paths", &exact)?,
        })
    }

    /// Whether patterns select a file; `path` is relative to the root.
    pub fn selects(&self, path: &Path) -> bool {
        self.selected
            .as_ref()
            .is_none_or(|m| m.matched_path_or_any_parents(path, false).is_ignore())
            && !self
                .excluded
                .matched_path_or_any_parents(path, false)
                .is_ignore()
    }

    /// Whether a file of a folder or repository is wanted, whose directories are shown.
    pub fn wants(&self, path: &Path) -> Verdict {
        let is_shown = path.file_name().is_none_or(|name| self.shows(name, false));
        match is_shown && self.selects(path) {
            true if self.is_withheld(path) => Verdict::Secret,
            true => Verdict::Wanted,
            false => Verdict::Unwanted,
        }
    }

    /// Whether a file holds keys or passwords, and no pattern names exactly that file.
    pub fn is_withheld(&self, path: &Path) -> bool {
        path.file_name().is_some_and(is_secret)
            && !self.named_exactly.matched(path, false).is_ignore()
    }

    /// Whether a directory may hold something wanted.
    pub fn enters(&self, path: &Path) -> bool {
        path.file_name().is_none_or(|name| self.shows(name, true))
            && !self
                .excluded
                .matched_path_or_any_parents(path, true)
                .is_ignore()
    }

    /// Whether a name does not begin with a dot, or a pattern of `paths` names it.
    fn shows(&self, name: &OsStr, is_directory: bool) -> bool {
        !name.as_bytes().starts_with(b".")
            || self.named_hidden.matched(name, is_directory).is_ignore()
    }
}

/// Names of files that programs keep keys, passwords and tokens in.
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
/// What such names begin with: `.env.production`.
const SECRET_BEGINNINGS: [&str; 1] = [".env."];
/// What they end with.
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

/// Whether a file of this name holds keys or passwords.
pub fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    SECRET_NAMES.contains(&name.as_str())
        || SECRET_BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
        || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn matcher(field: &str, patterns: &[String]) -> Result<Gitignore, EngineError> {
    compile(patterns).map_err(|bad| {
        let message = match bad.index.and_then(|i| patterns.get(i)) {
            Some(pattern) => format!("spec.{field}: \"{pattern}\" is not a pattern"),
            None => format!("spec.{field}: the patterns together are too much"),
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
        Filter::new(&PathFilter {
            paths: texts(paths),
            exclude_paths: texts(exclude),
        })
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
    fn what_is_hidden_is_wanted_where_a_pattern_names_it() {
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
    fn keys_and_passwords_are_wanted_where_a_pattern_names_exactly_that_file() {
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
    fn a_malformed_pattern_is_named() {
        let filter = PathFilter {
            paths: vec!["docs/".into(), "[z-a]".into()],
            exclude_paths: vec![],
        };
        let error = Filter::new(&filter).err().unwrap();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (
                ErrorKind::InvalidRequest,
                "spec.paths: \"[z-a]\" is not a pattern"
            )
        );
    }
}
