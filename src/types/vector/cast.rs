//! Casts from and to arrays. The casts from and to pgvector's `vector` need no code, because the
//! layouts are equal (see `sql/vector.sql`).

use pgrx::{AnyNumeric, Array, datum::UnboxDatum, pg_extern, pg_sys::panic::ErrorReport};

use super::{
    OwnedElements, OwnedVector, Vector, VectorElement, check_dimensions,
    datum::array_dimensions,
    io::{check_typmod, out_of_range},
};
use crate::error::Error;

/// Makes a vector of the elements of an array.
///
/// # Errors
/// An element is NULL, not finite or out of range, or the typmod asks for other dimensions.
fn from_elements<E: VectorElement, T>(
    elements: impl ExactSizeIterator<Item = Option<T>>,
    typmod: i32,
    to_f32: impl Fn(T) -> Result<f32, Error>,
) -> Result<OwnedElements<E>, Error> {
    check_dimensions::<E>(elements.len())?;
    check_typmod(elements.len(), typmod)?;
    let no_null = || Error::null_not_allowed("array must not contain nulls");
    let elements = elements
        .map(|x| nearest(to_f32(x.ok_or_else(no_null)?)?))
        .collect::<Result<_, _>>()?;
    OwnedElements::new(elements)
}

/// # Errors
/// No element is as large.
pub fn nearest<E: VectorElement>(x: f32) -> Result<E, Error> {
    let nearest = E::nearest(x);
    if nearest.to_f32().is_infinite() && x.is_finite() {
        return Err(out_of_range::<E>(x));
    }
    Ok(nearest)
}

pub fn from_real<E: VectorElement>(
    array: Array<'_, f32>,
    typmod: i32,
) -> Result<OwnedElements<E>, Error> {
    let vector = from_elements(array.iter(), typmod, Ok)?;
    check_one_dimension(array)?;
    Ok(vector)
}

pub fn from_double<E: VectorElement>(
    array: Array<'_, f64>,
    typmod: i32,
) -> Result<OwnedElements<E>, Error> {
    let vector = from_elements(array.iter(), typmod, narrow::<E>)?;
    check_one_dimension(array)?;
    Ok(vector)
}

pub fn from_integer<E: VectorElement>(
    array: Array<'_, i32>,
    typmod: i32,
) -> Result<OwnedElements<E>, Error> {
    let vector = from_elements(array.iter(), typmod, |x| Ok(x as f32))?;
    check_one_dimension(array)?;
    Ok(vector)
}

pub fn from_numeric<E: VectorElement>(
    array: Array<'_, AnyNumeric>,
    typmod: i32,
) -> Result<OwnedElements<E>, Error> {
    let to_f32 = |x: AnyNumeric| {
        f64::try_from(x)
            .map_err(|_| value_out_of_range::<E>())
            .and_then(narrow::<E>)
    };
    let vector = from_elements(array.iter(), typmod, to_f32)?;
    check_one_dimension(array)?;
    Ok(vector)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_real(
    array: Array<'_, f32>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    Ok(from_real(array, typmod)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_double(
    array: Array<'_, f64>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    Ok(from_double(array, typmod)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_integer(
    array: Array<'_, i32>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    Ok(from_integer(array, typmod)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_vector_numeric(
    array: Array<'_, AnyNumeric>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    Ok(from_numeric(array, typmod)?)
}

fn check_one_dimension<T: UnboxDatum>(array: Array<'_, T>) -> Result<(), Error> {
    if array_dimensions(array) > 1 {
        return Err(Error::data_exception("array must be 1-D"));
    }
    Ok(())
}

/// Converts to f32. A finite number that becomes infinite is out of range, as it is for `real`.
fn narrow<E: VectorElement>(x: f64) -> Result<f32, Error> {
    let narrowed = x as f32;
    if narrowed.is_infinite() && x.is_finite() {
        return Err(value_out_of_range::<E>());
    }
    Ok(narrowed)
}

fn value_out_of_range<E: VectorElement>() -> Error {
    Error::out_of_range(format!("value out of range for type {}", E::TYPE))
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_to_float4(vector: Vector<'_>, _typmod: i32, _explicit: bool) -> Vec<f32> {
    vector.as_slice().to_vec()
}
