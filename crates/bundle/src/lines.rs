//! Lines of JSON, read one at a time.

use std::io::{BufRead, BufReader, Read};

use crate::{BundleError, BundleFile, record::Record};

/// The maximum length of a line in bytes.
pub const MAX_LINE: u64 = 512 << 20;

/// Reads the records of a file.
pub struct LineReader<R> {
    file: BundleFile,
    inner: BufReader<R>,
    line: Vec<u8>,
    number: u64,
    max_line: u64,
}

impl<R: Read> LineReader<R> {
    pub fn new(file: BundleFile, inner: R) -> Self {
        Self::with_limit(file, inner, MAX_LINE)
    }

    /// Reads lines of at most `max_line` bytes.
    pub fn with_limit(file: BundleFile, inner: R, max_line: u64) -> Self {
        Self {
            file,
            inner: BufReader::with_capacity(1 << 16, inner),
            line: vec![],
            number: 0,
            max_line,
        }
    }

    /// Returns the next record, and its size in bytes. Returns None at the end.
    ///
    /// # Errors
    /// The line is not a record.
    pub fn next_record<T: Record>(&mut self) -> Result<Option<(T, usize)>, BundleError> {
        self.line.clear();
        self.number += 1;
        // a very long line would keep its memory
        self.line.shrink_to(1 << 20);
        let read = (&mut self.inner)
            .take(self.max_line)
            .read_until(b'\n', &mut self.line)
            .map_err(|e| BundleError::io(&format!("read {}", self.file.name()), &e))?;
        if read == 0 {
            return Ok(None);
        }
        if self.line.pop() != Some(b'\n') {
            let why = if read as u64 == self.max_line {
                format!("is longer than {} bytes", self.max_line)
            } else {
                "does not end with a line feed".to_string()
            };
            return Err(self.invalid(&why));
        }
        let line = std::str::from_utf8(&self.line)
            .map_err(|e| self.invalid(&format!("is not valid UTF-8: {e}")))?;
        let record = T::read(line).map_err(|why| self.invalid(&format!("is invalid: {why}")))?;
        Ok(Some((record, read)))
    }

    /// Returns the error for the current line.
    pub fn invalid(&self, why: &str) -> BundleError {
        BundleError::invalid(self.file, format!("Line {} {why}.", self.number))
    }

    /// Returns the reader after the last line.
    pub fn into_inner(self) -> R {
        self.inner.into_inner()
    }
}
