//! The folder of a clone: kept between runs, or a folder of the job.
//!
//! The crate `rag_clones` describes the folders and their users. Here a job locks one for its
//! source and releases it.
//!
//! The file `state` is removed before anything is fetched and written when the clone is complete. A
//! job that is killed leaves a folder without it, and the next job fetches everything again. The
//! kernel releases the lock when the process ends for any reason.
//!
//! All kept clones together are limited to `max_bytes`. After each fetch and at the end of a job,
//! folders are removed in the order of their last use, but never a locked one. A repository may be
//! larger than the limit: its folder is removed at the end of its job. If another job holds the
//! folder longer than [`LOCK_TIMEOUT`], or nothing is to be kept, the clone is made in the job's
//! own folder.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use rag_clones::{KEY_DIGITS, User, folders, lock, make, remove, state};
use rag_protocol::{EngineError, ErrorKind, ingest::Clones};

/// Maximum wait for a clone that another job uses: enough for a run with few changes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The folder of the repositories of submodules.
const SUBMODULES: &str = "submodules";
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Fetches add packs and never remove unused ones. A clone with more packs than this is fetched
/// again.
const MAX_PACKS: usize = 50;
/// A clone is also fetched again when it has more than twice its first size, plus this.
const GROWTH_FLOOR: u64 = 64 << 20;

/// The folder of one clone. No other job uses it while this value lives.
#[derive(Debug)]
pub struct CloneFolder {
    folder: PathBuf,
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// Its descriptor holds the lock on the folder.
    _lock: File,
    clones: Clones,
}

impl CloneFolder {
    /// Takes the kept folder for `name`, or a folder in `work_dir`.
    pub fn take(clones: &Clones, name: &str, work_dir: &Path) -> Result<Self, EngineError> {
        let user = clones.user.as_deref().and_then(User::parse);
        // a source whose repository was changed releases its former clone
        let release_others = |own: Option<&Path>| {
            if let Some(user) = &user {
                rag_clones::release(&clones.dir, own, |other| other == user);
            }
        };
        if clones.max_bytes > 0
            && let Some(place) = Self::take_kept(clones, name, user.as_ref())
                .map_err(|e| unusable(&clones.dir, &e))?
        {
            release_others(Some(&place.folder));
            return Ok(place);
        }
        release_others(None);
        shrink(clones, None);
        let folder = work_dir.join("clone");
        // left by a job that was killed
        remove(&folder);
        make(&folder).map_err(|e| unusable(&folder, &e))?;
        Ok(Self { folder, kept: None })
    }

    fn take_kept(clones: &Clones, name: &str, user: Option<&User>) -> io::Result<Option<Self>> {
        let key = blake3::hash(name.as_bytes()).to_hex();
        let folder = clones.dir.join(&key[..KEY_DIGITS]);
        let started = Instant::now();
        while started.elapsed() < LOCK_TIMEOUT {
            make(&clones.dir)?;
            make(&folder)?;
            if let Some(lock) = lock(&folder)? {
                if let Ok(state) = File::options().write(true).open(state(&folder)) {
                    state.set_modified(SystemTime::now())?;
                }
                if let Some(user) = user {
                    rag_clones::claim(&folder, user)?;
                }
                let kept = Kept {
                    _lock: lock,
                    clones: clones.clone(),
                };
                return Ok(Some(Self {
                    folder,
                    kept: Some(kept),
                }));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(None)
    }

    pub fn repository(&self) -> PathBuf {
        self.folder.join("repository.git")
    }

    /// Returns the folder of the repository of a submodule.
    pub fn submodule(&self, url: &str) -> PathBuf {
        let key = blake3::hash(url.as_bytes()).to_hex();
        let name = format!("{}.git", &key[..KEY_DIGITS]);
        self.folder.join(SUBMODULES).join(name)
    }

    /// Returns the size of the clone.
    pub fn bytes(&self) -> u64 {
        bytes_below(&self.folder)
    }

    /// Returns the size of the clone when everything was fetched. Returns `None` if the clone is
    /// not complete.
    pub fn state(&self) -> Option<u64> {
        fs::read_to_string(state(&self.folder))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Marks the clone as incomplete, before it is changed.
    pub fn begin(&self) -> Result<(), EngineError> {
        match fs::remove_file(state(&self.folder)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(unusable(&self.folder, &e)),
            _ => Ok(()),
        }
    }

    /// Marks the clone as complete. `fresh` is its size when everything was fetched, unless that
    /// was now.
    pub fn finish(&self, fresh: Option<u64>) -> Result<(), EngineError> {
        let bytes = fresh.unwrap_or_else(|| bytes_below(&self.folder));
        let written = self.folder.join("state.new");
        fs::write(&written, bytes.to_string())
            .and_then(|()| fs::rename(&written, state(&self.folder)))
            .map_err(|e| unusable(&self.folder, &e))?;
        if let Some(kept) = &self.kept {
            shrink(&kept.clones, Some(&self.folder));
        }
        Ok(())
    }

    /// Returns true if fetching everything again is better than another fetch.
    pub fn has_outgrown(&self, fresh: u64) -> bool {
        let packs =
            fs::read_dir(self.repository().join("objects/pack")).map_or(0, Iterator::count) / 2;
        packs > MAX_PACKS
            || bytes_below(&self.folder) > fresh.saturating_mul(2).saturating_add(GROWTH_FLOOR)
    }

    /// Removes the clone.
    pub fn clear(&self) -> Result<(), EngineError> {
        self.begin()?;
        for folder in [self.repository(), self.folder.join(SUBMODULES)] {
            match fs::remove_dir_all(folder) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(unusable(&self.folder, &e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for CloneFolder {
    fn drop(&mut self) {
        let Some(kept) = &self.kept else {
            remove(&self.folder);
            return;
        };
        // what fails here is done at the end of the next job
        if self.state().is_none() || bytes_below(&self.folder) > kept.clones.max_bytes {
            remove(&self.folder);
        }
        shrink(&kept.clones, Some(&self.folder));
    }
}

/// Removes unlocked folders, least recently used first, until the others are within the limit.
/// Ignores errors.
fn shrink(clones: &Clones, own: Option<&Path>) {
    let mut folders: Vec<(SystemTime, PathBuf, u64)> = folders(&clones.dir)
        .into_iter()
        .map(|path| {
            let used = fs::metadata(state(&path))
                .or_else(|_| fs::metadata(&path))
                .and_then(|m| m.modified());
            let bytes = bytes_below(&path);
            (used.unwrap_or(SystemTime::UNIX_EPOCH), path, bytes)
        })
        .collect();
    folders.sort();
    let mut total: u64 = folders.iter().map(|(.., bytes)| bytes).sum();
    for (_, folder, bytes) in folders {
        if total <= clones.max_bytes {
            return;
        }
        if own != Some(&folder)
            && let Ok(Some(_lock)) = lock(&folder)
            && remove(&folder)
        {
            total -= bytes;
        }
    }
}

/// Returns the size of all files below a folder, as far as they can be read.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

fn unusable(folder: &Path, error: &io::Error) -> EngineError {
    EngineError::new(
        ErrorKind::Io,
        format!(
            "could not use the folder \"{}\" for a clone",
            folder.display()
        ),
    )
    .detail(error.to_string())
}
