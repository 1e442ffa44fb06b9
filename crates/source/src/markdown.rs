//! One file of the database server. A file of the web is read by [`crate::static_files`].

use std::{
    path::{Path, PathBuf},
    slice,
};

use rag_definition::source::{Endpoint, MarkdownSpec};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Job, KnownVersion},
    skipped::SkippedFiles,
};

use crate::{
    FetchOutcome, Listing, Locator, OpenReader, SourceItem, SourceReader,
    root::{Root, Version, unusable, uri},
    static_files::StaticFiles,
};

pub struct Markdown {
    /// As the user wrote it.
    path: PathBuf,
    /// The folder of the file, after symbolic links.
    root: Root,
    /// Its name in `root`.
    file: PathBuf,
    max_bytes: u64,
}

impl OpenReader for MarkdownSpec {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        Ok(match &self.endpoint {
            Endpoint::File(path) => Box::new(Markdown::open(path, job.limits.max_file_bytes)?),
            web @ Endpoint::Web(_) => Box::new(StaticFiles::open(slice::from_ref(web), job)?),
        })
    }
}

impl Markdown {
    pub fn open(path: &Path, max_bytes: u64) -> Result<Self, EngineError> {
        let path = path.to_owned();
        let target = path.canonicalize().map_err(|e| unusable(&path, &e))?;
        let (Some(folder), Some(file)) = (target.parent(), target.file_name()) else {
            return Err(no_file(&path));
        };
        Ok(Self {
            root: Root::open(folder)?,
            file: file.into(),
            path,
            max_bytes,
        })
    }
}

impl SourceReader for Markdown {
    fn list(&mut self) -> Result<Listing, EngineError> {
        let version = self
            .root
            .version(&self.file)
            .map_err(|e| unusable(&self.path, &e))?;
        let Version { size, validator } = version.ok_or_else(|| no_file(&self.path))?;
        let item = SourceItem {
            uri: uri(&self.path),
            name: self
                .path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            size,
            validator,
            locator: Locator::Path(self.file.clone()),
        };
        Ok(Listing {
            items: vec![item],
            failures: vec![],
            complete: true,
            skipped: SkippedFiles::default(),
            commit: None,
        })
    }

    fn fetch(
        &mut self,
        item: &SourceItem,
        _known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure> {
        self.root
            .read(&self.file, &item.uri, self.max_bytes)
            .map(FetchOutcome::Content)
    }
}

fn no_file(path: &Path) -> EngineError {
    EngineError::new(
        ErrorKind::WrongFileType,
        format!("\"{}\" is not a regular file", path.display()),
    )
    .hint("To index all files of a folder, use a source of kind \"folder\".")
}
