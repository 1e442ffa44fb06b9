//! Casts from and to arrays. Those to and from pgvector's `vector` need no code: the layouts are
//! equal (see `sql/`).

use pgrx::{AnyNumeric, Array, pg_extern, pg_sys, pg_sys::panic::ErrorReport};

use super::{OwnedVector, Vector, check_dimensions, io::check_typmod};
use crate::error::Error;

/// The common part: no nulls, dimensions as the typmod says, every element finite as f32.
fn from_elements<T>(
    elements: impl ExactSizeIterator<Item = Option<T>>,
    typmod: i32,
    to_f32: impl Fn(T) -> Result<f32, Error>,
) -> Result<OwnedVector, Error> {
    check_dimensions(elements.len())?;
    check_typmod(elements.len(), typmod)?;
    let no_null = || Error::null_not_allowed("array must not contain nulls");
    let elements = elements
        .map(|x| to_f32(x.ok_or_else(no_null)?))
        .collect::<Result<_, _>>()?;
    OwnedVector::new(elements)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_real(
    array: Array<'_, f32>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    let vector = from_elements(array.iter(), typmod, Ok)?;
    check_one_dimension(array.into_array_type())?;
    Ok(vector)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_double(
    array: Array<'_, f64>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    let vector = from_elements(array.iter(), typmod, narrow)?;
    check_one_dimension(array.into_array_type())?;
    Ok(vector)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_integer(
    array: Array<'_, i32>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    let vector = from_elements(array.iter(), typmod, |x| Ok(x as f32))?;
    check_one_dimension(array.into_array_type())?;
    Ok(vector)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_numeric(
    array: Array<'_, AnyNumeric>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    let to_f32 = |x: AnyNumeric| {
        f64::try_from(x)
            .map_err(|_| beyond_range())
            .and_then(narrow)
    };
    let vector = from_elements(array.iter(), typmod, to_f32)?;
    check_one_dimension(array.into_array_type())?;
    Ok(vector)
}

fn check_one_dimension(array: *const pg_sys::ArrayType) -> Result<(), Error> {
    // SAFETY: the array that the function was called with.
    if unsafe { (*array).ndim } > 1 {
        return Err(Error::data_exception("array must be 1-D"));
    }
    Ok(())
}

/// A finite f64 that becomes infinite as f32 is out of range, as it is for `real`.
fn narrow(x: f64) -> Result<f32, Error> {
    let narrowed = x as f32;
    if narrowed.is_infinite() && x.is_finite() {
        return Err(beyond_range());
    }
    Ok(narrowed)
}

fn beyond_range() -> Error {
    Error::out_of_range("value out of range for type vector")
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_to_float4(vector: Vector<'_>, _typmod: i32, _explicit: bool) -> Vec<f32> {
    vector.as_slice().to_vec()
}
