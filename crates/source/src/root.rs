//! A folder that is read without ever leaving it.
//!
//! Paths are walked one component at a time from an open descriptor of the folder, and no component
//! may be a symbolic link, so a link that is put in the way between listing and fetching is an
//! error, not a way out. A link that is itself listed is resolved first, and walked like any other
//! path if it leads to a place inside.
//!
//! Only plain files are opened: opening a device or a pipe can block, or do something.

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

use crate::{Content, fetch_failure, too_large};

const HINT: &str = "The path is on the database server, and the operating system user that runs PostgreSQL must be able to read it.";

pub struct Root {
    /// As the user wrote it: uris are made of it.
    path: PathBuf,
    /// Without symbolic links: resolved links are compared with it.
    canonical: PathBuf,
    directory: OwnedFd,
}

/// One entry of a directory.
pub struct Entry {
    pub name: OsString,
    pub kind: FileType,
}

/// What tells a file from the one that was there before.
#[derive(Debug, PartialEq, Eq)]
pub struct Version {
    pub size: u64,
    /// Size, time of the last change of its bytes and of its inode, and the inode; `None` so
    /// shortly after a change that another one could leave the same.
    pub validator: Option<String>,
}

impl Version {
    /// File systems tell times apart that differ by so much: 2 s is the coarsest (FAT).
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

    /// The uri of a path below the folder.
    pub fn uri(&self, below: &Path) -> String {
        uri(&self.path.join(below))
    }

    /// The entries of a directory below the folder, in no order.
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

    /// What tells whether a plain file below the folder has changed; `None` where there is no such
    /// file.
    pub fn version(&self, below: &Path) -> io::Result<Option<Version>> {
        let (directory, name) = self.parent(below)?;
        let stat = stat(&directory, &name)?;
        Ok((kind(&stat) == FileType::RegularFile).then(|| Version::of(&stat)))
    }

    /// Where a symbolic link leads, below the folder; `None` if it leads nowhere, out of it or to
    /// itself.
    pub fn resolve(&self, link: &Path) -> Option<PathBuf> {
        let target = self.canonical.join(link).canonicalize().ok()?;
        let below = target.strip_prefix(&self.canonical).ok()?;
        (below != Path::new("")).then(|| below.into())
    }

    /// The bytes of a plain file below the folder.
    pub fn read(&self, below: &Path, uri: &str, most: u64) -> Result<Content, Failure> {
        self.bytes(below, uri, most)
            .unwrap_or_else(|e| Err(fetch_failure(uri, unreadable(&e), hint(&e))))
    }

    fn bytes(&self, below: &Path, uri: &str, most: u64) -> io::Result<Result<Content, Failure>> {
        let (directory, name) = self.parent(below)?;
        let before = stat(&directory, &name)?;
        if kind(&before) != FileType::RegularFile {
            return Ok(Err(fetch_failure(uri, "no longer a plain file", None)));
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&directory, &name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Err(fetch_failure(uri, "no longer a plain file", None)));
        }
        if metadata.len() > most {
            return Ok(Err(too_large(uri, metadata.len(), most)));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        // It may be growing while it is read.
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Ok(Err(too_large(uri, bytes.len() as u64, most)));
        }
        let version = Version::of(&before);
        // a file that was written to or replaced meanwhile is looked at again next time
        let is_same =
            version == Version::of(&stat(&directory, &name)?) && version.size == bytes.len() as u64;
        let validator = version.validator.filter(|_| is_same);
        Ok(Ok(Content {
            bytes,
            validator,
            ..Content::default()
        }))
    }

    /// The open parent directory of a path, and its last component.
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

/// `file://` and the percent-encoded path.
pub fn uri(path: &Path) -> String {
    url::Url::from_file_path(path).map_or_else(|()| path.to_string_lossy().into_owned(), Into::into)
}

/// The error for a folder or file that a source names and that cannot be used.
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
            format!("cannot read \"{path}\": permission denied"),
        ),
        _ => EngineError::new(ErrorKind::Io, format!("cannot read \"{path}\""))
            .detail(error.to_string()),
    }
    .hint(HINT)
}

/// What to say of a file or directory that cannot be read.
pub fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "gone since it was listed".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => format!("cannot be read: {error}"),
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
