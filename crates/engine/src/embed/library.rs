//! A shared library that is loaded with the first model that needs it.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use rag_protocol::{EngineError, ErrorKind};

/// A library, and what loading it returns.
#[derive(Debug)]
pub struct Library<T> {
    name: &'static str,
    hint: &'static str,
    path: PathBuf,
    loaded: OnceLock<T>,
    loading: Mutex<()>,
}

impl<T> Library<T> {
    /// Loads nothing yet, so that a wrong path is an error of a request and visible to its user.
    /// `hint` is the HINT of errors.
    pub fn new(name: &'static str, hint: &'static str, path: PathBuf) -> Self {
        Self {
            name,
            hint,
            path,
            loaded: OnceLock::new(),
            loading: Mutex::new(()),
        }
    }

    pub fn is_installed(&self) -> bool {
        self.path.is_file()
    }

    /// Returns what the first call of `load` has returned that did not fail.
    ///
    /// # Errors
    /// `FileNotFound`, or `Unsupported` with the error of `load`. A later call tries again.
    pub fn get(&self, load: impl FnOnce(&Path) -> Result<T, String>) -> Result<&T, EngineError> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let _only_one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.loaded.get().is_none() {
            let _ = self.loaded.set(self.load(load)?);
        }
        self.loaded.get().ok_or_else(|| {
            let message = format!("{} is no longer loaded", self.name);
            EngineError::new(ErrorKind::Internal, message)
        })
    }

    fn load(&self, load: impl FnOnce(&Path) -> Result<T, String>) -> Result<T, EngineError> {
        let name = self.name;
        // A relative path would be searched for beside the executable first.
        let path = std::fs::canonicalize(&self.path).map_err(|e| {
            let message = format!("could not find {name} at \"{}\"", self.path.display());
            EngineError::new(ErrorKind::FileNotFound, message)
                .detail(e.to_string())
                .hint(self.hint)
        })?;
        let loaded = load(&path).map_err(|detail| {
            let message = format!("could not load {name} from \"{}\"", path.display());
            EngineError::new(ErrorKind::Unsupported, message)
                .detail(detail)
                .hint(self.hint)
        })?;
        tracing::info!(library = %path.display(), "loaded {name}");
        Ok(loaded)
    }
}
