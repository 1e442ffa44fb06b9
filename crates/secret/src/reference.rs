//! Values that are kept elsewhere: `env:NAME` is an environment variable of the server,
//! `file:/path` a file on its disk.

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

/// What is wrong with a reference, without any of it: it may be a secret that merely looks like
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    #[error("what follows \"env:\" is not the name of an environment variable")]
    Env,
    #[error("what follows \"file:\" is not an absolute path")]
    File,
}

/// Why a value cannot be had, without saying where it is.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("the server has no such environment variable")]
    NoVariable,
    #[error("the file could not be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is not a plain file")]
    NotAFile,
    #[error("its content {0}")]
    Invalid(#[from] InvalidValue),
}

impl Reference {
    /// `None` where `text` does not begin as a reference does.
    ///
    /// # Errors
    /// It does, and goes on otherwise.
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
            // file:///path is a path too
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

    /// What it is called in `rag.secrets`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Env(_) => "env",
            Self::File(_) => "file",
        }
    }

    /// Looks the value up. A line end at the end of a file is no part of it.
    ///
    /// # Errors
    /// It is not there, or is no value.
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
                // room for a line end and one byte too many, so that the buffer does not move
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
