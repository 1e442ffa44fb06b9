//! Bare clones: only what is needed of the branch, no tags, no checkout.

use std::path::Path;

use git2::{AutotagOption, Direction, FetchOptions, ProxyOptions, Remote, RemoteRedirect, Repository};
use rag_protocol::{EngineError, ErrorKind, spec::GitSpec};

use super::{no_branch, unreachable};

/// Digits of a whole commit id (SHA-1).
const WHOLE_ID: usize = 40;

/// Clones into a new folder in `work_dir`: the last commit of the branch, or, for a pinned commit, that commit alone
/// where the server gives out single commits, else all branches and tags with their history.
pub fn clone(url: &str, spec: &GitSpec, work_dir: &Path) -> Result<Repository, EngineError> {
    let folder = work_dir.join("repository.git");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| unwritable(&folder, &e.to_string()))?;
    }
    let repository = Repository::init_bare(&folder).map_err(|e| unwritable(&folder, e.message()))?;
    // libgit2 would follow the first redirect to any host. With this it follows redirects on the same host only.
    repository
        .config()
        .and_then(|mut config| config.set_bool("http.followRedirects", false))
        .map_err(|e| unwritable(&folder, e.message()))?;
    fetch(&repository, url, spec)?;
    Ok(repository)
}

fn fetch(repository: &Repository, url: &str, spec: &GitSpec) -> Result<(), EngineError> {
    let failed = |e: git2::Error| unreachable(url, &e);
    let mut remote = repository.remote_anonymous(url).map_err(failed)?;
    match &spec.commit {
        None => {
            let branches = branches(&mut remote).map_err(failed)?;
            if !branches.contains(&spec.branch) {
                return Err(no_branch(url, &spec.branch, branches.into_iter()));
            }
            download(&mut remote, &[branch_refspec(&spec.branch)], 1).map_err(failed)
        }
        Some(pin) => {
            let alone = pin.len() == WHOLE_ID
                && download(&mut remote, &[format!("+{pin}:refs/heads/pinned")], 1).is_ok()
                && repository.find_commit_by_prefix(pin).is_ok();
            if alone {
                return Ok(());
            }
            let everything = [branch_refspec("*"), "+refs/tags/*:refs/tags/*".into()];
            download(&mut remote, &everything, 0).map_err(failed)
        }
    }
}

fn branch_refspec(branch: &str) -> String {
    format!("+refs/heads/{branch}:refs/heads/{branch}")
}

fn branches(remote: &mut Remote<'_>) -> Result<Vec<String>, git2::Error> {
    let connection = remote.connect_auth(Direction::Fetch, None, Some(proxy()))?;
    let names = connection.list()?.iter().filter_map(|head| head.name().strip_prefix("refs/heads/"));
    Ok(names.map(Into::into).collect())
}

/// Fetches with a history of `depth` commits; 0 means all.
fn download(remote: &mut Remote<'_>, refspecs: &[String], depth: i32) -> Result<(), git2::Error> {
    let mut options = FetchOptions::new();
    options
        .depth(depth)
        .download_tags(AutotagOption::None)
        .follow_redirects(RemoteRedirect::None)
        .update_fetchhead(false)
        .proxy_options(proxy());
    remote.fetch(refspecs, Some(&mut options), None)
}

fn proxy<'a>() -> ProxyOptions<'a> {
    let mut proxy = ProxyOptions::new();
    proxy.auto();
    proxy
}

fn unwritable(folder: &Path, reason: &str) -> EngineError {
    EngineError::new(ErrorKind::Io, format!("cannot make the folder \"{}\" for a clone", folder.display()))
        .detail(reason)
}
