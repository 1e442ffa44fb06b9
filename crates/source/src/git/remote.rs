//! Updates the bare clone of a repository on the web.
//!
//! ```text
//!  ls-refs ──▶ wanted commit ── in the clone? ──yes─────────────────────────▶ read
//!                                   └──no──▶ fetch, shallow ── in it now? ──▶ read
//!                                                                  └──no────▶ fetch all again
//! ```
//!
//! The server is always asked first, with the source's own credentials, so a source cannot read the
//! clone of another source without access to the repository. A pack has the objects of the head
//! that the clone lacks: an unchanged branch costs one request, and a changed one the bytes of its
//! changes. This also holds if the branch was rewritten: nothing depends on the last run's commit.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use git2::{
    AutotagOption, BranchType, Direction, ErrorClass, ErrorCode, FetchOptions, Oid, Remote,
    RemoteCallbacks, RemoteHead, Repository,
};
use rag_definition::source::{GitSpec, Repository as Named};
use rag_protocol::{EngineError, ErrorKind, ingest::Job};

use super::{
    commit::{find_commit, no_branch, unreadable},
    http::HttpSession,
    kept::CloneFolder,
    ssh::SshSession,
    submodule::Access,
    transport::{self, GitSession},
};

/// Digits of a full commit id (SHA-1).
const WHOLE_ID: usize = 40;
/// The reference to a pinned commit in the clone.
const PINNED: &str = "refs/heads/pinned";
/// Number of bytes between two checks of the free space.
const STEP: usize = 128 << 10;
/// A fetch leaves a tenth of the file system free, at most this: the database writes to it too.
/// Besides, libgit2 writes packs through mapped memory, and a full file system would end the
/// process with SIGBUS.
const RESERVE: u64 = 1 << 30;

/// A repository on the web and its clone.
pub struct RemoteClone {
    url: String,
    spec: GitSpec,
    session: Arc<dyn GitSession>,
    place: Arc<CloneFolder>,
    /// Maximum size of the clone.
    max_bytes: u64,
}

/// Why a clone could not be brought up to date.
enum UpdateError {
    /// Caused by the server, the network or the spec.
    Failed(EngineError),
    /// The clone would be larger than the limit.
    TooLarge(EngineError),
    /// The clone is corrupted.
    Corrupted(git2::Error),
}

impl From<EngineError> for UpdateError {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl RemoteClone {
    pub fn new(access: &Access, job: &Job) -> Result<Self, EngineError> {
        let spec = &access.spec;
        let url = spec.repository.url().unwrap_or_default();
        let session = session(access)?;
        // a clone of its own for each branch: its growth is that of one history
        let name = match &spec.commit {
            Some(pin) => format!("{url}\ncommit {pin}"),
            None => format!("{url}\nbranch {}", spec.branch),
        };
        let place = CloneFolder::take(&job.clones, &name, &job.work_dir)?;
        Ok(Self {
            url,
            spec: spec.clone(),
            session,
            place: Arc::new(place),
            max_bytes: job.clones.max_clone_bytes,
        })
    }

    /// Fetches the commit of a submodule, unless it is there. Its server is asked in any case.
    /// Returns its repository, which is beside that of the clone: what one server has sent must not
    /// be read with the permission of another.
    pub fn fetch_submodule(&self, access: &Access) -> Result<(Repository, Oid), EngineError> {
        let submodule = Self {
            url: access.spec.repository.url().unwrap_or_default(),
            spec: access.spec.clone(),
            session: session(access)?,
            place: Arc::clone(&self.place),
            max_bytes: self.max_bytes,
        };
        let folder = self.place.submodule(&submodule.url);
        let former = Repository::open_bare(&folder).map_err(UpdateError::Corrupted);
        match former.and_then(|repository| submodule.update_submodule(repository)) {
            Ok(updated) => Ok(updated),
            Err(UpdateError::Corrupted(_)) => {
                let _ = std::fs::remove_dir_all(&folder);
                let new = Repository::init_bare(&folder).map_err(UpdateError::Corrupted);
                let updated = new.and_then(|repository| submodule.update_submodule(repository));
                updated.map_err(|error| submodule.failure(error))
            }
            Err(error) => Err(submodule.failure(error)),
        }
    }

    fn update_submodule(&self, repository: Repository) -> Result<(Repository, Oid), UpdateError> {
        let mut remote = self.connect(&repository)?;
        let commit = match self.present(&repository, &remote)? {
            Some(commit) => commit,
            None => {
                // what a submodule adds is no leftover of earlier fetches
                let (fresh, before) = (self.place.state(), self.place.bytes());
                self.place.begin()?;
                let fetched = self.fetch(&repository, &mut remote);
                let added = self.place.bytes().saturating_sub(before);
                self.place
                    .finish(fresh.map(|fresh| fresh.saturating_add(added)))?;
                fetched?;
                self.find(&repository)?
            }
        };
        drop(remote);
        Ok((repository, commit))
    }

    /// Updates the clone. Returns the repository and the wanted commit.
    pub fn update(&self) -> Result<(Repository, Oid), EngineError> {
        match self.place.state() {
            None => self.fetch_again(),
            Some(fresh) => match self.try_update(fresh) {
                Ok(Some(updated)) => Ok(updated),
                // without the leftovers of earlier fetches it may be small enough
                Ok(None) | Err(UpdateError::Corrupted(_) | UpdateError::TooLarge(_)) => {
                    self.fetch_again()
                }
                Err(UpdateError::Failed(error)) => Err(error),
            },
        }
    }

    /// Removes the clone and fetches everything again.
    pub fn fetch_again(&self) -> Result<(Repository, Oid), EngineError> {
        self.place.clear()?;
        let folder = self.place.repository();
        let repository = Repository::init_bare(&folder).map_err(|e| {
            EngineError::new(
                ErrorKind::Io,
                format!(
                    "could not create the folder \"{}\" for a clone",
                    folder.display()
                ),
            )
            .detail(e.message())
        })?;
        let fetched = self
            .connect(&repository)
            .and_then(|mut remote| self.fetch(&repository, &mut remote));
        let fetched = fetched.and_then(|()| self.find(&repository));
        let commit = fetched.map_err(|error| self.failure(error))?;
        self.place.finish(None)?;
        Ok((repository, commit))
    }

    fn failure(&self, error: UpdateError) -> EngineError {
        match error {
            UpdateError::Failed(error) | UpdateError::TooLarge(error) => error,
            UpdateError::Corrupted(error)
                if matches!(error.class(), ErrorClass::Os | ErrorClass::Filesystem) =>
            {
                EngineError::new(
                    ErrorKind::Io,
                    format!("could not write the clone of {}", self.url),
                )
                .detail(error.message())
            }
            UpdateError::Corrupted(error) => unreadable(
                &error,
                format!("could not read the objects that {} has sent", self.url),
            ),
        }
    }

    /// Returns `None` if everything must be fetched again.
    fn try_update(&self, fresh: u64) -> Result<Option<(Repository, Oid)>, UpdateError> {
        let repository =
            Repository::open_bare(self.place.repository()).map_err(UpdateError::Corrupted)?;
        let mut remote = self.connect(&repository)?;
        let commit = match self.present(&repository, &remote)? {
            Some(commit) => Some(commit),
            None if self.place.has_outgrown(fresh) => None,
            None => {
                self.place.begin()?;
                let fetched = self.fetch(&repository, &mut remote);
                if let Ok(()) | Err(UpdateError::Failed(_)) = fetched {
                    self.place.finish(Some(fresh))?;
                }
                fetched?;
                // if the commit was sent but is missing, the clone is corrupted
                self.find(&repository).ok()
            }
        };
        drop(remote);
        Ok(commit.map(|commit| (repository, commit)))
    }

    /// Returns the wanted commit if the clone has it.
    fn present(
        &self,
        repository: &Repository,
        remote: &Remote<'_>,
    ) -> Result<Option<Oid>, UpdateError> {
        let commit = match &self.spec.commit {
            Some(_) => find_commit(repository, &self.url, &self.spec).ok(),
            None => Some(
                self.tip(remote.list().map_err(|e| self.update_error(e))?)?
                    .0,
            ),
        };
        Ok(commit.filter(|commit| is_readable(repository, *commit).is_ok()))
    }

    fn find(&self, repository: &Repository) -> Result<Oid, UpdateError> {
        let commit = find_commit(repository, &self.url, &self.spec)?;
        is_readable(repository, commit).map_err(UpdateError::Corrupted)?;
        Ok(commit)
    }

    /// Returns the head of the branch on the server, or of the tag of that name if there is no such
    /// branch: its commit, and the name of the reference.
    fn tip(&self, heads: &[RemoteHead<'_>]) -> Result<(Oid, String), EngineError> {
        let branches = || {
            heads
                .iter()
                .filter_map(|h| Some((name(h)?.strip_prefix("refs/heads/")?, h.oid())))
        };
        let of = |reference: &str| {
            let head = heads.iter().find(|head| name(head) == Some(reference));
            head.map(|head| head.oid())
        };
        let branch = format!("refs/heads/{}", self.spec.branch);
        let tag = format!("refs/tags/{}", self.spec.branch);
        // the commit of an annotated tag
        let peeled = of(&format!("{tag}^{{}}"));
        of(&branch)
            .map(|tip| (tip, branch))
            .or_else(|| peeled.or_else(|| of(&tag)).map(|tip| (tip, tag)))
            .ok_or_else(|| {
                no_branch(
                    &self.url,
                    &self.spec.branch,
                    branches().map(|(branch, _)| branch.into()),
                )
            })
    }

    fn connect<'r>(&self, repository: &'r Repository) -> Result<Remote<'r>, UpdateError> {
        let mut remote = repository
            .remote_anonymous(&self.url)
            .map_err(|e| self.update_error(e))?;
        transport::within(&self.session, || remote.connect(Direction::Fetch))
            .map_err(|e| self.update_error(e))?;
        Ok(remote)
    }

    /// Fetches the head of the branch or tag. A pinned commit is fetched alone if it is the head of
    /// a branch or tag, or if the server sends single commits. Otherwise all branches and tags are
    /// fetched with their history.
    fn fetch<'r>(
        &self,
        repository: &'r Repository,
        remote: &mut Remote<'r>,
    ) -> Result<(), UpdateError> {
        let Some(pin) = &self.spec.commit else {
            let (_, reference) = self.tip(remote.list().map_err(|e| self.update_error(e))?)?;
            if reference.starts_with("refs/tags/")
                && let Ok(mut former) = repository.find_branch(&self.spec.branch, BranchType::Local)
            {
                // the server has no such branch any more
                former.delete().map_err(UpdateError::Corrupted)?;
            }
            return self.download(remote, &[format!("+{reference}:{reference}")], 1);
        };
        let named = remote.list().map_err(|e| self.update_error(e))?.iter();
        let named = named
            .filter(|head| head.oid().to_string().starts_with(pin))
            .find_map(name);
        let alone = match named {
            Some(name) => Some(name.to_owned()),
            None => (pin.len() == WHOLE_ID).then(|| pin.clone()),
        };
        if let Some(alone) = alone {
            match self.download(remote, &[format!("+{alone}:{PINNED}")], 1) {
                Ok(()) if self.find(repository).is_ok() => return Ok(()),
                // a larger request would be refused too
                Err(UpdateError::Failed(error)) if error.kind == ErrorKind::Throttled => {
                    return Err(error.into());
                }
                Err(UpdateError::TooLarge(error)) => return Err(UpdateError::TooLarge(error)),
                _ => {}
            }
        }
        *remote = self.connect(repository)?;
        self.download(
            remote,
            &[
                "+refs/heads/*:refs/heads/*".into(),
                "+refs/tags/*:refs/tags/*".into(),
            ],
            0,
        )
    }

    /// Fetches with a history of `depth` commits; 0 means all.
    fn download(
        &self,
        remote: &mut Remote<'_>,
        refspecs: &[String],
        depth: i32,
    ) -> Result<(), UpdateError> {
        self.check_room()?;
        let left = self.max_bytes.saturating_sub(self.place.bytes());
        let is_too_large = Cell::new(false);
        let full = Cell::new(None);
        let mut checked_at = 0;
        let mut callbacks = RemoteCallbacks::new();
        callbacks.transfer_progress(|progress| {
            if progress.received_bytes() as u64 > left {
                is_too_large.set(true);
                return false;
            }
            if progress.received_bytes() >= checked_at + STEP {
                checked_at = progress.received_bytes();
                full.set(self.check_room().err());
            }
            let error = full.take();
            let goes_on = error.is_none();
            full.set(error);
            goes_on
        });
        let mut options = FetchOptions::new();
        options
            .depth(depth)
            .download_tags(AutotagOption::None)
            .update_fetchhead(false)
            .remote_callbacks(callbacks);
        let fetched = transport::within(&self.session, || {
            remote.fetch(refspecs, Some(&mut options), None)
        });
        drop(options);
        if is_too_large.get() {
            return Err(UpdateError::TooLarge(self.too_large()));
        }
        match (fetched, full.take()) {
            (_, Some(error)) => Err(UpdateError::Failed(error)),
            (Err(error), None) => Err(self.update_error(error)),
            (Ok(()), None) => Ok(()),
        }
    }

    fn too_large(&self) -> EngineError {
        let message = format!(
            "the clone of {} would be larger than rag.max_clone_size",
            self.url
        );
        EngineError::new(ErrorKind::LimitExceeded, message)
            .detail(format!("The limit is {} bytes.", self.max_bytes))
            .hint("Raise rag.max_clone_size if the database server has enough disk space.")
    }

    fn check_room(&self) -> Result<(), EngineError> {
        let place = self.place.repository();
        let Ok(system) = rustix::fs::statvfs(&place) else {
            return Ok(());
        };
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        let required = reserve(system.f_blocks.saturating_mul(system.f_frsize));
        if free >= required {
            return Ok(());
        }
        Err(EngineError::new(
            ErrorKind::LimitExceeded,
            format!("not enough disk space for a clone of {}", self.url),
        )
        .detail(format!(
            "A fetch must leave {required} bytes free in the file system of \"{}\", and {free} \
             bytes are available.",
            parent(&place).display()
        ))
        .hint(
            "Free space in the file system of the data directory, or lower rag.clone_cache_size.",
        ))
    }

    fn update_error(&self, error: git2::Error) -> UpdateError {
        if let Some(error) = self.session.error().take() {
            return UpdateError::Failed(error);
        }
        let is_remote = matches!(
            error.class(),
            ErrorClass::Net | ErrorClass::Http | ErrorClass::Callback
        ) || error.code() == ErrorCode::User;
        if !is_remote {
            return UpdateError::Corrupted(error);
        }
        let message = format!("could not fetch from {}", self.url);
        UpdateError::Failed(
            EngineError::new(ErrorKind::SourceUnavailable, message).detail(error.message()),
        )
    }
}

fn session(access: &Access) -> Result<Arc<dyn GitSession>, EngineError> {
    let (credentials, network) = (access.credentials.as_ref(), &access.network);
    Ok(match &access.spec.repository {
        Named::Ssh(ssh) => Arc::new(SshSession::new(ssh, credentials, network)?),
        web => {
            let url = web.url().unwrap_or_default();
            Arc::new(HttpSession::new(&url, credentials, network)?)
        }
    })
}

/// Returns the name of a reference, or `None` if it is not UTF-8: the library panics then.
fn name<'r>(head: &'r RemoteHead<'_>) -> Option<&'r str> {
    catch_unwind(AssertUnwindSafe(|| head.name())).ok()
}

fn is_readable(repository: &Repository, commit: Oid) -> Result<(), git2::Error> {
    repository.find_commit(commit)?.tree().map(drop)
}

/// Returns the number of bytes that a fetch leaves free in a file system of a size.
fn reserve(total: u64) -> u64 {
    RESERVE.min(total / 10)
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_leaves_free_space_for_the_database() {
        const GIB: u64 = 1 << 30;
        assert_eq!(reserve(1000 * GIB), GIB);
        assert_eq!(reserve(4 * GIB), 4 * GIB / 10);
    }
}
