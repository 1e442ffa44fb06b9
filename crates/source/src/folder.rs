//! A folder of the database server, with everything below it.
//!
//! Hidden directories and files (`.git`, `.venv`) are left out unless a pattern of `paths` names
//! them. A symbolic link to a file inside the folder is read as that file. Other links are skipped,
//! as are devices, pipes, sockets, and files of keys and passwords, even behind a link.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rag_definition::source::{FolderSpec, PathFilter};
use rag_protocol::{
    EngineError,
    ingest::{Failure, Job, KnownVersion},
    skipped::SkippedFiles,
};
use rustix::fs::FileType;

use crate::{
    FetchOutcome, Listing, Locator, OpenReader, SkippedFile, SourceItem, SourceReader,
    fetch_failure,
    filter::{Filter, Verdict},
    root::{Entry, Root, Version, hint, unreadable},
};

struct Folder {
    root: Root,
    filter: Filter,
    max_bytes: u64,
}

impl OpenReader for FolderSpec {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        Ok(Box::new(Folder {
            filter: Filter::new(&self.filter, PathFilter::KEYS)?,
            root: Root::open(&self.path)?,
            max_bytes: job.limits.max_file_bytes,
        }))
    }
}

impl Folder {
    /// Lists one directory into `listing` and the directories below it into `pending`.
    fn list_directory(&self, directory: &Path, listing: &mut Listing, pending: &mut Vec<PathBuf>) {
        let entries = match self.root.entries(directory) {
            Ok(entries) => entries,
            Err(error) => {
                listing.complete = false;
                listing.failures.push(fetch_failure(
                    &self.root.uri(directory),
                    unreadable(&error),
                    hint(&error),
                ));
                return;
            }
        };
        for Entry { name, kind } in entries {
            let path = directory.join(&name);
            if kind == FileType::Directory {
                if self.filter.enters(&path) {
                    pending.push(path);
                }
                continue;
            }
            match (self.filter.wants(&path), kind) {
                (Verdict::Unwanted, _) => {}
                (Verdict::Secret, _) => listing.skipped.keys += 1,
                (Verdict::Wanted, FileType::RegularFile) => {
                    self.list_file(path.clone(), path, listing)
                }
                (Verdict::Wanted, FileType::Symlink) => match self.root.resolve(&path) {
                    Some(target) if !self.filter.is_withheld(&target) => {
                        self.list_file(path, target, listing)
                    }
                    Some(_) => listing.skipped.keys += 1,
                    None => listing.skipped.symbolic_links += 1,
                },
                _ => listing.skipped.devices += 1,
            }
        }
    }

    fn list_file(&self, path: PathBuf, target: PathBuf, listing: &mut Listing) {
        let uri = self.root.uri(&path);
        match self.root.version(&target) {
            Ok(Some(Version { size, validator })) => listing.items.push(SourceItem {
                uri,
                name: path.to_string_lossy().into_owned(),
                size,
                validator,
                locator: Locator::Path(path),
            }),
            Ok(None) if path == target => listing.skipped.devices += 1,
            Ok(None) => listing.skipped.symbolic_links += 1,
            Err(error) => {
                listing
                    .failures
                    .push(fetch_failure(&uri, unreadable(&error), hint(&error)))
            }
        }
    }
}

impl SourceReader for Folder {
    fn list(&mut self) -> Result<Listing, EngineError> {
        let mut listing = Listing {
            items: vec![],
            failures: vec![],
            complete: true,
            skipped: SkippedFiles::default(),
            commit: None,
        };
        let mut pending = vec![PathBuf::new()];
        while let Some(directory) = pending.pop() {
            self.list_directory(&directory, &mut listing, &mut pending);
        }
        listing
            .items
            .sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)));
        listing.failures.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
        Ok(listing)
    }

    fn fetch(
        &mut self,
        item: &SourceItem,
        _known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure> {
        let path = Path::new(std::ffi::OsStr::from_bytes(bytes(item)));
        let target = self.root.resolve(path).unwrap_or_else(|| path.into());
        // the link may have been replaced since it was listed
        if target != path && self.filter.is_withheld(&target) {
            return Ok(FetchOutcome::Skipped(SkippedFile::Keys));
        }
        self.root
            .read(&target, &item.uri, self.max_bytes)
            .map(FetchOutcome::Content)
    }
}

fn bytes(item: &SourceItem) -> &[u8] {
    match &item.locator {
        Locator::Path(path) => path.as_os_str().as_bytes(),
        _ => &[],
    }
}
