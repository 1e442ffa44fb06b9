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
//! of the repository runs, and none of its paths is created. Symbolic links are skipped, and
//! so are submodules unless the source asks for them.
//!
//! A repository on the server is opened in place and only read. Its owner does not matter, since
//! only superusers may name one and nothing in it is executed. The git configuration of the user
//! and of the machine is ignored.
//!
//! * [`commit`]: finds the commit;
//! * [`list`]: lists its tree;
//! * [`submodule`]: submodules, whose repositories are beside that of the clone;
//! * [`remote`]: updates a clone;
//! * [`kept`]: the folders of clones, and how long they are kept;
//! * [`transport`]: the connections of libgit2: [`http`], or [`ssh`];
//! * [`lfs`]: the files of Git LFS.

mod commit;
mod http;
mod kept;
mod lfs;
mod list;
mod options;
mod remote;
mod ssh;
mod submodule;
mod transport;

use std::{
    collections::HashSet,
    ffi::OsStr,
    hash::{BuildHasher, RandomState},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use git2::Oid;
use percent_encoding::{percent_decode_str, percent_encode};
use rag_definition::source::{GitSpec, PathFilter, Repository};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Job, KnownVersion},
};
use serde_json::{Map, Value};

use self::{
    commit::{find_commit, open_local},
    lfs::{Lfs, is_pointer},
    submodule::{Access, Submodule},
};
use crate::{
    ENCODED, FetchOutcome, FetchedContent, Listing, Locator, OpenReader, SkippedFile, SourceItem,
    SourceReader, fetch_failure, filter::Filter, item_failure, root, too_large,
};

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
    access: Access,
    /// `None` if pointers of Git LFS are skipped.
    lfs: Option<Lfs>,
    /// Those that were listed.
    submodules: Vec<Submodule>,
    /// Number of submodules that could not be listed.
    unread_submodules: usize,
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
        let access = Access {
            spec: spec.clone(),
            credentials: job.credentials.clone(),
            network: job.network.clone(),
            max_file_bytes: job.limits.max_file_bytes,
        };
        let (clone, url, (repository, commit)) = match &spec.repository {
            remote @ (Repository::Https(_) | Repository::Ssh(_)) => {
                let url = remote.url().unwrap_or_default();
                let clone = remote::RemoteClone::new(&access, job)?;
                let updated = clone.update()?;
                (Some(clone), url, updated)
            }
            Repository::Local(path) => {
                let (repository, url) = (open_local(path)?, root::uri(path));
                let commit = find_commit(&repository, &url, spec)?;
                (None, url, (repository, commit))
            }
        };
        let branch = spec.commit.is_none().then(|| spec.branch.clone());
        let lfs = spec.lfs.then(|| Lfs::new(&access, repository.commondir()));
        Ok(Self {
            repository,
            clone,
            is_renewed: false,
            url,
            branch,
            commit,
            filter,
            known: StoredVersions::new(job),
            access,
            lfs,
            submodules: vec![],
            unread_submodules: 0,
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

    /// Returns the number of the submodule that an item is in.
    fn submodule_of(&self, item: &SourceItem) -> Option<usize> {
        let path = self.path_of(item);
        let depth = |number: &usize| self.submodules[*number].path.components().count();
        let around = (0..self.submodules.len())
            .filter(|number| path.starts_with(&self.submodules[*number].path));
        around.max_by_key(depth)
    }

    /// Returns the repository of a submodule, or that of the source.
    fn repository_of(&self, submodule: Option<usize>) -> &git2::Repository {
        submodule.map_or(&self.repository, |number| {
            &self.submodules[number].repository
        })
    }

    fn path_of(&self, item: &SourceItem) -> PathBuf {
        let encoded = item.uri.get(self.url.len() + 1..).unwrap_or_default();
        let bytes: Vec<u8> = percent_decode_str(encoded).collect();
        PathBuf::from(OsStr::from_bytes(&bytes))
    }

    fn read(
        &mut self,
        blob: Oid,
        item: &SourceItem,
    ) -> Result<Result<FetchOutcome, Failure>, git2::Error> {
        let submodule = self.submodule_of(item);
        let max_bytes = self.access.max_file_bytes;
        let mut bytes = {
            let objects = self.repository_of(submodule).odb()?;
            let (size, _) = objects.read_header(blob)?;
            if size as u64 > max_bytes {
                return Ok(Err(too_large(&item.uri, size as u64, max_bytes)));
            }
            objects.read(blob)?.data().to_vec()
        };
        if is_pointer(&bytes) {
            let lfs = match submodule {
                Some(number) => &mut self.submodules[number].lfs,
                None => &mut self.lfs,
            };
            bytes = match lfs.as_mut().map(|lfs| lfs.fetch(&bytes, &item.uri)) {
                None => return Ok(Ok(FetchOutcome::Skipped(SkippedFile::LfsPointer))),
                Some(Err(failure)) => return Ok(Err(failure)),
                Some(Ok(bytes)) => bytes,
            };
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
        if let Some(number) = self.submodule_of(item) {
            set("submodule", self.submodules[number].url.clone());
        }
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
            Ok(listing) => listing.failures.len() > self.unread_submodules,
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

fn object_message(error: &git2::Error) -> String {
    format!("could not be read from the repository: {}", error.message())
}
