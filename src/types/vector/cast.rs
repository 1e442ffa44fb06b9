//! Casts from and to arrays. The casts from and to pgvector's `vector` need no code, because the
//! layouts are equal (see `sql/vector.sql`).

use pgrx::{AnyNumeric, Array, datum::UnboxDatum, pg_extern, pg_sys::panic::ErrorReport};

use super::{OwnedVector, Vector, check_dimensions, datum::array_dimensions, io::check_typmod};
use crate::error::Error;

/// Makes a vector of the elements of an array.
///
/// # Errors
/// An element is NULL or not finite as f32, or the typmod asks for other dimensions.
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
    check_one_dimension(array)?;
    Ok(vector)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_double(
    array: Array<'_, f64>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    let vector = from_elements(array.iter(), typmod, narrow)?;
    check_one_dimension(array)?;
    Ok(vector)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_integer(
    array: Array<'_, i32>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    let vector = from_elements(array.iter(), typmod, |x| Ok(x as f32))?;
    check_one_dimension(array)?;
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
            .map_err(|_| out_of_range())
            .and_then(narrow)
    };
    let vector = from_elements(array.iter(), typmod, to_f32)?;
    check_one_dimension(array)?;
    Ok(vector)
}

fn check_one_dimension<T: UnboxDatum>(array: Array<'_, T>) -> Result<(), Error> {
    if array_dimensions(array) > 1 {
        return Err(Error::data_exception("array must be 1-D"));
    }
    Ok(())
}

/// Converts to f32. A finite number that becomes infinite is out of range, as it is for `real`.
fn narrow(x: f64) -> Result<f32, Error> {
    let narrowed = x as f32;
    if narrowed.is_infinite() && x.is_finite() {
        return Err(out_of_range());
    }
    Ok(narrowed)
}

fn out_of_range() -> Error {
    Error::out_of_range("value out of range for type vector")
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_to_float4(vector: Vector<'_>, _typmod: i32, _explicit: bool) -> Vec<f32> {
    vector.as_slice().to_vec()
}
