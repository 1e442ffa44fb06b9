//! Bundles in folders of the server.
//!
//! A path is walked one component at a time, from an open descriptor of the allowed folder that it
//! is in. No component below that folder may be a symbolic link. Files are opened without following
//! links and without blocking, and must be regular files.
//!
//! A bundle is written into a temporary folder beside its target. When all files are on the disk,
//! the folder is renamed. An existing target is never replaced. A writer that is killed leaves its
//! temporary folder. The next one in the same parent removes it.

use std::{
    ffi::OsString,
    fs::File,
    io::Write,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, fstat, fstatvfs,
        fsync, mkdirat, open, openat, renameat_with, unlinkat,
    },
    path::Arg,
};
use uuid::Uuid;

use crate::{BundleError, BundleErrorKind, BundleFile};

/// The beginning of the names of temporary folders.
const TEMPORARY: &str = ".rag-export-";
/// A temporary folder is locked by its writer. One that is not locked is removed after this time:
/// its writer may be about to lock it.
const TIME_TO_LOCK: Duration = Duration::from_secs(60);
/// How temporary folders are opened.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A place for a bundle: an open folder, and a name in it.
pub struct Place {
    parent: OwnedFd,
    name: OsString,
    shown: String,
}

impl Place {
    /// Finds the place of `path` below one of the allowed folders.
    ///
    /// # Errors
    /// The path is not absolute, has `..`, is in none of the folders, or a folder on the way is
    /// missing or a symbolic link.
    pub fn find(path: &str, allowed: &[PathBuf]) -> Result<Self, BundleError> {
        let shown: String = path.escape_debug().take(500).collect();
        let invalid = |why: &str| {
            BundleError::new(
                BundleErrorKind::InvalidPath,
                format!("path \"{shown}\" {why}"),
            )
        };
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err(invalid("is not absolute"));
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(invalid("contains \"..\""));
        }
        let inside = allowed
            .iter()
            .filter_map(|folder| Some((folder, path.strip_prefix(folder).ok()?)))
            .find(|(_, below)| below.file_name().is_some());
        let Some((folder, below)) = inside else {
            return Err(BundleError::new(
                BundleErrorKind::NotAllowed,
                format!("path \"{shown}\" is not in an allowed folder"),
            ));
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut parent = open(folder, flags, Mode::empty()).map_err(|e| {
            BundleError::io(&format!("open folder \"{}\"", folder.display()), &e.into())
        })?;
        for part in below.parent().unwrap_or(Path::new("")).components() {
            parent = openat(
                &parent,
                part.as_os_str(),
                flags | OFlags::NOFOLLOW,
                Mode::empty(),
            )
            .map_err(|e| {
                let part = part.as_os_str().display();
                BundleError::io(
                    &format!("open folder \"{part}\" of path \"{shown}\""),
                    &e.into(),
                )
            })?;
        }
        let name = below.file_name().unwrap_or_default().to_os_string();
        Ok(Self {
            parent,
            name,
            shown,
        })
    }

    /// Returns the number of bytes that the file system has for new files.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn available_bytes(&self) -> Result<u64, BundleError> {
        let stat = fstatvfs(&self.parent)
            .map_err(|e| BundleError::io(&format!("examine \"{}\"", self.shown), &e.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Creates the temporary folder and the files of a bundle.
    ///
    /// # Errors
    /// The target exists, or the folder is not writable.
    pub fn create(self) -> Result<FolderWriter, BundleError> {
        if rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err(self.exists());
        }
        self.remove_abandoned();
        let temporary = format!(
            "{TEMPORARY}{}",
            Uuid::from_u64_pair(unique(), unique()).simple()
        );
        mkdirat(&self.parent, &temporary, Mode::RWXU).map_err(|e| {
            BundleError::io(&format!("create folder \"{}\"", self.shown), &e.into())
        })?;
        // from here on, dropping the writer removes the folder
        let mut writer = FolderWriter {
            place: self,
            temporary,
            folder: None,
            files: vec![],
            is_finished: false,
        };
        let folder = openat(
            &writer.place.parent,
            &writer.temporary,
            FOLDER,
            Mode::empty(),
        )
        .map_err(|e| writer.failed(&e.into()))?;
        // a file system without locks has no writers to tell apart
        let _ = flock(&folder, FlockOperation::NonBlockingLockExclusive);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for file in BundleFile::ALL {
            let opened = openat(&folder, file.name(), flags, Mode::RUSR | Mode::WUSR)
                .map_err(|e| writer.failed(&e.into()))?;
            writer.files.push((file, File::from(opened)));
        }
        writer.folder = Some(folder);
        Ok(writer)
    }

    /// Removes temporary folders whose writers were killed. An export does not depend on it.
    fn remove_abandoned(&self) {
        let Ok(entries) = Dir::read_from(&self.parent) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_bytes().starts_with(TEMPORARY.as_bytes())
                && let Ok(folder) = openat(&self.parent, name, FOLDER, Mode::empty())
                && is_abandoned(&folder)
            {
                remove(&self.parent, name, Some(&folder));
            }
        }
    }

    fn exists(&self) -> BundleError {
        BundleError::new(
            BundleErrorKind::Exists,
            format!("\"{}\" already exists", self.shown),
        )
    }

    /// Opens the bundle at this place.
    ///
    /// # Errors
    /// There is none.
    pub fn open(&self) -> Result<FolderReader, BundleError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&self.parent, &self.name, flags, Mode::empty())
            .map_err(|e| BundleError::io(&format!("open folder \"{}\"", self.shown), &e.into()))?;
        Ok(FolderReader { folder })
    }
}

/// Returns true if no writer has the folder.
fn is_abandoned(folder: &OwnedFd) -> bool {
    let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else {
        return false;
    };
    let age = fstat(folder).ok().and_then(|stat| {
        now.as_secs()
            .checked_sub(u64::try_from(stat.st_mtime).ok()?)
    });
    age.is_some_and(|age| age > TIME_TO_LOCK.as_secs())
        && flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Removes a temporary folder with the files that a bundle has. Anything else in it keeps it.
fn remove(parent: &OwnedFd, name: impl Arg, folder: Option<&OwnedFd>) {
    if let Some(folder) = folder {
        for file in BundleFile::ALL {
            let _ = unlinkat(folder, file.name(), AtFlags::empty());
        }
    }
    let _ = unlinkat(parent, name, AtFlags::REMOVEDIR);
}

/// Returns a number that no other process has chosen for its folder. Nothing secret depends on it.
fn unique() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// The files of a bundle that is being written. They are removed unless [`FolderWriter::finish`]
/// succeeds.
pub struct FolderWriter {
    place: Place,
    temporary: String,
    folder: Option<OwnedFd>,
    files: Vec<(BundleFile, File)>,
    is_finished: bool,
}

impl FolderWriter {
    /// Appends to a file.
    ///
    /// # Errors
    /// The disk is full.
    pub fn write(&mut self, to: BundleFile, bytes: &[u8]) -> Result<(), BundleError> {
        let written = self
            .files
            .iter_mut()
            .find(|(file, _)| *file == to)
            .map(|(_, file)| file.write_all(bytes));
        written.unwrap_or(Ok(())).map_err(|e| {
            BundleError::io(
                &format!("write {} of \"{}\"", to.name(), self.place.shown),
                &e,
            )
        })
    }

    /// Writes a file to the disk.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn sync(&mut self, of: BundleFile) -> Result<(), BundleError> {
        let file = self.files.iter().find(|(file, _)| *file == of);
        file.map_or(Ok(()), |(_, file)| file.sync_all())
            .map_err(|e| self.failed(&e))
    }

    /// Gives the folder its name. All files were written to the disk with [`FolderWriter::sync`].
    ///
    /// # Errors
    /// The target exists now, or the disk fails.
    pub fn finish(mut self) -> Result<(), BundleError> {
        self.files.clear();
        if let Some(folder) = &self.folder {
            fsync(folder).map_err(|e| self.failed(&e.into()))?;
        }
        let parent = &self.place.parent;
        renameat_with(
            parent,
            &self.temporary,
            parent,
            &self.place.name,
            RenameFlags::NOREPLACE,
        )
        .map_err(|e| match e {
            rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY => self.place.exists(),
            _ => self.failed(&e.into()),
        })?;
        self.is_finished = true;
        fsync(parent).map_err(|e| self.failed(&e.into()))
    }

    fn failed(&self, error: &std::io::Error) -> BundleError {
        BundleError::io(&format!("write folder \"{}\"", self.place.shown), error)
    }
}

impl Drop for FolderWriter {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // an error while removing must not hide the first one
        remove(&self.place.parent, &self.temporary, self.folder.as_ref());
    }
}

/// A bundle in a folder.
pub struct FolderReader {
    folder: OwnedFd,
}

impl FolderReader {
    /// Opens a file.
    ///
    /// # Errors
    /// It is missing, or not a regular file.
    pub fn open(&self, file: BundleFile) -> Result<File, BundleError> {
        let name = file.name();
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.folder, name, flags, Mode::empty())
            .map_err(|e| BundleError::io(&format!("open {name}"), &e.into()))?;
        let stat = rustix::fs::fstat(&opened)
            .map_err(|e| BundleError::io(&format!("examine {name}"), &e.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(BundleError::new(
                BundleErrorKind::WrongFileType,
                format!("{name} of the bundle is not a regular file"),
            ));
        }
        Ok(File::from(opened))
    }
}
