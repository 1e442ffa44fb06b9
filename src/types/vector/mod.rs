//! `rag_types.vector`: an array of f32 with a fixed number of dimensions.
//!
//! Text form, binary form and layout in memory are those of pgvector's `vector`. So pgvector's
//! client libraries work, and a cast between the two types only copies bytes:
//!
//! ```text
//! | i32 varlena header | i16 dimensions | i16 zero | f32 x dimensions |
//! ```
//!
//! This folder holds the functions that `sql/vector.sql` declares:
//!
//! | file | functions |
//! |---|---|
//! | [`io`] | text form, binary form, typmod |
//! | [`cast`] | casts from and to arrays |
//! | [`distance`] | operators that order by distance |
//! | [`arithmetic`] | other operators, comparison |
//! | [`bits`] | signs of the elements |
//! | [`aggregate`] | sum and avg |
//! | [`pgvector`] | casts from and to pgvector's type |
//! | [`datum`] | none: how PostgreSQL stores and passes vectors |

mod aggregate;
mod arithmetic;
mod bits;
mod cast;
mod datum;
mod distance;
mod io;
mod pgvector;

pub use datum::{DetoastMemory, Vector, for_each_vector};

use crate::error::Error;

/// Maximum number of dimensions, as in pgvector.
pub const MAX_DIMENSIONS: usize = 16_000;

/// A vector to be returned to PostgreSQL or passed to a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedVector(Vec<f32>);

impl OwnedVector {
    /// # Errors
    /// There is no element, there are too many, or one is not finite.
    pub fn new(elements: Vec<f32>) -> Result<Self, Error> {
        check_dimensions(elements.len())?;
        match elements.iter().find(|x| !x.is_finite()) {
            None => Ok(Self(elements)),
            Some(x) if x.is_nan() => Err(Error::data_exception("NaN not allowed in vector")),
            Some(_) => Err(Error::data_exception(
                "infinite value not allowed in vector",
            )),
        }
    }

    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }
}

impl From<OwnedVector> for Vec<f32> {
    fn from(vector: OwnedVector) -> Self {
        vector.0
    }
}

/// # Errors
/// The number is 0 or above [`MAX_DIMENSIONS`].
pub fn check_dimensions(dimensions: usize) -> Result<(), Error> {
    if dimensions == 0 {
        return Err(Error::data_exception(
            "vector must have at least 1 dimension",
        ));
    }
    if dimensions > MAX_DIMENSIONS {
        return Err(Error::limit(format!(
            "vector cannot have more than {MAX_DIMENSIONS} dimensions"
        )));
    }
    Ok(())
}

/// # Errors
/// The vectors have different numbers of dimensions.
pub fn check_same_dimensions(a: &Vector, b: &Vector) -> Result<(), Error> {
    if a.dimensions() == b.dimensions() {
        return Ok(());
    }
    Err(Error::data_exception(format!(
        "different vector dimensions {} and {}",
        a.dimensions(),
        b.dimensions()
    )))
}
