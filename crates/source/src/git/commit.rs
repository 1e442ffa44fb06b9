//! The repository and the commit that a source reads.

use std::{ffi::OsStr, path::Path};

use git2::{BranchType, ErrorCode, Oid, RepositoryOpenFlags};
use rag_definition::source::GitSpec;
use rag_protocol::{EngineError, ErrorKind};

use crate::root;

/// Opens a repository on the server.
pub fn open_local(path: &Path) -> Result<git2::Repository, EngineError> {
    std::fs::read_dir(path).map_err(|e| root::unusable(path, &e))?;
    git2::Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, [] as [&OsStr; 0]).map_err(
        |error| {
            let path = path.display();
            if error.code() == ErrorCode::NotFound {
                EngineError::new(
                    ErrorKind::SourceUnavailable,
                    format!("\"{path}\" is not a git repository"),
                )
                .hint("Write the path of a folder that contains \".git\", or of a bare repository.")
            } else {
                unreadable(
                    &error,
                    format!("could not open the git repository \"{path}\""),
                )
            }
        },
    )
}

/// Returns the error of a repository that cannot be read.
pub fn unreadable(error: &git2::Error, message: String) -> EngineError {
    let unreadable =
        EngineError::new(ErrorKind::SourceUnavailable, message).detail(error.message());
    if error.message().contains("object format 'sha256'") {
        return unreadable.hint("Only repositories with SHA-1 object ids are supported.");
    }
    unreadable
}

/// Returns the pinned commit, or else the head of the branch, or of the tag of that name if there
/// is no such branch. The id of a tag stands for its commit.
pub fn find_commit(
    repository: &git2::Repository,
    url: &str,
    spec: &GitSpec,
) -> Result<Oid, EngineError> {
    let unavailable = |message: String| EngineError::new(ErrorKind::SourceUnavailable, message);
    if let Some(pin) = &spec.commit {
        let pinned = repository.find_object_by_prefix(pin, None);
        return match pinned.and_then(|object| object.peel_to_commit()) {
            Ok(commit) => Ok(commit.id()),
            Err(e) if e.code() == ErrorCode::Ambiguous => Err(unavailable(format!(
                "more than one object of {url} begins with \"{pin}\""
            ))
            .hint("Write more digits of the commit.")),
            Err(e) => Err(
                unavailable(format!("commit \"{pin}\" does not exist in {url}"))
                    .detail(e.message()),
            ),
        };
    }
    let tip = repository
        .find_branch(&spec.branch, BranchType::Local)
        .and_then(|branch| branch.get().peel_to_commit())
        .or_else(|_| {
            let tag = repository.find_reference(&format!("refs/tags/{}", spec.branch));
            tag.and_then(|tag| tag.peel_to_commit())
        })
        .map(|commit| commit.id());
    tip.map_err(|_| {
        let branches = repository
            .branches(Some(BranchType::Local))
            .into_iter()
            .flatten()
            .flatten();
        no_branch(
            url,
            &spec.branch,
            branches.filter_map(|(branch, _)| branch.name().ok().flatten().map(Into::into)),
        )
    })
}

pub fn no_branch(url: &str, branch: &str, existing: impl Iterator<Item = String>) -> EngineError {
    const SHOWN: usize = 10;
    let mut names: Vec<String> = existing.collect();
    names.sort();
    let hint = if names.is_empty() {
        "The repository is empty: it has no branches.".into()
    } else if names.len() > SHOWN {
        format!(
            "Branches: {}, and {} more.",
            names[..SHOWN].join(", "),
            names.len() - SHOWN
        )
    } else {
        format!("Branches: {}.", names.join(", "))
    };
    EngineError::new(
        ErrorKind::SourceUnavailable,
        format!("branch \"{branch}\" does not exist in {url}"),
    )
    .hint(hint)
}
