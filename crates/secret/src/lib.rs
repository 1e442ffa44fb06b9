//! Secrets at rest, without any Postgres.
//!
//! A secret has a name and, under each of its keys (`token`, `username`, `password`), a value. What
//! the database stores of a value is one of two things:
//!
//! * [`sealed`] bytes: the value encrypted with XChaCha20-Poly1305 under a key of the cluster's
//!   [`KeyRing`];
//! * a [`Reference`] to where a superuser keeps it: an environment variable of the server's, or a
//!   file.
//!
//! The key ring is a [`key_file`] outside of the database, so that neither a dump nor a table's
//! file gives a value away. Every sealed value names the key that it is under: a ring has several
//! while values are moved from an old key to a new one, and the file always gets the new key before
//! any value is under it.
//!
//! No error of this crate holds a value, or any part of one.

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

/// A secret's value, erased from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Zeroizing<String>);

/// Most bytes that a value can have.
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
    /// It is no value.
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

    /// The value itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Value(..)")
    }
}

/// Opens what should be a plain file: a named pipe in its place does not keep the process waiting
/// for somebody who writes.
fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}
