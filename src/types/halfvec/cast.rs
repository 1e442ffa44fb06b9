//! Casts from and to arrays and `rag_types.vector`. The casts from and to pgvector's `halfvec` need
//! no code, because the layouts are equal (see `sql/vector.sql`).

use pgrx::{AnyNumeric, Array, pg_extern, pg_sys::panic::ErrorReport};

use super::{Halfvec, OwnedHalfvec};
use crate::types::vector::{
    OwnedElements, OwnedVector, Vector,
    cast::{from_double, from_integer, from_numeric, from_real, nearest},
    io::check_typmod,
};

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_halfvec_real(
    array: Array<'_, f32>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(from_real(array, typmod)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_halfvec_double(
    array: Array<'_, f64>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(from_double(array, typmod)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_halfvec_integer(
    array: Array<'_, i32>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(from_integer(array, typmod)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn array_to_halfvec_numeric(
    array: Array<'_, AnyNumeric>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(from_numeric(array, typmod)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_to_float4(vector: Halfvec<'_>, _typmod: i32, _explicit: bool) -> Vec<f32> {
    vector.as_slice().iter().map(|x| x.to_f32()).collect()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_to_vector(
    vector: Halfvec<'_>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    check_typmod(vector.dimensions(), typmod)?;
    let elements = vector.as_slice().iter().map(|x| x.to_f32());
    Ok(OwnedVector::new(elements.collect())?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_to_halfvec(
    vector: Vector<'_>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedHalfvec, ErrorReport> {
    check_typmod(vector.dimensions(), typmod)?;
    let elements = vector.as_slice().iter().map(|x| nearest(*x));
    let elements = elements.collect::<Result<_, _>>()?;
    Ok(OwnedElements::new(elements)?)
}
