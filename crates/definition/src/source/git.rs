//! `git`: the files of one branch or commit of a git repository.

mod host_key;
mod ssh;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

pub use self::{
    host_key::HostKey,
    ssh::{SshRepository, SshServer},
};
use super::{
    KindSpec, Login, PathFilter, RequiredRight, ServerPath, SourceKind, SourceSpec, WebAddress,
    common::path_filter, endpoint::CREDENTIALS_HINT,
};
use crate::{FieldProblem, Fields, url::has_sendable_host};

pub(super) const KIND: SourceKind = SourceKind {
    name: "git",
    manifest_type: "Git",
    comment: "the files of one branch or commit of a git repository",
    keys: &[
        "repositoryURL",
        "branch",
        "commit",
        "hostKeys",
        "paths",
        "excludePaths",
        "lfs",
        "submodules",
    ],
    released_names: &[("repository", URL_KEY)],
    parse: |fields| GitSpec::parse(fields).map(SourceSpec::Git),
};

const URL_KEY: &str = "repositoryURL";
const DEFAULT_BRANCH: &str = "main";
/// Minimum and maximum number of hexadecimal digits of a commit.
const COMMIT_DIGITS: (usize, usize) = (7, 40);
const SHA256_DIGITS: usize = 64;
const SHA256_HINT: &str = "Repositories with SHA-256 object ids are not supported.";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitSpec {
    pub repository: Repository,
    pub branch: String,
    /// Pins the source to one commit (full or abbreviated hex).
    pub commit: Option<String>,
    pub filter: PathFilter,
    /// True if the files of Git LFS are read.
    pub lfs: bool,
    /// True if the files of submodules are read.
    pub submodules: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repository {
    /// An `https://` URL without credentials in it. `http://` is for hosts that
    /// `rag.allowed_private_hosts` names.
    Https(String),
    /// An account and path on an ssh server.
    Ssh(SshRepository),
    /// A path on the database server; superusers only.
    Local(PathBuf),
}

impl Repository {
    /// Returns the URL of a repository on another server.
    pub fn url(&self) -> Option<String> {
        match self {
            Self::Https(url) => Some(url.clone()),
            Self::Ssh(ssh) => Some(ssh.to_string()),
            Self::Local(_) => None,
        }
    }
}

impl GitSpec {
    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let mut repository = repository(fields);
        let server = match &repository {
            Some(Repository::Ssh(ssh)) => Some(&ssh.server),
            _ => None,
        };
        // a wrong address says nothing of the keys
        if repository.is_some() {
            let keys = host_key::host_keys(fields, server);
            if let Some(Repository::Ssh(ssh)) = &mut repository {
                ssh.host_keys = keys;
            }
        }
        let branch = fields.text("branch").map(str::to_owned);
        let commit = fields.text("commit").map(str::to_owned);
        let filter = path_filter(fields, PathFilter::KEYS);
        let lfs = fields.boolean("lfs").unwrap_or(true);
        let submodules = fields.boolean("submodules").unwrap_or(false);
        if branch
            .as_deref()
            .is_some_and(|branch| !is_branch_name(branch))
        {
            let hint = "Write the branch's name alone, as \"git branch\" shows it: \"main\", \
                        \"release/2.1\".";
            fields.problem_with("branch", "is not a valid branch name", hint);
        } else if let Some(name) = branch.as_deref().and_then(name_of_reference) {
            fields.problem_with(
                "branch",
                "must be a name, not a reference",
                format!("Write \"{name}\"."),
            );
        }
        match commit.as_deref() {
            Some(commit) if !is_commit_id(commit) => {
                let problem = "must be 7 to 40 hexadecimal digits";
                if commit.len() == SHA256_DIGITS && is_hexadecimal(commit) {
                    fields.problem_with("commit", problem, SHA256_HINT)
                } else {
                    fields.problem("commit", problem)
                }
            }
            Some(commit) if commit.len() == COMMIT_DIGITS.1 && is_zero(commit) => {
                fields.problem("commit", "is git's name for no commit");
            }
            _ => {}
        }
        Some(Self {
            repository: repository?,
            branch: branch.unwrap_or_else(|| DEFAULT_BRANCH.into()),
            commit,
            filter,
            lfs,
            submodules,
        })
    }
}

impl KindSpec for GitSpec {
    fn kind(&self) -> &'static SourceKind {
        &KIND
    }

    fn location_key(&self) -> String {
        URL_KEY.into()
    }

    fn required_right(&self) -> RequiredRight<'_> {
        match &self.repository {
            Repository::Local(_) => RequiredRight::Superuser("read a repository on the server"),
            Repository::Https(url) if url.starts_with("http://") => RequiredRight::PlainHttp(url),
            Repository::Https(_) | Repository::Ssh(_) => RequiredRight::None,
        }
    }

    fn uses_network(&self) -> bool {
        !matches!(self.repository, Repository::Local(_))
    }

    fn credentials_server(&self) -> Result<Option<Url>, FieldProblem> {
        Ok(match &self.repository {
            Repository::Https(url) => Url::parse(url).ok(),
            Repository::Ssh(ssh) => ssh.server.url(),
            Repository::Local(_) => None,
        })
    }

    fn login(&self) -> Login {
        match &self.repository {
            Repository::Ssh(_) => Login::PrivateKey,
            Repository::Https(_) | Repository::Local(_) => Login::Password,
        }
    }

    fn web_addresses(&self) -> Vec<WebAddress<'_>> {
        let url = match &self.repository {
            Repository::Https(url) => Some(url.into()),
            Repository::Ssh(ssh) => ssh.server.url().map(|url| String::from(url).into()),
            Repository::Local(_) => None,
        };
        let address = url.map(|url| WebAddress {
            field: format!("spec.{URL_KEY}"),
            url,
        });
        address.into_iter().collect()
    }

    fn server_paths(&self) -> Vec<ServerPath<'_>> {
        match &self.repository {
            Repository::Local(path) => vec![ServerPath {
                field: format!("spec.{URL_KEY}"),
                path,
                is_folder: true,
            }],
            Repository::Https(_) | Repository::Ssh(_) => vec![],
        }
    }

    fn path_filter(&self) -> Option<(&PathFilter, [&'static str; 2])> {
        Some((&self.filter, PathFilter::KEYS))
    }
}

fn repository(fields: &Fields<'_>) -> Option<Repository> {
    const NO_URL: &str = "is not the URL of a repository";
    const HINT: &str = "Write https://host/path, git@host:path, ssh://git@host:port/path, or, as a \
                        superuser, an absolute path on the server.";
    let text = fields.required_text(URL_KEY)?;
    let local = text.strip_prefix("file://").unwrap_or(text);
    if local.starts_with('/') {
        return Some(Repository::Local(local.into()));
    }
    if let Some(read) = ssh::parse(text) {
        return match read {
            Ok(ssh) => Some(Repository::Ssh(ssh)),
            Err((problem, hint)) => {
                fields.problem_with(URL_KEY, problem, hint);
                None
            }
        };
    }
    let Some(rest) = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
    else {
        fields.problem_with(URL_KEY, "must start with https:// or ssh://", HINT);
        return None;
    };
    // a URL parser would drop some of these, and take others for slashes
    let has_stray = |text: &str| {
        text.chars()
            .any(|c| c.is_whitespace() || c.is_control() || c == '\\')
    };
    let url = match Url::parse(text) {
        Ok(url) if !has_stray(text) => url,
        Ok(_) => {
            fields.problem_with(URL_KEY, NO_URL, HINT);
            return None;
        }
        Err(error) => {
            let problem = format!("{NO_URL}: {error}");
            fields.problem_with(URL_KEY, problem, HINT);
            return None;
        }
    };
    if !url.username().is_empty()
        || url.password().is_some()
        || rest.split('/').next().is_some_and(|a| a.contains('@'))
    {
        fields.problem_with(URL_KEY, "must not contain credentials", CREDENTIALS_HINT);
    } else if url.path() == "/"
        || url.query().is_some()
        || url.fragment().is_some()
        || !has_sendable_host(&url)
    {
        fields.problem_with(URL_KEY, NO_URL, HINT);
    } else {
        return Some(Repository::Https(text.to_owned()));
    }
    None
}

/// Returns true if git would create a branch of this name (git-check-ref-format(1), `--branch`).
fn is_branch_name(branch: &str) -> bool {
    let reference = format!("refs/heads/{branch}");
    !branch.starts_with('-')
        && gix_validate::reference::branch_name(reference.as_str().into()).is_ok()
}

/// Returns the name in `refs/heads/name` or `refs/tags/name`.
fn name_of_reference(branch: &str) -> Option<&str> {
    ["refs/heads/", "refs/tags/"]
        .into_iter()
        .find_map(|folder| branch.strip_prefix(folder))
}

fn is_commit_id(commit: &str) -> bool {
    (COMMIT_DIGITS.0..=COMMIT_DIGITS.1).contains(&commit.len()) && is_hexadecimal(commit)
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_zero(text: &str) -> bool {
    text.bytes().all(|b| b == b'0')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::source::tests::refuses;

    fn parse(url: &str) -> Result<SourceSpec, Vec<FieldProblem>> {
        SourceSpec::parse("git", &json!({ "repositoryURL": url }))
    }

    #[test]
    fn the_default_branch_is_main() {
        let Ok(SourceSpec::Git(git)) = parse("https://example.org/a.git") else {
            panic!("a valid spec")
        };
        assert_eq!(git.branch, "main");
        assert_eq!(
            git.repository,
            Repository::Https("https://example.org/a.git".into())
        );
    }

    #[test]
    fn urls_are_those_that_a_run_accepts() {
        for url in [
            "https://example.org:8443/a.git",
            "https://[2606:4700::1111]/a.git",
            "http://wiki.local/a",
            "https://bücher.example/a",
        ] {
            assert!(parse(url).is_ok(), "{url}");
        }
        for url in [
            "https://[::bad/x",
            "https://h:99999/x",
            "https://example.org",
            "https://a b/x",
            "https://h\\x/y",
            "https://h!/x",
            "https:///x?y",
            "https://-bad-.com/x",
            "https://a..b/x",
        ] {
            let problem = &parse(url).unwrap_err()[0].message;
            assert!(
                problem.starts_with("is not the URL of a repository"),
                "{url}"
            );
        }
    }

    #[test]
    fn names_of_branches_follow_the_rules_of_git() {
        let parse = |branch: &str| {
            let spec = json!({"repositoryURL": "https://example.org/a", "branch": branch});
            SourceSpec::parse("git", &spec)
        };
        for branch in ["main", "release/2.1", "größe", "a@b", "head"] {
            assert!(parse(branch).is_ok(), "{branch}");
        }
        for branch in [
            "main/",
            "a//b",
            "main.lock",
            "a@{b",
            "HEAD",
            "-a",
            "a..b",
            "a b",
            ".a",
            "a/.b",
            "a.",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "refs/heads/main",
            "refs/tags/v1",
        ] {
            assert!(parse(branch).is_err(), "{branch}");
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for (url, expected) in [
            (
                "ftp://example.org/a",
                "spec.repositoryURL: must start with https:// or ssh://",
            ),
            (
                "https://example.org/a?b=c",
                "spec.repositoryURL: is not the URL of a repository",
            ),
            (
                "https://u:p@example.org/a",
                "spec.repositoryURL: must not contain credentials",
            ),
        ] {
            refuses("git", json!({ "repositoryURL": url }), expected);
        }
        for (key, value, expected) in [
            (
                "branch",
                "--upload-pack=x",
                "spec.branch: is not a valid branch name",
            ),
            (
                "commit",
                "HEAD",
                "spec.commit: must be 7 to 40 hexadecimal digits",
            ),
            (
                "commit",
                "0123456789abcdef0123456789abcdef012345678",
                "spec.commit: must be 7 to 40 hexadecimal digits",
            ),
            (
                "commit",
                "0000000000000000000000000000000000000000",
                "spec.commit: is git's name for no commit",
            ),
        ] {
            let spec = json!({"repositoryURL": "https://example.org/a", key: value});
            refuses("git", spec, expected);
        }
    }
}
