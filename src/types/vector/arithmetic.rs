//! Element-wise arithmetic, concatenation, subvectors, and the order of vectors as values (for `=`,
//! `ORDER BY` and btree indexes).

use std::cmp::Ordering;

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};

use super::{
    Elements, OwnedElements, OwnedVector, Vector, VectorElement, check_dimensions,
    check_same_dimensions,
};
use crate::error::Error;

/// Computes each element of the result from those of two vectors, in `f32`.
///
/// # Errors
/// The vectors have different dimensions, or a result is out of range.
pub fn element_wise<E: VectorElement>(
    a: Elements<'_, E>,
    b: Elements<'_, E>,
    op: fn(f32, f32) -> f32,
) -> Result<OwnedElements<E>, Error> {
    check_same_dimensions(&a, &b)?;
    let elements: Vec<E> = a
        .as_slice()
        .iter()
        .zip(b.as_slice())
        .map(|(x, y)| E::nearest(op(x.to_f32(), y.to_f32())))
        .collect();
    if elements.iter().any(|x| x.to_f32().is_infinite()) {
        return Err(Error::out_of_range(
            "value out of range: overflow".to_string(),
        ));
    }
    OwnedElements::new(elements)
}

/// # Errors
/// Those of [`element_wise`], and a product of other numbers than 0 is 0.
pub fn multiply<E: VectorElement>(
    a: Elements<'_, E>,
    b: Elements<'_, E>,
) -> Result<OwnedElements<E>, Error> {
    let pairs = a.as_slice().iter().zip(b.as_slice());
    let mut numbers = pairs.map(|(x, y)| (x.to_f32(), y.to_f32()));
    if numbers.any(|(x, y)| E::nearest(x * y).to_f32() == 0.0 && x != 0.0 && y != 0.0) {
        return Err(Error::out_of_range(
            "value out of range: underflow".to_string(),
        ));
    }
    element_wise(a, b, |x, y| x * y)
}

/// # Errors
/// Both together have too many dimensions.
pub fn concatenate<E: VectorElement>(
    a: Elements<'_, E>,
    b: Elements<'_, E>,
) -> Result<OwnedElements<E>, Error> {
    check_dimensions::<E>(a.dimensions() + b.dimensions())?;
    OwnedElements::new([a.as_slice(), b.as_slice()].concat())
}

/// Returns `count` elements from position `start`, counted from 1. Positions outside the vector are
/// left out, as in `substr`.
///
/// # Errors
/// There are none.
pub fn part<E: VectorElement>(
    vector: Elements<'_, E>,
    start: i32,
    count: i32,
) -> Result<OwnedElements<E>, Error> {
    let dimensions = vector.dimensions() as i64;
    let end = (i64::from(start) + i64::from(count)).min(dimensions + 1);
    let start = i64::from(start).max(1);
    if count < 1 || end <= start {
        check_dimensions::<E>(0)?;
    }
    OwnedElements::new(vector.as_slice()[start as usize - 1..end as usize - 1].to_vec())
}

/// Compares element by element; a prefix comes first. Vectors hold no NaN, so the order is total.
pub fn compare<E: VectorElement>(a: Elements<'_, E>, b: Elements<'_, E>) -> Ordering {
    let a = a.as_slice().iter().map(|x| x.to_f32());
    let b = b.as_slice().iter().map(|x| x.to_f32());
    a.partial_cmp(b).unwrap_or(Ordering::Equal)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_add(a: Vector<'_>, b: Vector<'_>) -> Result<OwnedVector, ErrorReport> {
    Ok(element_wise(a, b, |x, y| x + y)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_sub(a: Vector<'_>, b: Vector<'_>) -> Result<OwnedVector, ErrorReport> {
    Ok(element_wise(a, b, |x, y| x - y)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_mul(a: Vector<'_>, b: Vector<'_>) -> Result<OwnedVector, ErrorReport> {
    Ok(multiply(a, b)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_concat(a: Vector<'_>, b: Vector<'_>) -> Result<OwnedVector, ErrorReport> {
    Ok(concatenate(a, b)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn subvector(vector: Vector<'_>, start: i32, count: i32) -> Result<OwnedVector, ErrorReport> {
    Ok(part(vector, start, count)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_lt(a: Vector<'_>, b: Vector<'_>) -> bool {
    compare(a, b).is_lt()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_le(a: Vector<'_>, b: Vector<'_>) -> bool {
    compare(a, b).is_le()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_eq(a: Vector<'_>, b: Vector<'_>) -> bool {
    compare(a, b).is_eq()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_ne(a: Vector<'_>, b: Vector<'_>) -> bool {
    compare(a, b).is_ne()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_ge(a: Vector<'_>, b: Vector<'_>) -> bool {
    compare(a, b).is_ge()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_gt(a: Vector<'_>, b: Vector<'_>) -> bool {
    compare(a, b).is_gt()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_cmp(a: Vector<'_>, b: Vector<'_>) -> i32 {
    compare(a, b) as i32
}
