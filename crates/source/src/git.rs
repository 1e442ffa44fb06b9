//! One commit of a git repository.
//!
//! ```text
//!  https://… ─▶ remote: ask the server ─▶ kept: clone of earlier runs ─fetch changes─▶ commit
//!  /srv/….git ──────────────────────────── opened in place, only read ───────────────▶ commit
//!
//!  commit ─▶ tree ─▶ items, with the ids of their blobs as validators ─▶ blobs
//! ```
//!
//! A run lists the whole tree of the new head. The id of a file's blob is its validator: a file
//! that is stored with the same blob id is not read, and a document that is no longer listed is
//! removed. The result is that of a diff from the last commit, and as few files are read. It also
//! holds after a force-push, when the last commit is gone, and when the filters have changed. A
//! renamed file is a new uri and a removed one. It keeps its embeddings, since equal texts have
//! equal embeddings.
//!
//! Files are read from the object store and nothing is checked out. So no hook, filter or attribute
//! of the repository runs, and none of its paths is created. Submodules, symbolic links and the
//! pointers of Git LFS are skipped.
//!
//! A repository on the server is opened in place and only read. Its owner does not matter, since
//! only superusers may name one and nothing in it is executed. The git configuration of the user
//! and of the machine is ignored.
//!
//! * [`remote`]: updates a clone;
//! * [`kept`]: the folders of clones, and how long they are kept;
//! * [`transport`]: git's smart protocol over the guarded HTTP client.

mod kept;
mod options;
mod remote;
mod transport;

use std::{
    collections::HashSet,
    ffi::OsStr,
    hash::{BuildHasher, RandomState},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use git2::{BranchType, ErrorCode, ObjectType, Oid, RepositoryOpenFlags, Tree};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use rag_definition::source::{GitSpec, PathFilter, Repository};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Job, KnownVersion},
    skipped::SkippedFiles,
};
use serde_json::{Map, Value};

use crate::{
    FetchOutcome, FetchedContent, Listing, Locator, OpenReader, SkippedFile, SourceItem,
    SourceReader, fetch_failure,
    filter::{Filter, Verdict},
    item_failure, root, too_large,
};

/// The characters of a path that are percent-encoded after the `#` of a uri.
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
/// Limit on the entries of a commit. A few objects can describe a tree of billions of files ("git
/// bomb").
const MAX_ENTRIES: usize = 2_000_000;
/// Limit on the nesting of directories.
const MAX_DEPTH: usize = 256;

/// The beginning of a Git LFS pointer, and its maximum size.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";
const LFS_POINTER_BYTES: usize = 1024;

struct Git {
    repository: git2::Repository,
    /// `None` for a repository on the server.
    clone: Option<remote::RemoteClone>,
    /// The clone was corrupted and has been fetched again.
    is_renewed: bool,
    /// The beginning of uris, and the name of the repository in messages.
    url: String,
    /// The branch that `commit` is the head of. `None` if the commit is pinned.
    branch: Option<String>,
    commit: Oid,
    filter: Filter,
    known: StoredVersions,
    max_bytes: u64,
}

impl OpenReader for GitSpec {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        Ok(Box::new(Git::open(self, job)?))
    }
}

impl Git {
    fn open(spec: &GitSpec, job: &Job) -> Result<Self, EngineError> {
        options::set_once()?;
        let filter = Filter::new(&spec.filter, PathFilter::KEYS)?;
        let (clone, url, (repository, commit)) = match &spec.repository {
            Repository::Https(url) => {
                let clone = remote::RemoteClone::new(url, spec, job)?;
                let updated = clone.update()?;
                (Some(clone), url.clone(), updated)
            }
            Repository::Local(path) => {
                let (repository, url) = (open_local(path)?, root::uri(path));
                let commit = find_commit(&repository, &url, spec)?;
                (None, url, (repository, commit))
            }
        };
        let branch = spec.commit.is_none().then(|| spec.branch.clone());
        let (known, max_bytes) = (StoredVersions::new(job), job.limits.max_file_bytes);
        Ok(Self {
            repository,
            clone,
            is_renewed: false,
            url,
            branch,
            commit,
            filter,
            known,
            max_bytes,
        })
    }

    /// Fetches a corrupted clone again, once. Returns false if that cannot help.
    fn renew(&mut self) -> Result<bool, EngineError> {
        let Some(clone) = self.clone.as_ref().filter(|_| !self.is_renewed) else {
            return Ok(false);
        };
        self.is_renewed = true;
        // open packs are shared by name: the corrupted ones must be closed
        self.repository = nothing().map_err(|e| self.broken(&e))?;
        (self.repository, self.commit) = clone.fetch_again()?;
        Ok(true)
    }

    fn broken(&self, error: &git2::Error) -> EngineError {
        EngineError::new(
            ErrorKind::SourceUnavailable,
            format!("could not read commit {} of {}", self.commit, self.url),
        )
        .detail(error.message())
    }

    fn uri(&self, path: &Path) -> String {
        format!(
            "{}#{}",
            self.url,
            percent_encode(path.as_os_str().as_bytes(), ENCODED)
        )
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
            if entry.kind() == Some(ObjectType::Tree) {
                if self.filter.enters(&path) {
                    pending.push((path, entry.id()));
                }
                continue;
            }
            match (self.filter.wants(&path), entry.kind()) {
                (Verdict::Unwanted, _) => {}
                (Verdict::Wanted, Some(ObjectType::Blob)) if !is_link(entry.filemode()) => {
                    let (uri, blob) = (self.uri(&path), entry.id());
                    let validator = blob.to_string();
                    // reading the size takes as long as all the rest; it is not needed for a stored
                    // version
                    let is_known = self.known.contains(&uri, &validator);
                    match if is_known {
                        Ok(0)
                    } else {
                        objects.read_header(blob).map(|(size, _)| size as u64)
                    } {
                        Ok(size) => listing.items.push(SourceItem {
                            uri,
                            name: path.to_string_lossy().into_owned(),
                            size,
                            validator: Some(validator),
                            locator: Locator::Blob(blob),
                        }),
                        Err(error) => {
                            listing
                                .failures
                                .push(fetch_failure(&uri, object_message(&error), None))
                        }
                    }
                }
                (Verdict::Secret, _) => listing.skipped.keys += 1,
                (Verdict::Wanted, Some(ObjectType::Commit)) => listing.skipped.submodules += 1,
                (Verdict::Wanted, Some(ObjectType::Blob)) => listing.skipped.symbolic_links += 1,
                (Verdict::Wanted, _) => listing.skipped.others += 1,
            }
        }
        Ok(())
    }
}

impl Git {
    fn try_list(&self) -> Result<Listing, EngineError> {
        let mut listing = Listing {
            items: vec![],
            failures: vec![],
            complete: true,
            skipped: SkippedFiles::default(),
            commit: Some(self.commit.to_string()),
        };
        let root = self
            .repository
            .find_commit(self.commit)
            .map_err(|e| self.broken(&e))?
            .tree_id();
        let mut pending = vec![(PathBuf::new(), root)];
        let mut entries = 0;
        while let Some((directory, id)) = pending.pop() {
            if directory.components().count() > MAX_DEPTH {
                return Err(too_much(
                    &self.url,
                    format!("directories nested more than {MAX_DEPTH} deep"),
                ));
            }
            let listed = self.repository.find_tree(id).and_then(|tree| {
                entries += tree.len();
                if entries > MAX_ENTRIES {
                    return Ok(());
                }
                self.list_tree(&tree, &directory, &mut listing, &mut pending)
            });
            if entries > MAX_ENTRIES {
                return Err(too_much(
                    &self.url,
                    format!("more than {MAX_ENTRIES} files and directories"),
                ));
            }
            if let Err(error) = listed {
                if directory == Path::new("") {
                    return Err(self.broken(&error));
                }
                listing.complete = false;
                listing.failures.push(fetch_failure(
                    &self.uri(&directory),
                    object_message(&error),
                    None,
                ));
            }
        }
        listing.items.sort_by(|a, b| a.uri.cmp(&b.uri));
        listing.failures.sort_by(|a, b| a.uri.cmp(&b.uri));
        Ok(listing)
    }

    fn read(
        &self,
        blob: Oid,
        item: &SourceItem,
    ) -> Result<Result<FetchOutcome, Failure>, git2::Error> {
        let objects = self.repository.odb()?;
        let (size, _) = objects.read_header(blob)?;
        if size as u64 > self.max_bytes {
            return Ok(Err(too_large(&item.uri, size as u64, self.max_bytes)));
        }
        let bytes = objects.read(blob)?.data().to_vec();
        if bytes.len() <= LFS_POINTER_BYTES && bytes.starts_with(LFS_POINTER) {
            return Ok(Ok(FetchOutcome::Skipped(SkippedFile::LfsPointer)));
        }
        let (validator, metadata) = (item.validator.clone(), self.metadata(blob, item));
        Ok(Ok(FetchOutcome::Content(FetchedContent {
            bytes,
            validator,
            metadata,
            ..FetchedContent::default()
        })))
    }

    fn metadata(&self, blob: Oid, item: &SourceItem) -> Map<String, Value> {
        let encoded = item.uri.get(self.url.len() + 1..).unwrap_or_default();
        let path = percent_decode_str(encoded)
            .decode_utf8()
            .map_or_else(|_| encoded.into(), String::from);
        let mut metadata = Map::new();
        let mut set = |key: &str, value: String| metadata.insert(key.into(), Value::String(value));
        set("repository", self.url.clone());
        set("path", path);
        set("commit", self.commit.to_string());
        set("blob", blob.to_string());
        if let Some(branch) = &self.branch {
            set("branch", branch.clone());
        }
        metadata
    }
}

impl SourceReader for Git {
    fn list(&mut self) -> Result<Listing, EngineError> {
        let listed = self.try_list();
        let is_corrupted = match &listed {
            Ok(listing) => !listing.failures.is_empty(),
            Err(error) => error.kind == ErrorKind::SourceUnavailable,
        };
        if is_corrupted && self.renew()? {
            self.try_list()
        } else {
            listed
        }
    }

    fn fetch(
        &mut self,
        item: &SourceItem,
        _known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure> {
        let Locator::Blob(blob) = item.locator else {
            return Err(fetch_failure(&item.uri, "not an item of this source", None));
        };
        let failed =
            |error: git2::Error| Err(fetch_failure(&item.uri, object_message(&error), None));
        match self.read(blob, item) {
            Ok(read) => read,
            Err(error) => match self.renew() {
                Ok(true) => self.read(blob, item).unwrap_or_else(failed),
                Ok(false) => failed(error),
                Err(error) => Err(item_failure(&item.uri, error)),
            },
        }
    }
}

/// Returns a repository without objects.
fn nothing() -> Result<git2::Repository, git2::Error> {
    git2::Repository::from_odb(git2::Odb::new()?)
}

/// The stored versions as hashes of uri and validator.
struct StoredVersions {
    hasher: RandomState,
    hashes: HashSet<u64>,
}

impl StoredVersions {
    fn new(job: &Job) -> Self {
        let hasher = RandomState::new();
        let versions = job
            .known
            .iter()
            .filter_map(|(uri, known)| Some((uri.as_str(), known.validator.as_deref()?)));
        let hashes = versions.map(|version| hasher.hash_one(version)).collect();
        Self { hasher, hashes }
    }

    fn contains(&self, uri: &str, validator: &str) -> bool {
        self.hashes
            .contains(&self.hasher.hash_one((uri, validator)))
    }
}

fn is_link(mode: i32) -> bool {
    mode & 0o170_000 == 0o120_000
}

fn object_message(error: &git2::Error) -> String {
    format!("could not be read from the repository: {}", error.message())
}

fn too_much(url: &str, what: String) -> EngineError {
    EngineError::new(
        ErrorKind::LimitExceeded,
        format!("the repository {url} has {what}"),
    )
    .hint("Select fewer files with \"paths\" and \"excludePaths\".")
}

fn open_local(path: &Path) -> Result<git2::Repository, EngineError> {
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

fn unreadable(error: &git2::Error, message: String) -> EngineError {
    let unreadable =
        EngineError::new(ErrorKind::SourceUnavailable, message).detail(error.message());
    if error.message().contains("object format 'sha256'") {
        return unreadable.hint("Only repositories with SHA-1 object ids are supported.");
    }
    unreadable
}

/// Returns the pinned commit, or else the head of the branch, or of the tag of that name if there
/// is no such branch. The id of a tag stands for its commit.
fn find_commit(
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

fn no_branch(url: &str, branch: &str, existing: impl Iterator<Item = String>) -> EngineError {
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
