//! Where a clone lives: in a folder that is kept between runs, or in the job's own.
//!
//! `rag_clones` says how the folders look and who uses them: here a job takes one for its source,
//! and gives it back.
//!
//! `state` goes before anything is fetched and comes back when all of it is there, so that a job
//! that is killed in the middle leaves a folder without it, and the next job begins anew. The
//! kernel gives up the lock of a process that ends, however it ends.
//!
//! What is kept is bounded by `max_bytes` in sum: whenever a job has fetched and when it ends,
//! folders are removed in the order of their last use, never one that is locked. That does not
//! forbid a repository that is larger alone: its folder goes with its job. Where another job holds
//! the folder for longer than [`PATIENCE`], or nothing is to be kept at all, the clone is made in
//! the job's own folder.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use rag_clones::{KEY_DIGITS, User, folders, lock, make, remove, state};
use rag_protocol::{EngineError, ErrorKind, ingest::Clones};

/// Longest wait for a clone that another job uses: enough for a run with few changes.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);
/// Fetches add packs and never remove what is no longer wanted. A clone is made anew when it has
/// more packs than this,
const MOST_PACKS: usize = 50;
/// or more than twice the bytes it had at first, and so many more.
const GROWTH_FLOOR: u64 = 64 << 20;

/// The folder of one clone, this job's alone while it lives.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// Its descriptor holds the lock on the folder.
    _lock: File,
    clones: Clones,
}

impl Place {
    /// The place of what `name` names: a kept one, or one in `work_dir`.
    pub fn take(clones: &Clones, name: &str, work_dir: &Path) -> Result<Self, EngineError> {
        let user = clones.user.as_deref().and_then(User::parse);
        // a source that names another repository than before leaves its former clone
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
        // of a job that was killed
        remove(&folder);
        make(&folder).map_err(|e| unusable(&folder, &e))?;
        Ok(Self { folder, kept: None })
    }

    fn take_kept(clones: &Clones, name: &str, user: Option<&User>) -> io::Result<Option<Self>> {
        let key = blake3::hash(name.as_bytes()).to_hex();
        let folder = clones.dir.join(&key[..KEY_DIGITS]);
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
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
            thread::sleep(POLL);
        }
        Ok(None)
    }

    pub fn repository(&self) -> PathBuf {
        self.folder.join("repository.git")
    }

    /// Bytes that the clone has now.
    pub fn bytes(&self) -> u64 {
        bytes_below(&self.folder)
    }

    /// Bytes of the clone when it was fetched anew; `None` where there is no whole clone.
    pub fn state(&self) -> Option<u64> {
        fs::read_to_string(state(&self.folder))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Says that the clone is being changed.
    pub fn begin(&self) -> Result<(), EngineError> {
        match fs::remove_file(state(&self.folder)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(unusable(&self.folder, &e)),
            _ => Ok(()),
        }
    }

    /// Says that the clone is whole; `fresh` are the bytes it had when it was fetched anew, if that
    /// was not now.
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

    /// Whether there is so much of former fetches that fetching anew is better.
    pub fn has_outgrown(&self, fresh: u64) -> bool {
        let packs =
            fs::read_dir(self.repository().join("objects/pack")).map_or(0, Iterator::count) / 2;
        packs > MOST_PACKS
            || bytes_below(&self.folder) > fresh.saturating_mul(2).saturating_add(GROWTH_FLOOR)
    }

    /// Removes the clone.
    pub fn clear(&self) -> Result<(), EngineError> {
        self.begin()?;
        match fs::remove_dir_all(self.repository()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(unusable(&self.folder, &e)),
            _ => Ok(()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(kept) = &self.kept else {
            remove(&self.folder);
            return;
        };
        // what cannot be done here is done by the next job that ends
        if self.state().is_none() || bytes_below(&self.folder) > kept.clones.max_bytes {
            remove(&self.folder);
        }
        shrink(&kept.clones, Some(&self.folder));
    }
}

/// Removes folders that nobody uses, those used longest ago first, until all fit. What cannot be
/// removed is left.
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

/// Bytes of all files below a folder, as far as it can be read.
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
        format!("cannot use the folder \"{}\" for a clone", folder.display()),
    )
    .detail(error.to_string())
}
