//! `rag_types.vector`: an array of f32 with a fixed number of dimensions.
//!
//! Text form, binary form and layout in memory are those of pgvector's `vector`. So pgvector's
//! client libraries work, and a cast between the two types only copies bytes:
//!
//! ```text
//! | i32 varlena header | i16 dimensions | i16 zero | f32 x dimensions |
//! ```
//!
//! `rag_types.halfvec` differs in its elements only. So what both types do is written for any
//! [`VectorElement`], and [`super::halfvec`] has the functions of the other type.
//!
//! This folder holds the functions that `sql/vector.sql` declares:
//!
//! | file | functions |
//! |---|---|
//! | [`io`] | text form, binary form, typmod |
//! | [`cast`] | casts from and to arrays |
//! | [`distance`] | operators that order by distance |
//! | [`arithmetic`] | other operators, comparison |
//! | [`aggregate`] | sum and avg |
//! | [`pgvector`] | casts from and to pgvector's type |
//! | [`datum`] | none: how PostgreSQL stores and passes vectors |
//! | [`element`] | none: what vectors are made of |

pub mod aggregate;
pub mod arithmetic;
pub mod cast;
mod datum;
pub mod distance;
mod element;
pub mod io;
mod pgvector;

pub(in crate::types) use datum::maps_to_sql_type;
pub use datum::{Elements, Message, Vector, for_each_vector, is_plain};
pub use element::VectorElement;

use crate::error::Error;

/// Maximum number of dimensions, as in pgvector.
pub const MAX_DIMENSIONS: usize = 16_000;

/// A vector to be returned to PostgreSQL or passed to a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedElements<E>(Vec<E>);

/// A `rag_types.vector`.
pub type OwnedVector = OwnedElements<f32>;

impl<E: VectorElement> OwnedElements<E> {
    /// # Errors
    /// There is no element, there are too many, or one is not finite.
    pub fn new(elements: Vec<E>) -> Result<Self, Error> {
        check_dimensions::<E>(elements.len())?;
        let not_finite = elements.iter().find(|x| !x.to_f32().is_finite());
        match not_finite {
            None => Ok(Self(elements)),
            Some(x) if x.to_f32().is_nan() => Err(Error::data_exception(format!(
                "NaN not allowed in {}",
                E::TYPE
            ))),
            Some(_) => Err(Error::data_exception(format!(
                "infinite value not allowed in {}",
                E::TYPE
            ))),
        }
    }

    pub fn as_slice(&self) -> &[E] {
        &self.0
    }
}

impl<E> From<OwnedElements<E>> for Vec<E> {
    fn from(vector: OwnedElements<E>) -> Self {
        vector.0
    }
}

/// # Errors
/// The number is 0 or above [`MAX_DIMENSIONS`].
pub fn check_dimensions<E: VectorElement>(dimensions: usize) -> Result<(), Error> {
    if dimensions == 0 {
        return Err(Error::data_exception(format!(
            "{} must have at least 1 dimension",
            E::TYPE
        )));
    }
    if dimensions > MAX_DIMENSIONS {
        return Err(Error::limit(format!(
            "{} cannot have more than {MAX_DIMENSIONS} dimensions",
            E::TYPE
        )));
    }
    Ok(())
}

/// # Errors
/// The vectors have different numbers of dimensions.
pub fn check_same_dimensions<E: VectorElement>(
    a: &Elements<'_, E>,
    b: &Elements<'_, E>,
) -> Result<(), Error> {
    if a.dimensions() == b.dimensions() {
        return Ok(());
    }
    Err(Error::data_exception(format!(
        "different {} dimensions {} and {}",
        E::TYPE,
        a.dimensions(),
        b.dimensions()
    )))
}
