//! The format of NumPy's `.npy` files, version 1.0, for arrays of 32-bit floating-point numbers:
//!
//! ```text
//! \x93NUMPY 01 00 | length of the header, u16 | header, padded to a multiple of 64 | f32, f32, ...
//! ```
//!
//! The header is a Python literal, `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 384), }`.
//! See <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::io::Read;

use crate::{BundleError, BundleFile};

const MAGIC: &[u8; 8] = b"\x93NUMPY\x01\x00";
/// Magic and length.
const PREFIX: usize = MAGIC.len() + 2;
const ALIGNMENT: usize = 64;
/// The maximum number of dimensions of an embedding.
const MAX_DIMENSIONS: usize = 1 << 15;

/// The shape of the array: rows, and numbers in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub rows: u64,
    pub dimensions: usize,
}

/// Returns the bytes before the numbers.
pub fn header(shape: Shape) -> Vec<u8> {
    let mut text = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
        shape.rows, shape.dimensions
    );
    let padded = (PREFIX + text.len() + 1).next_multiple_of(ALIGNMENT) - PREFIX;
    text.extend(std::iter::repeat_n(' ', padded - text.len() - 1));
    text.push('\n');
    let mut header = MAGIC.to_vec();
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.as_bytes());
    header
}

/// Appends a row.
pub fn push_row(row: &[f32], to: &mut Vec<u8>) {
    to.reserve(4 * row.len());
    for number in row {
        to.extend(number.to_le_bytes());
    }
}

/// Reads an array row by row.
pub struct RowReader<R> {
    inner: R,
    shape: Shape,
    read: u64,
    bytes: Vec<u8>,
}

impl<R: Read> RowReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is not that of a two-dimensional array of `<f4` in C order.
    pub fn open(mut inner: R) -> Result<Self, BundleError> {
        let mut prefix = [0; PREFIX];
        fill(&mut inner, &mut prefix)?;
        if prefix[..MAGIC.len()] != MAGIC[..] {
            return Err(invalid("It is not a .npy file of version 1.0."));
        }
        let mut text = vec![0; usize::from(u16::from_le_bytes([prefix[8], prefix[9]]))];
        fill(&mut inner, &mut text)?;
        let shape = std::str::from_utf8(&text)
            .ok()
            .and_then(parse_header)
            .ok_or_else(|| {
                invalid("Its header is not that of a two-dimensional array of '<f4' in C order.")
            })?;
        if shape.dimensions > MAX_DIMENSIONS {
            return Err(invalid(format!("It has {} columns.", shape.dimensions)));
        }
        Ok(Self {
            inner,
            shape,
            read: 0,
            bytes: vec![0; 4 * shape.dimensions],
        })
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the next row.
    ///
    /// # Errors
    /// There is none, or a number is not finite.
    pub fn next_row(&mut self) -> Result<Vec<f32>, BundleError> {
        if self.read == self.shape.rows {
            return Err(invalid(format!(
                "It has {} rows, and chunks.jsonl has more.",
                self.shape.rows
            )));
        }
        fill(&mut self.inner, &mut self.bytes)?;
        let row: Vec<f32> = self
            .bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        if let Some(number) = row.iter().find(|number| !number.is_finite()) {
            return Err(invalid(format!("Row {} contains {number}.", self.read)));
        }
        self.read += 1;
        Ok(row)
    }

    /// Returns the reader after the last row.
    ///
    /// # Errors
    /// Rows are left.
    pub fn finish(self) -> Result<R, BundleError> {
        if self.read < self.shape.rows {
            return Err(invalid(format!(
                "It has {} rows, and chunks.jsonl has {}.",
                self.shape.rows, self.read
            )));
        }
        Ok(self.inner)
    }
}

fn invalid(detail: impl Into<String>) -> BundleError {
    BundleError::invalid(BundleFile::Embeddings, detail)
}

fn fill(from: &mut impl Read, buffer: &mut [u8]) -> Result<(), BundleError> {
    from.read_exact(buffer).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => invalid("The file ends too early."),
        _ => BundleError::io("read embeddings.npy", &e),
    })
}

/// Reads the header as NumPy writes it: three keys in any order, spaces, and trailing commas.
fn parse_header(text: &str) -> Option<Shape> {
    let mut inside = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let (mut is_f4, mut is_c_order, mut shape) = (false, false, None);
    while !inside.is_empty() {
        let (key, rest) = inside.strip_prefix('\'')?.split_once('\'')?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let (value, rest) = match rest.strip_prefix('(') {
            Some(tuple) => tuple.split_once(')')?,
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        match key {
            "descr" => is_f4 = value.trim() == "'<f4'",
            "fortran_order" => is_c_order = value.trim() == "False",
            "shape" => shape = Some(parse_shape(value)?),
            _ => return None,
        }
        inside = rest.trim_start();
        inside = inside.strip_prefix(',').unwrap_or(inside).trim_start();
    }
    shape.filter(|_| is_f4 && is_c_order)
}

fn parse_shape(text: &str) -> Option<Shape> {
    let (rows, dimensions) = text.split_once(',')?;
    let dimensions = dimensions.trim().trim_end_matches(',').trim();
    Some(Shape {
        rows: rows.trim().parse().ok()?,
        dimensions: dimensions.parse().ok()?,
    })
}
