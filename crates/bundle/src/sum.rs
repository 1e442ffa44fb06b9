//! Size and SHA-256 of what is written or read.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{BundleError, BundleFile};

/// The size of a file, and its SHA-256 in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSum {
    pub bytes: u64,
    pub sha256: String,
}

/// Computes a [`FileSum`] of bytes as they pass.
#[derive(Debug, Clone, Default)]
pub struct Summing {
    bytes: u64,
    hash: Sha256,
}

impl Summing {
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
    }

    pub fn finish(self) -> FileSum {
        FileSum {
            bytes: self.bytes,
            sha256: hex::encode(self.hash.finalize()),
        }
    }
}

/// A file of a bundle that is summed up while it is read.
pub struct Summed<R> {
    file: BundleFile,
    inner: R,
    summing: Summing,
    expected: FileSum,
}

impl<R: Read> Summed<R> {
    pub fn new(file: BundleFile, inner: R, expected: FileSum) -> Self {
        Self {
            file,
            inner,
            summing: Summing::default(),
            expected,
        }
    }

    /// Reads what is left, and compares size and hash with the metadata.
    ///
    /// # Errors
    /// They differ.
    pub fn finish(mut self) -> Result<(), BundleError> {
        let mut rest = [0; 1];
        let more = self
            .read(&mut rest)
            .map_err(|e| BundleError::io(&format!("read {}", self.file.name()), &e))?;
        let found = self.summing.finish();
        if more > 0 || found.bytes != self.expected.bytes {
            let found = if more > 0 { "more" } else { "fewer" };
            return Err(BundleError::invalid(
                self.file,
                format!(
                    "The file has {found} than the {} bytes that metadata.json says.",
                    self.expected.bytes
                ),
            ));
        }
        if found.sha256 != self.expected.sha256 {
            return Err(BundleError::invalid(
                self.file,
                "Its SHA-256 is not the one in metadata.json.",
            ));
        }
        Ok(())
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.summing.update(&buffer[..read]);
        Ok(read)
    }
}
