//! The submodules that `.gitmodules` names.
//!
//! The objects of a submodule are beside the clone of its repository, and live as long. The server
//! of each submodule is asked in each run, as that of the repository is. Credentials are only for
//! submodules on the repository's own server.

use std::path::{Path, PathBuf};

use git2::{Oid, Tree};
use rag_definition::source::{GitSpec, Repository, SourceSpec, SshServer};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Network},
};
use serde_json::json;
use url::Url;

use super::lfs::Lfs;

/// Limit on the submodules of a repository, those of submodules included.
pub const MAX_SUBMODULES: usize = 100;
const LIST_FILE: &str = ".gitmodules";
/// Maximum size of the list.
const LIST_BYTES: usize = 1 << 20;

/// What a run needs to read a repository, or a submodule.
pub struct Access {
    pub spec: GitSpec,
    pub credentials: Option<Credentials>,
    pub network: Network,
    pub max_file_bytes: u64,
}

/// A submodule that was fetched.
pub struct Submodule {
    /// Where its files are in the repository.
    pub path: PathBuf,
    pub url: String,
    pub repository: git2::Repository,
    pub commit: Oid,
    pub access: Access,
    pub lfs: Option<Lfs>,
}

/// Returns the URL of the submodule at a path, as `.gitmodules` has it.
pub fn url_of(repository: &git2::Repository, root: &Tree<'_>, path: &Path) -> Option<String> {
    let entry = root.get_name(LIST_FILE)?;
    let (size, _) = repository.odb().ok()?.read_header(entry.id()).ok()?;
    if size > LIST_BYTES {
        return None;
    }
    let blob = repository.find_blob(entry.id()).ok()?;
    let text = String::from_utf8_lossy(blob.content());
    let found = parse(&text)
        .into_iter()
        .find(|(own, _)| Path::new(own) == path);
    found.map(|(_, url)| url)
}

/// Returns paths and URLs (git-config(1), gitmodules(5)). Nothing else in the file matters.
fn parse(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(Option<String>, Option<String>)> = vec![];
    let mut is_submodule = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_submodule = line.starts_with("[submodule ");
            if is_submodule {
                found.push((None, None));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| is_submodule) else {
            continue;
        };
        let value = value.trim().trim_matches('"').to_owned();
        if let Some((path, url)) = found.last_mut() {
            match key.trim().to_ascii_lowercase().as_str() {
                "path" => *path = Some(value),
                "url" => *url = Some(value),
                _ => {}
            }
        }
    }
    found
        .into_iter()
        .filter_map(|(path, url)| Some((path?, url?)))
        .collect()
}

impl Access {
    /// Returns the access to a submodule whose URL is as `.gitmodules` has it.
    ///
    /// # Errors
    /// The URL is not that of a repository on a server.
    pub fn to_submodule(&self, url: &str, commit: Oid) -> Result<Self, EngineError> {
        let refused = |reason: &str| {
            let message = format!("\"{}\" {reason}", url.escape_debug());
            EngineError::new(ErrorKind::SourceUnavailable, message)
        };
        let url = match relative(url) {
            Some((up, rest)) => self
                .joined(up, rest)
                .ok_or_else(|| refused("leads nowhere"))?,
            None => url.to_owned(),
        };
        let spec = SourceSpec::parse("git", &json!({"repositoryURL": url}));
        let mut spec = match spec {
            Ok(SourceSpec::Git(spec)) if spec.repository.url().is_some() => spec,
            Ok(_) => return Err(refused("is not on a server")),
            Err(problems) => {
                let reason = problems.first().map_or("", |problem| &problem.message);
                return Err(refused(reason));
            }
        };
        let own = &self.spec.repository;
        if let (Repository::Ssh(own), Repository::Ssh(ssh)) = (own, &mut spec.repository)
            && (&own.server.host, own.server.port) == (&ssh.server.host, ssh.server.port)
        {
            ssh.host_keys.clone_from(&own.host_keys);
        }
        let credentials = is_same_server(own, &spec.repository).then(|| self.credentials.clone());
        Ok(Self {
            spec: GitSpec {
                commit: Some(commit.to_string()),
                filter: self.spec.filter.clone(),
                lfs: self.spec.lfs,
                submodules: true,
                ..spec
            },
            credentials: credentials.flatten(),
            network: self.network.clone(),
            max_file_bytes: self.max_file_bytes,
        })
    }

    /// Returns the address that is some folders above this one, and then below.
    fn joined(&self, up: usize, rest: &str) -> Option<String> {
        let above = |path: &str| {
            let mut folders: Vec<&str> = path.trim_matches('/').split('/').collect();
            // a submodule is beside its repository, not below it
            let kept = folders.len().checked_sub(up)?;
            folders.truncate(kept);
            folders.push(rest);
            let start = if path.starts_with('/') { "/" } else { "" };
            Some(format!("{start}{}", folders.join("/")))
        };
        match &self.spec.repository {
            Repository::Https(url) => {
                let mut url = Url::parse(url).ok()?;
                url.set_path(&above(url.path())?);
                Some(url.into())
            }
            Repository::Ssh(ssh) => {
                let mut ssh = ssh.clone();
                ssh.path = above(&ssh.path)?;
                let SshServer { user, host, .. } = &ssh.server;
                // only the form of scp has relative paths
                Some(if ssh.path.starts_with(['/', '~']) {
                    ssh.to_string()
                } else {
                    format!("{user}@{host}:{}", ssh.path)
                })
            }
            Repository::Local(_) => None,
        }
    }
}

/// Returns the number of folders that a relative URL goes up, and what follows.
fn relative(url: &str) -> Option<(usize, &str)> {
    let (mut up, mut rest) = (0, url);
    loop {
        if let Some(after) = rest.strip_prefix("../") {
            (up, rest) = (up + 1, after);
        } else if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else {
            return (rest.len() < url.len()).then_some((up, rest));
        }
    }
}

fn is_same_server(one: &Repository, other: &Repository) -> bool {
    match (one, other) {
        (Repository::Ssh(one), Repository::Ssh(other)) => one.server == other.server,
        (Repository::Https(one), Repository::Https(other)) => {
            let origin = |url: &str| Url::parse(url).map(|url| url.origin());
            matches!((origin(one), origin(other)), (Ok(one), Ok(other)) if one == other)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_that_of_git() {
        let text = "[submodule \"a\"]\n\tpath = libs/a\n\turl = ../a.git\n\
                    [include]\n\tpath = /etc/passwd\n\turl = x\n\
                    [submodule \"b\"]\n  URL=\"https://h.org/b\"\n  Path = b\n  branch = x\n\
                    [submodule \"no url\"]\n\tpath = c\n";
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            parse(text),
            [pair("libs/a", "../a.git"), pair("b", "https://h.org/b")]
        );
    }

    #[test]
    fn urls_are_relative_to_that_of_the_repository() {
        let of = |url: &str, submodule: &str| {
            let Ok(SourceSpec::Git(spec)) =
                SourceSpec::parse("git", &json!({"repositoryURL": url}))
            else {
                panic!("{url}")
            };
            let access = Access {
                spec,
                credentials: Some(Credentials::default()),
                network: Network::default(),
                max_file_bytes: 1,
            };
            let submodule = access.to_submodule(submodule, Oid::ZERO_SHA1);
            submodule.map(|it| (it.spec.repository.url().unwrap(), it.credentials.is_some()))
        };
        for (url, submodule, expected, has_credentials) in [
            (
                "https://h.org/g/a.git",
                "../b.git",
                "https://h.org/g/b.git",
                true,
            ),
            (
                "https://h.org/g/a.git",
                "./../../x/b",
                "https://h.org/x/b",
                true,
            ),
            (
                "https://h.org/g/a.git",
                "./b",
                "https://h.org/g/a.git/b",
                true,
            ),
            (
                "https://h.org/a",
                "https://h.org/b",
                "https://h.org/b",
                true,
            ),
            (
                "https://h.org/a",
                "https://h.org:444/b",
                "https://h.org:444/b",
                false,
            ),
            (
                "https://h.org/a",
                "https://evil.org/b",
                "https://evil.org/b",
                false,
            ),
            ("https://h.org/a", "git@h.org:b", "ssh://git@h.org/b", false),
            ("git@h.org:g/a", "../b", "ssh://git@h.org/g/b", true),
            ("git@h.org:a", "git@h.org:b", "ssh://git@h.org/b", true),
            ("git@h.org:a", "me@h.org:b", "ssh://me@h.org/b", false),
            ("git@h.org:a", "https://h.org/b", "https://h.org/b", false),
        ] {
            let found = of(url, submodule).unwrap();
            assert_eq!(found, (expected.to_owned(), has_credentials), "{submodule}");
        }
        for submodule in [
            "/etc",
            "file:///etc",
            "../../../../b",
            "ext::sh -c id",
            "-u",
            "",
            "x",
        ] {
            assert!(of("https://h.org/g/a", submodule).is_err(), "{submodule}");
        }
    }
}
