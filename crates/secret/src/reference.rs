//! References to values outside of the database: `env:NAME` is an environment variable of the
//! server, `file:/path` is a file on its disk.

use std::{
    ffi::OsString,
    io::{self, Read},
    os::unix::ffi::OsStringExt,
    path::PathBuf,
};

use zeroize::Zeroizing;

use crate::{InvalidValue, MAX_VALUE_BYTES, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    Env(String),
    /// Absolute.
    File(PathBuf),
}

/// Why a reference is invalid. Contains nothing of the text, which may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    #[error("\"env:\" must be followed by the name of an environment variable")]
    Env,
    #[error("\"file:\" must be followed by an absolute path")]
    File,
}

/// Why a value is unavailable. Does not say where it is.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("the server has no such environment variable")]
    NoVariable,
    #[error("the file could not be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("its content {0}")]
    Invalid(#[from] InvalidValue),
}

impl Reference {
    /// Parses a reference. Returns `None` if `text` does not begin with `env:` or `file:`.
    ///
    /// # Errors
    /// The rest is invalid.
    pub fn parse(text: &str) -> Result<Option<Self>, InvalidReference> {
        if let Some(name) = text.strip_prefix("env:") {
            let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
            let is_name = name.bytes().next().is_some_and(first)
                && name.bytes().all(|b| first(b) || b.is_ascii_digit());
            return if is_name {
                Ok(Some(Self::Env(name.into())))
            } else {
                Err(InvalidReference::Env)
            };
        }
        if let Some(path) = text.strip_prefix("file:") {
            // file:///path is accepted too
            let path = if path.starts_with("///") {
                &path[2..]
            } else {
                path
            };
            let is_path = path.len() > 1
                && path.starts_with('/')
                && !path.starts_with("//")
                && !path.chars().any(char::is_control);
            return if is_path {
                Ok(Some(Self::File(path.into())))
            } else {
                Err(InvalidReference::File)
            };
        }
        Ok(None)
    }

    /// Returns the name of the kind in `rag.secrets`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Env(_) => "env",
            Self::File(_) => "file",
        }
    }

    /// Reads the value. A line end at the end of a file is removed.
    ///
    /// # Errors
    /// The value is unavailable or invalid.
    pub fn resolve(&self) -> Result<Value, ResolveError> {
        match self {
            Self::Env(name) => {
                let value: OsString = std::env::var_os(name).ok_or(ResolveError::NoVariable)?;
                Ok(Value::new(value.into_vec())?)
            }
            Self::File(path) => {
                let file = crate::open_to_read(path)?;
                if !file.metadata()?.is_file() {
                    return Err(ResolveError::NotAFile);
                }
                // room for a line end and one more byte, so that the buffer is not moved
                let room = MAX_VALUE_BYTES + 3;
                let mut bytes = Zeroizing::new(Vec::with_capacity(room + 1));
                file.take(room as u64).read_to_end(&mut bytes)?;
                if bytes.last() == Some(&b'\n') {
                    bytes.pop();
                    if bytes.last() == Some(&b'\r') {
                        bytes.pop();
                    }
                }
                Ok(Value::new(std::mem::take(&mut *bytes))?)
            }
        }
    }
}
