//! Storage of secrets, independent of Postgres.
//!
//! A secret has a name and a value for each of its keys (`token`, `username`, `password`). The
//! database stores one of two forms of a value:
//!
//! * [`sealed`] bytes: the value, encrypted with XChaCha20-Poly1305 under a key of the cluster's
//!   [`KeyRing`];
//! * a [`Reference`] to an environment variable of the server or a file, which a superuser manages.
//!
//! The key ring is in a [`key_file`] outside of the database, so that neither a dump nor the file
//! of a table reveals a value. Every sealed value has the id of its key. While the key is rotated,
//! the ring has several keys: the file gets the new key before any value is encrypted with it.
//!
//! Errors of this crate never contain a value or a part of one.

pub mod key_file;
mod keyring;
pub mod reference;
pub mod sealed;

pub use self::{
    keyring::{InvalidKeyRing, Key, KeyId, KeyRing, NoRandomness},
    reference::Reference,
};

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

/// The value of a secret. Erased from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Zeroizing<String>);

pub const MAX_VALUE_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    #[error("is empty")]
    Empty,
    #[error("has more than {MAX_VALUE_BYTES} bytes")]
    TooLong,
    #[error("contains a NUL character")]
    Nul,
    #[error("is not UTF-8")]
    NotUtf8,
}

impl Value {
    /// # Errors
    /// The bytes are not a valid value.
    pub fn new(bytes: Vec<u8>) -> Result<Self, InvalidValue> {
        let mut bytes = Zeroizing::new(bytes);
        if bytes.is_empty() {
            return Err(InvalidValue::Empty);
        }
        if bytes.len() > MAX_VALUE_BYTES {
            return Err(InvalidValue::TooLong);
        }
        if bytes.contains(&0) {
            return Err(InvalidValue::Nul);
        }
        match String::from_utf8(std::mem::take(&mut *bytes)) {
            Ok(text) => Ok(Self(Zeroizing::new(text))),
            Err(e) => {
                drop(Zeroizing::new(e.into_bytes()));
                Err(InvalidValue::NotUtf8)
            }
        }
    }

    /// Returns the value itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Value(..)")
    }
}

/// Opens a file. If the path is a named pipe, the call does not wait for a writer.
fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}
