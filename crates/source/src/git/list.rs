//! Lists the tree of a commit, and those of its submodules.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use git2::{ObjectType, Oid, Tree};
use rag_protocol::{EngineError, ErrorKind, skipped::SkippedFiles};

use super::{
    Git,
    lfs::Lfs,
    object_message,
    submodule::{self, MAX_SUBMODULES, Submodule},
};
use crate::{Listing, Locator, SourceItem, fetch_failure, filter::Verdict, item_failure};

/// Limit on the entries of a commit. A few objects can describe a tree of billions of files ("git
/// bomb").
const MAX_ENTRIES: usize = 2_000_000;
/// Limit on the nesting of directories.
const MAX_DEPTH: usize = 256;

/// What is left to list.
#[derive(Default)]
struct Pending {
    folders: Vec<(PathBuf, Oid)>,
    /// The number of the submodule that `folders` are in.
    within: Option<usize>,
    /// Submodules with their commits, each with the number of the one that it is in.
    submodules: Vec<(PathBuf, Oid, Option<usize>)>,
}

impl Git {
    fn reads_submodules(&self) -> bool {
        self.access.spec.submodules && self.clone.is_some()
    }

    pub(super) fn try_list(&mut self) -> Result<Listing, EngineError> {
        let mut listing = Listing {
            items: vec![],
            failures: vec![],
            complete: true,
            skipped: SkippedFiles::default(),
            commit: Some(self.commit.to_string()),
        };
        self.submodules.clear();
        self.unread_submodules = 0;
        let mut pending = Pending::default();
        let mut entries = 0;
        pending
            .folders
            .push((PathBuf::new(), self.root_of(self.commit)?));
        self.list_folders(&mut listing, &mut pending, &mut entries)?;
        while let Some((path, commit, parent)) = pending.submodules.pop() {
            match self.open_submodule(&path, commit, parent) {
                Ok(root) => {
                    pending.within = Some(self.submodules.len() - 1);
                    pending.folders.push((path, root));
                    self.list_folders(&mut listing, &mut pending, &mut entries)?;
                }
                Err(error) => {
                    listing.complete = false;
                    self.unread_submodules += 1;
                    listing.failures.push(item_failure(&self.uri(&path), error));
                }
            }
        }
        listing.items.sort_by(|a, b| a.uri.cmp(&b.uri));
        listing.failures.sort_by(|a, b| a.uri.cmp(&b.uri));
        Ok(listing)
    }

    fn root_of(&self, commit: Oid) -> Result<Oid, EngineError> {
        let found = self.repository.find_commit(commit);
        found
            .map(|commit| commit.tree_id())
            .map_err(|e| self.broken(&e))
    }

    /// Fetches a submodule. Returns its root.
    fn open_submodule(
        &mut self,
        path: &Path,
        commit: Oid,
        parent: Option<usize>,
    ) -> Result<Oid, EngineError> {
        if self.submodules.len() >= MAX_SUBMODULES {
            return Err(too_much(
                &self.url,
                format!("more than {MAX_SUBMODULES} submodules"),
            ));
        }
        let failed = |reason: &str| {
            let message = format!("could not read the submodule: {reason}");
            EngineError::new(ErrorKind::SourceUnavailable, message)
        };
        let access = {
            let (access, folder, repository, own) = match parent {
                Some(parent) => {
                    let parent = &self.submodules[parent];
                    let folder = parent.path.as_path();
                    (&parent.access, folder, &parent.repository, parent.commit)
                }
                None => (&self.access, Path::new(""), &self.repository, self.commit),
            };
            let root = repository.find_commit(own).and_then(|commit| commit.tree());
            let root = root.map_err(|e| self.broken(&e))?;
            let below = path.strip_prefix(folder).unwrap_or(path);
            let url = submodule::url_of(repository, &root, below);
            let url = url.ok_or_else(|| failed(".gitmodules has no URL for it"))?;
            access.to_submodule(&url, commit)?
        };
        let clone = self
            .clone
            .as_ref()
            .ok_or_else(|| failed("the repository is no clone"))?;
        let (repository, commit) = clone.fetch_submodule(&access)?;
        let lfs = access
            .spec
            .lfs
            .then(|| Lfs::new(&access, repository.commondir()));
        let root = repository
            .find_commit(commit)
            .map(|commit| commit.tree_id());
        let root = root.map_err(|e| failed(e.message()))?;
        let submodule = Submodule {
            path: path.into(),
            url: access.spec.repository.url().unwrap_or_default(),
            repository,
            commit,
            access,
            lfs,
        };
        self.submodules.push(submodule);
        Ok(root)
    }

    fn list_folders(
        &self,
        listing: &mut Listing,
        pending: &mut Pending,
        entries: &mut usize,
    ) -> Result<(), EngineError> {
        while let Some((directory, id)) = pending.folders.pop() {
            if directory.components().count() > MAX_DEPTH {
                return Err(too_much(
                    &self.url,
                    format!("directories nested more than {MAX_DEPTH} deep"),
                ));
            }
            let repository = self.repository_of(pending.within);
            let listed = repository.find_tree(id).and_then(|tree| {
                *entries += tree.len();
                if *entries > MAX_ENTRIES {
                    return Ok(());
                }
                self.list_tree(&tree, &directory, listing, pending)
            });
            if *entries > MAX_ENTRIES {
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
        Ok(())
    }

    fn list_tree(
        &self,
        tree: &Tree<'_>,
        directory: &Path,
        listing: &mut Listing,
        pending: &mut Pending,
    ) -> Result<(), git2::Error> {
        let objects = self.repository_of(pending.within).odb()?;
        for entry in tree {
            let path = directory.join(OsStr::from_bytes(entry.name_bytes()));
            if entry.kind() == Some(ObjectType::Commit) && self.reads_submodules() {
                if self.filter.enters(&path) {
                    pending.submodules.push((path, entry.id(), pending.within));
                }
                continue;
            }
            if entry.kind() == Some(ObjectType::Tree) {
                if self.filter.enters(&path) {
                    pending.folders.push((path, entry.id()));
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

fn is_link(mode: i32) -> bool {
    mode & 0o170_000 == 0o120_000
}

fn too_much(url: &str, what: String) -> EngineError {
    EngineError::new(
        ErrorKind::LimitExceeded,
        format!("the repository {url} has {what}"),
    )
    .hint("Select fewer files with \"paths\" and \"excludePaths\".")
}
