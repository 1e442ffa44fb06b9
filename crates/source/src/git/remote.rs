//! A repository on the web: a bare clone with what is needed of it, brought up to date.
//!
//! ```text
//!  ls-refs ──▶ wanted commit ── in the clone? ──yes─────────────────────────▶ read
//!                                   └──no──▶ fetch, shallow ── in it now? ──▶ read
//!                                                                  └──no────▶ damaged: once more, from nothing
//! ```
//!
//! The server is asked first in any case, with the source's own credentials: a clone that another
//! source has made says nothing to one that may not read the repository. A pack holds what the last
//! commit has and the clone lacks, so an unchanged branch costs one request and a changed one the
//! bytes of its changes. Where the branch has been rewritten the same holds: nothing depends on the
//! commit of the last run.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use git2::{
    AutotagOption, Direction, ErrorClass, ErrorCode, FetchOptions, Oid, Remote, RemoteCallbacks,
    RemoteHead, Repository,
};
use rag_protocol::{EngineError, ErrorKind, ingest::Job, spec::GitSpec};

use super::{find_commit, kept::Place, no_branch, transport, transport::Session, unreadable};

/// Digits of a whole commit id (SHA-1).
const WHOLE_ID: usize = 40;
/// Where a pinned commit is kept in the clone.
const PINNED: &str = "refs/heads/pinned";
/// Bytes between two looks at the room that is left.
const STEP: usize = 128 << 10;
/// A fetch leaves a tenth of the file system free, or this where a tenth is more: the database
/// writes to it, too. Besides, libgit2 writes packs through mapped memory, and a full file system
/// would end the process with SIGBUS.
const RESERVE: u64 = 1 << 30;

/// What is wanted of a repository on the web, and the clone to get it from.
pub struct Clone {
    url: String,
    spec: GitSpec,
    session: Arc<Session>,
    place: Place,
    /// Most bytes that the clone may have.
    max_bytes: u64,
}

/// Why a clone could not be brought up to date.
enum Trouble {
    /// The server, the network or the spec is to blame.
    Failed(EngineError),
    /// The clone would be larger than the limit.
    TooLarge(EngineError),
    /// Something is wrong with what is stored.
    Damaged(git2::Error),
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl Clone {
    pub fn new(url: &str, spec: &GitSpec, job: &Job) -> Result<Self, EngineError> {
        let session = Arc::new(Session::new(url, job)?);
        // a clone of its own for each branch: its growth is that of one history
        let name = match &spec.commit {
            Some(pin) => format!("{url}\ncommit {pin}"),
            None => format!("{url}\nbranch {}", spec.branch),
        };
        let place = Place::take(&job.clones, &name, &job.work_dir)?;
        Ok(Self {
            url: url.into(),
            spec: spec.clone(),
            session,
            place,
            max_bytes: job.clones.max_clone_bytes,
        })
    }

    /// The repository with the wanted commit in it, and that commit.
    pub fn update(&self) -> Result<(Repository, Oid), EngineError> {
        match self.place.state() {
            None => self.anew(),
            Some(fresh) => match self.try_update(fresh) {
                Ok(Some(updated)) => Ok(updated),
                // with what former fetches have left it may be too large, and by itself not
                Ok(None) | Err(Trouble::Damaged(_) | Trouble::TooLarge(_)) => self.anew(),
                Err(Trouble::Failed(error)) => Err(error),
            },
        }
    }

    /// The same, with everything fetched again.
    pub fn anew(&self) -> Result<(Repository, Oid), EngineError> {
        self.place.clear()?;
        let folder = self.place.repository();
        let repository = Repository::init_bare(&folder).map_err(|e| {
            EngineError::new(
                ErrorKind::Io,
                format!(
                    "cannot make the folder \"{}\" for a clone",
                    folder.display()
                ),
            )
            .detail(e.message())
        })?;
        let fetched = self
            .connect(&repository)
            .and_then(|mut remote| self.fetch(&repository, &mut remote));
        let fetched = fetched.and_then(|()| self.find(&repository));
        let commit = fetched.map_err(|trouble| match trouble {
            Trouble::Failed(error) | Trouble::TooLarge(error) => error,
            Trouble::Damaged(error)
                if matches!(error.class(), ErrorClass::Os | ErrorClass::Filesystem) =>
            {
                EngineError::new(
                    ErrorKind::Io,
                    format!("the clone of {} cannot be written", self.url),
                )
                .detail(error.message())
            }
            Trouble::Damaged(error) => {
                unreadable(&error, format!("what {} has sent cannot be read", self.url))
            }
        })?;
        self.place.finish(None)?;
        Ok((repository, commit))
    }

    /// `None` where it is better to begin anew.
    fn try_update(&self, fresh: u64) -> Result<Option<(Repository, Oid)>, Trouble> {
        let repository =
            Repository::open_bare(self.place.repository()).map_err(Trouble::Damaged)?;
        let mut remote = self.connect(&repository)?;
        let commit = match self.present(&repository, &remote)? {
            Some(commit) => Some(commit),
            None if self.place.has_outgrown(fresh) => None,
            None => {
                self.place.begin()?;
                let fetched = self.fetch(&repository, &mut remote);
                if let Ok(()) | Err(Trouble::Failed(_)) = fetched {
                    self.place.finish(Some(fresh))?;
                }
                fetched?;
                // what is not there now although it was sent is damaged
                self.find(&repository).ok()
            }
        };
        drop(remote);
        Ok(commit.map(|commit| (repository, commit)))
    }

    /// The wanted commit, if nothing needs to be fetched for it.
    fn present(
        &self,
        repository: &Repository,
        remote: &Remote<'_>,
    ) -> Result<Option<Oid>, Trouble> {
        let commit = match &self.spec.commit {
            Some(_) => find_commit(repository, &self.url, &self.spec).ok(),
            None => Some(self.tip(remote.list().map_err(|e| self.trouble(e))?)?),
        };
        Ok(commit.filter(|commit| is_readable(repository, *commit).is_ok()))
    }

    fn find(&self, repository: &Repository) -> Result<Oid, Trouble> {
        let commit = find_commit(repository, &self.url, &self.spec)?;
        is_readable(repository, commit).map_err(Trouble::Damaged)?;
        Ok(commit)
    }

    /// The last commit of the branch, as the server says.
    fn tip(&self, heads: &[RemoteHead<'_>]) -> Result<Oid, EngineError> {
        let branches = || {
            heads
                .iter()
                .filter_map(|h| Some((name(h)?.strip_prefix("refs/heads/")?, h.oid())))
        };
        branches()
            .find(|(branch, _)| *branch == self.spec.branch)
            .map(|(_, tip)| tip)
            .ok_or_else(|| {
                no_branch(
                    &self.url,
                    &self.spec.branch,
                    branches().map(|(branch, _)| branch.into()),
                )
            })
    }

    fn connect<'r>(&self, repository: &'r Repository) -> Result<Remote<'r>, Trouble> {
        let mut remote = repository
            .remote_anonymous(&self.url)
            .map_err(|e| self.trouble(e))?;
        transport::within(&self.session, || remote.connect(Direction::Fetch))
            .map_err(|e| self.trouble(e))?;
        Ok(remote)
    }

    /// The last commit of the branch; or, for a pinned commit, that commit alone where a branch or
    /// tag has it or the server gives out single commits, else all branches and tags with their
    /// history.
    fn fetch<'r>(
        &self,
        repository: &'r Repository,
        remote: &mut Remote<'r>,
    ) -> Result<(), Trouble> {
        let Some(pin) = &self.spec.commit else {
            self.tip(remote.list().map_err(|e| self.trouble(e))?)?;
            return self.download(remote, &[branch_refspec(&self.spec.branch)], 1);
        };
        let named = remote.list().map_err(|e| self.trouble(e))?.iter();
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
                // not the time to ask for more
                Err(Trouble::Failed(error)) if error.kind == ErrorKind::Throttled => {
                    return Err(error.into());
                }
                Err(Trouble::TooLarge(error)) => return Err(Trouble::TooLarge(error)),
                _ => {}
            }
        }
        *remote = self.connect(repository)?;
        self.download(
            remote,
            &[branch_refspec("*"), "+refs/tags/*:refs/tags/*".into()],
            0,
        )
    }

    /// Fetches with a history of `depth` commits; 0 means all.
    fn download(
        &self,
        remote: &mut Remote<'_>,
        refspecs: &[String],
        depth: i32,
    ) -> Result<(), Trouble> {
        self.check_room()?;
        let left = self.max_bytes.saturating_sub(self.place.bytes());
        let is_too_large = Cell::new(false);
        let full = Cell::new(None);
        let mut looked_at = 0;
        let mut callbacks = RemoteCallbacks::new();
        callbacks.transfer_progress(|progress| {
            if progress.received_bytes() as u64 > left {
                is_too_large.set(true);
                return false;
            }
            if progress.received_bytes() >= looked_at + STEP {
                looked_at = progress.received_bytes();
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
            return Err(Trouble::TooLarge(self.too_large()));
        }
        match (fetched, full.take()) {
            (_, Some(error)) => Err(Trouble::Failed(error)),
            (Err(error), None) => Err(self.trouble(error)),
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
            .hint("Raise rag.max_clone_size if the database server has room for the repository.")
    }

    fn check_room(&self) -> Result<(), EngineError> {
        let place = self.place.repository();
        let Ok(system) = rustix::fs::statvfs(&place) else {
            return Ok(());
        };
        if has_room(
            system.f_bavail.saturating_mul(system.f_frsize),
            system.f_blocks.saturating_mul(system.f_frsize),
        ) {
            return Ok(());
        }
        Err(EngineError::new(
            ErrorKind::LimitExceeded,
            format!("there is no room for a clone of {}", self.url),
        )
        .detail(format!(
            "Too little would be left of the file system of \"{}\".",
            parent(&place).display()
        ))
        .hint("Make room in the file system of the data directory, or lower rag.clone_cache_size."))
    }

    fn trouble(&self, error: git2::Error) -> Trouble {
        if let Some(error) = self.session.take_error() {
            return Trouble::Failed(error);
        }
        let is_remote = matches!(
            error.class(),
            ErrorClass::Net | ErrorClass::Http | ErrorClass::Callback
        ) || error.code() == ErrorCode::User;
        if !is_remote {
            return Trouble::Damaged(error);
        }
        let message = format!("cannot fetch from {}", self.url);
        Trouble::Failed(
            EngineError::new(ErrorKind::SourceUnavailable, message).detail(error.message()),
        )
    }
}

fn branch_refspec(branch: &str) -> String {
    format!("+refs/heads/{branch}:refs/heads/{branch}")
}

/// The name of a reference; `None` where it is not UTF-8, which the library answers with a panic.
fn name<'r>(head: &'r RemoteHead<'_>) -> Option<&'r str> {
    catch_unwind(AssertUnwindSafe(|| head.name())).ok()
}

fn is_readable(repository: &Repository, commit: Oid) -> Result<(), git2::Error> {
    repository.find_commit(commit)?.tree().map(drop)
}

fn has_room(free: u64, total: u64) -> bool {
    free >= RESERVE.min(total / 10)
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_leaves_room_for_the_database() {
        const GIB: u64 = 1 << 30;
        assert!(has_room(GIB, 1000 * GIB) && has_room(GIB / 2, 4 * GIB));
        assert!(!has_room(GIB - 1, 1000 * GIB) && !has_room(GIB / 4, 4 * GIB));
    }
}
