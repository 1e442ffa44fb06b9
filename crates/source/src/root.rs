//! Reads a folder without ever leaving it.
//!
//! Paths are walked one component at a time from an open descriptor of the folder. No component may
//! be a symbolic link, so a link that appears between listing and fetching is an error. A link that
//! was listed is resolved first, and its target is walked if it is inside the folder.
//!
//! Only regular files are opened: opening a device or a pipe can block or have side effects.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rag_protocol::{EngineError, ErrorKind, ingest::Failure};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, open, openat, statat};

use crate::{FetchedContent, fetch_failure, too_large};

const HINT: &str = "The path is on the database server. The operating system user that runs \
                    PostgreSQL must be able to read it.";

pub struct Root {
    /// As the user wrote it. Uris begin with it.
    path: PathBuf,
    /// Without symbolic links. The targets of links are compared with it.
    canonical: PathBuf,
    directory: OwnedFd,
}

/// One entry of a directory.
pub struct Entry {
    pub name: OsString,
    pub kind: FileType,
}

/// Identifies a version of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Version {
    pub size: u64,
    /// Size, modification time, inode change time and inode number. `None` if the file changed
    /// within [`Self::RESOLUTION`]: another change could leave the same validator.
    pub validator: Option<String>,
}

impl Version {
    /// More than the coarsest resolution of times in file systems: 2 s (FAT).
    const RESOLUTION: Duration = Duration::from_secs(3);

    fn of(stat: &Stat) -> Self {
        let changed =
            UNIX_EPOCH + Duration::from_secs(stat.st_mtime.max(stat.st_ctime).max(0) as u64);
        let is_old = SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|age| age > Self::RESOLUTION);
        let validator = format!(
            "{} {}.{:09} {}.{:09} {}",
            stat.st_size,
            stat.st_mtime,
            stat.st_mtime_nsec,
            stat.st_ctime,
            stat.st_ctime_nsec,
            stat.st_ino
        );
        Self {
            size: stat.st_size as u64,
            validator: is_old.then_some(validator),
        }
    }
}

impl Root {
    pub fn open(path: &Path) -> Result<Self, EngineError> {
        let path: PathBuf = path.components().collect();
        let canonical = path.canonicalize().map_err(|e| unusable(&path, &e))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            open(&canonical, flags, Mode::empty()).map_err(|e| unusable(&path, &e.into()))?;
        Ok(Self {
            path,
            canonical,
            directory,
        })
    }

    /// Returns the uri of a path below the folder.
    pub fn uri(&self, below: &Path) -> String {
        uri(&self.path.join(below))
    }

    /// Returns the entries of a directory below the folder, unordered.
    pub fn entries(&self, below: &Path) -> io::Result<Vec<Entry>> {
        let directory = self.directory(below)?;
        let mut entries = vec![];
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind(&stat(&directory, Path::new(&name))?),
                known => known,
            };
            entries.push(Entry { name, kind });
        }
        Ok(entries)
    }

    /// Returns the version of a file below the folder, or `None` if it is not a regular file.
    pub fn version(&self, below: &Path) -> io::Result<Option<Version>> {
        let (directory, name) = self.parent(below)?;
        let stat = stat(&directory, &name)?;
        Ok((kind(&stat) == FileType::RegularFile).then(|| Version::of(&stat)))
    }

    /// Returns the target of a symbolic link as a path below the folder. Returns `None` if the
    /// target does not exist, or is the folder or outside of it.
    pub fn resolve(&self, link: &Path) -> Option<PathBuf> {
        let target = self.canonical.join(link).canonicalize().ok()?;
        let below = target.strip_prefix(&self.canonical).ok()?;
        (below != Path::new("")).then(|| below.into())
    }

    /// Reads a regular file below the folder.
    pub fn read(&self, below: &Path, uri: &str, max_bytes: u64) -> Result<FetchedContent, Failure> {
        self.bytes(below, uri, max_bytes)
            .unwrap_or_else(|e| Err(fetch_failure(uri, unreadable(&e), hint(&e))))
    }

    fn bytes(
        &self,
        below: &Path,
        uri: &str,
        max_bytes: u64,
    ) -> io::Result<Result<FetchedContent, Failure>> {
        let (directory, name) = self.parent(below)?;
        let before = stat(&directory, &name)?;
        if kind(&before) != FileType::RegularFile {
            return Ok(Err(fetch_failure(
                uri,
                "it is no longer a regular file",
                None,
            )));
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&directory, &name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Err(fetch_failure(
                uri,
                "it is no longer a regular file",
                None,
            )));
        }
        if metadata.len() > max_bytes {
            return Ok(Err(too_large(uri, metadata.len(), max_bytes)));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        // the file may grow while it is read
        file.take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > max_bytes {
            return Ok(Err(too_large(uri, bytes.len() as u64, max_bytes)));
        }
        let version = Version::of(&before);
        // a file that changed meanwhile is read again by the next run
        let is_same =
            version == Version::of(&stat(&directory, &name)?) && version.size == bytes.len() as u64;
        let validator = version.validator.filter(|_| is_same);
        Ok(Ok(FetchedContent {
            bytes,
            validator,
            ..FetchedContent::default()
        }))
    }

    /// Opens the parent directory of a path. Returns it with the last component.
    fn parent(&self, below: &Path) -> io::Result<(OwnedFd, PathBuf)> {
        let name = below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((
            self.directory(below.parent().unwrap_or(Path::new("")))?,
            name.into(),
        ))
    }

    fn directory(&self, below: &Path) -> io::Result<OwnedFd> {
        let mut directory = self.directory.try_clone()?;
        for component in below.components() {
            let Component::Normal(name) = component else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            directory = openat(&directory, name, flags, Mode::empty())?;
        }
        Ok(directory)
    }
}

/// Returns `file://` and the percent-encoded path.
pub fn uri(path: &Path) -> String {
    url::Url::from_file_path(path).map_or_else(|()| path.to_string_lossy().into_owned(), Into::into)
}

/// Returns the error for a folder or file that a source names and that could not be opened.
pub fn unusable(path: &Path, error: &io::Error) -> EngineError {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => EngineError::new(
            ErrorKind::FileNotFound,
            format!("\"{path}\" does not exist"),
        ),
        io::ErrorKind::NotADirectory => EngineError::new(
            ErrorKind::WrongFileType,
            format!("\"{path}\" is not a folder"),
        ),
        io::ErrorKind::PermissionDenied => EngineError::new(
            ErrorKind::PermissionDenied,
            format!("could not read \"{path}\": permission denied"),
        ),
        _ => EngineError::new(ErrorKind::Io, format!("could not read \"{path}\""))
            .detail(error.to_string()),
    }
    .hint(HINT)
}

/// Returns the message for a file or directory that could not be read.
pub fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it was removed after it was listed".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => format!("could not be read: {error}"),
    }
}

pub fn hint(error: &io::Error) -> Option<&'static str> {
    (error.kind() == io::ErrorKind::PermissionDenied)
        .then_some("The operating system user that runs PostgreSQL must be able to read it.")
}

fn stat(directory: &OwnedFd, name: &Path) -> io::Result<Stat> {
    Ok(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
