//! One commit of a git repository.
//!
//! Files are read from the object store: nothing is checked out, so no hook, filter or attribute of the repository
//! ever runs, and no path of it is ever created. Submodules and symbolic links are skipped.
//!
//! A repository on the web is cloned bare and shallow into the job's own folder, anew each time. A repository on the
//! server is opened where it is and only read; whose it is does not matter, since only superusers may name one and
//! nothing in it is executed. The user's and the machine's git configuration are ignored, so that no `insteadOf` leads
//! elsewhere; `https_proxy` is honoured.

mod clone;
mod options;

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use git2::{BranchType, ErrorClass, ErrorCode, ObjectType, Oid, RepositoryOpenFlags, Tree};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Known},
    spec::{GitSpec, Repository},
};

use crate::{Content, Fetched, Item, Listing, Locator, Source, fetch_failure, filter::Filter, root, too_large};

/// What is percent-encoded of a path behind the `#` of a uri.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// Most entries of a commit. A few objects can describe a tree of billions of files ("git bomb").
const MAX_ENTRIES: usize = 2_000_000;
/// Deepest directory.
const MAX_DEPTH: usize = 256;

pub struct Git {
    repository: git2::Repository,
    /// What uris begin with, and how messages call the repository.
    url: String,
    commit: Oid,
    filter: Filter,
    most: u64,
}

impl Git {
    pub fn open(spec: &GitSpec, work_dir: &Path, most: u64) -> Result<Self, EngineError> {
        options::set_once();
        let filter = Filter::new(&spec.filter)?;
        let (repository, url) = match &spec.repository {
            Repository::Https(url) => (clone::clone(url, spec, work_dir)?, url.clone()),
            Repository::Local(path) => (open_local(path)?, root::uri(path)),
        };
        let commit = find_commit(&repository, &url, spec)?;
        Ok(Self { repository, url, commit, filter, most })
    }

    fn broken(&self, error: &git2::Error) -> EngineError {
        EngineError::new(ErrorKind::SourceUnavailable, format!("cannot read commit {} of {}", self.commit, self.url))
            .detail(error.message())
    }

    fn uri(&self, path: &Path) -> String {
        format!("{}#{}", self.url, percent_encode(path.as_os_str().as_bytes(), ENCODED))
    }

    fn list_tree(
        &self,
        tree: &Tree<'_>,
        directory: &Path,
        listing: &mut Listing,
        pending: &mut Vec<(PathBuf, Oid)>,
    ) -> Result<(), git2::Error> {
        let objects = self.repository.odb()?;
        for entry in tree {
            let path = directory.join(OsStr::from_bytes(entry.name_bytes()));
            match entry.kind() {
                Some(ObjectType::Tree) if self.filter.enters(&path) => pending.push((path, entry.id())),
                Some(ObjectType::Tree) => {}
                _ if !self.filter.selects(&path) => {}
                Some(ObjectType::Blob) if !is_link(entry.filemode()) => match objects.read_header(entry.id()) {
                    Ok((size, _)) => listing.items.push(Item {
                        uri: self.uri(&path),
                        name: path.to_string_lossy().into_owned(),
                        size: size as u64,
                        validator: Some(entry.id().to_string()),
                        locator: Locator::Blob(entry.id()),
                    }),
                    Err(error) => {
                        listing.failures.push(fetch_failure(&self.uri(&path), object_message(&error), None));
                    }
                },
                _ => listing.skipped += 1,
            }
        }
        Ok(())
    }
}

impl Source for Git {
    fn list(&mut self) -> Result<Listing, EngineError> {
        let mut listing = Listing {
            items: vec![],
            failures: vec![],
            complete: true,
            skipped: 0,
            commit: Some(self.commit.to_string()),
        };
        let root = self.repository.find_commit(self.commit).map_err(|e| self.broken(&e))?.tree_id();
        let mut pending = vec![(PathBuf::new(), root)];
        let mut entries = 0;
        while let Some((directory, id)) = pending.pop() {
            if directory.components().count() > MAX_DEPTH {
                return Err(too_much(&self.url, format!("directories nested more than {MAX_DEPTH} deep")));
            }
            let listed = self.repository.find_tree(id).and_then(|tree| {
                entries += tree.len();
                if entries > MAX_ENTRIES {
                    return Ok(());
                }
                self.list_tree(&tree, &directory, &mut listing, &mut pending)
            });
            if entries > MAX_ENTRIES {
                return Err(too_much(&self.url, format!("more than {MAX_ENTRIES} files and directories")));
            }
            if let Err(error) = listed {
                if directory == Path::new("") {
                    return Err(self.broken(&error));
                }
                listing.complete = false;
                listing.failures.push(fetch_failure(&self.uri(&directory), object_message(&error), None));
            }
        }
        listing.items.sort_by(|a, b| a.uri.cmp(&b.uri));
        listing.failures.sort_by(|a, b| a.uri.cmp(&b.uri));
        Ok(listing)
    }

    fn fetch(&mut self, item: &Item, _known: Option<&Known>) -> Result<Fetched, Failure> {
        let Locator::Blob(id) = item.locator else {
            return Err(fetch_failure(&item.uri, "not an item of this source", None));
        };
        let read = || {
            let objects = self.repository.odb()?;
            let (size, _) = objects.read_header(id)?;
            if size as u64 > self.most {
                return Ok(Err(too_large(&item.uri, size as u64, self.most)));
            }
            let bytes = objects.read(id)?.data().to_vec();
            let validator = item.validator.clone();
            Ok(Ok(Fetched::Content(Content { bytes, validator, ..Content::default() })))
        };
        read().unwrap_or_else(|error: git2::Error| Err(fetch_failure(&item.uri, object_message(&error), None)))
    }
}

fn is_link(mode: i32) -> bool {
    mode & 0o170_000 == 0o120_000
}

fn object_message(error: &git2::Error) -> String {
    format!("cannot be read from the repository: {}", error.message())
}

fn too_much(url: &str, what: String) -> EngineError {
    EngineError::new(ErrorKind::LimitExceeded, format!("the repository {url} has {what}"))
        .hint("Select less of it with \"paths\" and \"excludePaths\".")
}

fn open_local(path: &Path) -> Result<git2::Repository, EngineError> {
    std::fs::read_dir(path).map_err(|e| root::unusable(path, &e))?;
    git2::Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, [] as [&OsStr; 0]).map_err(|error| {
        let path = path.display();
        if error.code() == ErrorCode::NotFound {
            EngineError::new(ErrorKind::SourceUnavailable, format!("\"{path}\" is not a git repository"))
                .hint("Give the folder that contains \".git\", or that is a bare repository.")
        } else {
            EngineError::new(ErrorKind::SourceUnavailable, format!("cannot open the git repository \"{path}\""))
                .detail(error.message())
        }
    })
}

/// The commit that is pinned, else the branch's last.
fn find_commit(repository: &git2::Repository, url: &str, spec: &GitSpec) -> Result<Oid, EngineError> {
    let unavailable = |message: String| EngineError::new(ErrorKind::SourceUnavailable, message);
    if let Some(pin) = &spec.commit {
        return match repository.find_commit_by_prefix(pin) {
            Ok(commit) => Ok(commit.id()),
            Err(e) if e.code() == ErrorCode::Ambiguous => {
                Err(unavailable(format!("more than one object of {url} begins with \"{pin}\""))
                    .hint("Give more digits of the commit."))
            }
            Err(e) => Err(unavailable(format!("there is no commit \"{pin}\" in {url}")).detail(e.message())),
        };
    }
    let tip = repository
        .find_branch(&spec.branch, BranchType::Local)
        .and_then(|branch| branch.get().peel_to_commit())
        .map(|commit| commit.id());
    tip.map_err(|_| {
        let branches = repository.branches(Some(BranchType::Local)).into_iter().flatten().flatten();
        no_branch(url, &spec.branch, branches.filter_map(|(branch, _)| branch.name().ok().flatten().map(Into::into)))
    })
}

fn no_branch(url: &str, branch: &str, existing: impl Iterator<Item = String>) -> EngineError {
    const SHOWN: usize = 10;
    let mut names: Vec<String> = existing.collect();
    names.sort();
    let hint = if names.is_empty() {
        "The repository has no branches: it is empty.".into()
    } else if names.len() > SHOWN {
        format!("Branches: {}, and {} more.", names[..SHOWN].join(", "), names.len() - SHOWN)
    } else {
        format!("Branches: {}.", names.join(", "))
    };
    EngineError::new(ErrorKind::SourceUnavailable, format!("there is no branch \"{branch}\" in {url}")).hint(hint)
}

/// The error for a remote repository that cannot be had.
fn unreachable(url: &str, error: &git2::Error) -> EngineError {
    let failed = EngineError::new(ErrorKind::SourceUnavailable, format!("cannot clone {url}")).detail(error.message());
    match (error.code(), error.class()) {
        (ErrorCode::Auth, _) => {
            failed.hint("The server asks for credentials: is the repository private, or its URL misspelt?")
        }
        (ErrorCode::Certificate, _) | (_, ErrorClass::Ssl) => {
            failed.hint("The server's certificate could not be verified.")
        }
        (ErrorCode::Timeout, _) => failed.hint("The server did not answer in time."),
        (_, ErrorClass::Net | ErrorClass::Os) => {
            failed.hint("Check the host's name, and that the database server may connect to it.")
        }
        (_, ErrorClass::Http) => failed.hint("Check the repository's URL."),
        _ => failed,
    }
}
