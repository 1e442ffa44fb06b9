//! One file of the server. One on the web is a list of one of [`crate::static_files`].

use std::path::{Path, PathBuf};

use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Known},
};

use crate::{
    Fetched, Item, Listing, Locator, Source,
    root::{Root, Version, unusable, uri},
};

pub struct Markdown {
    /// As the user wrote it.
    path: PathBuf,
    /// The folder of the file that the path leads to; its name there.
    root: Root,
    file: PathBuf,
    most: u64,
}

impl Markdown {
    pub fn open(path: &Path, most: u64) -> Result<Self, EngineError> {
        let path = path.to_owned();
        let target = path.canonicalize().map_err(|e| unusable(&path, &e))?;
        let (Some(folder), Some(file)) = (target.parent(), target.file_name()) else {
            return Err(no_file(&path));
        };
        Ok(Self {
            root: Root::open(folder)?,
            file: file.into(),
            path,
            most,
        })
    }
}

impl Source for Markdown {
    fn list(&mut self) -> Result<Listing, EngineError> {
        let version = self
            .root
            .version(&self.file)
            .map_err(|e| unusable(&self.path, &e))?;
        let Version { size, validator } = version.ok_or_else(|| no_file(&self.path))?;
        let item = Item {
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
            skipped: 0,
            commit: None,
        })
    }

    fn fetch(&mut self, item: &Item, _known: Option<&Known>) -> Result<Fetched, Failure> {
        self.root
            .read(&self.file, &item.uri, self.most)
            .map(Fetched::Content)
    }
}

fn no_file(path: &Path) -> EngineError {
    EngineError::new(
        ErrorKind::WrongFileType,
        format!("\"{}\" is not a plain file", path.display()),
    )
    .hint("To index all files of a folder, use a source of kind \"folder\".")
}
