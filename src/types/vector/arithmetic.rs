//! Element-wise arithmetic, concatenation, subvectors, and the order of vectors as values (for `=`,
//! `ORDER BY` and btree indexes).

use std::cmp::Ordering;

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};

use super::{OwnedVector, Vector, check_dimensions, check_same_dimensions};
use crate::error::Error;

fn element_wise(
    a: Vector<'_>,
    b: Vector<'_>,
    op: fn(f32, f32) -> f32,
) -> Result<OwnedVector, Error> {
    check_same_dimensions(&a, &b)?;
    let elements: Vec<f32> = a
        .as_slice()
        .iter()
        .zip(b.as_slice())
        .map(|(x, y)| op(*x, *y))
        .collect();
    if elements.iter().any(|x| x.is_infinite()) {
        return Err(Error::out_of_range(
            "value out of range: overflow".to_string(),
        ));
    }
    OwnedVector::new(elements)
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
    if a.as_slice()
        .iter()
        .zip(b.as_slice())
        .any(|(x, y)| x * y == 0.0 && *x != 0.0 && *y != 0.0)
    {
        return Err(Error::out_of_range("value out of range: underflow".to_string()).into());
    }
    Ok(element_wise(a, b, |x, y| x * y)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_concat(a: Vector<'_>, b: Vector<'_>) -> Result<OwnedVector, ErrorReport> {
    check_dimensions(a.dimensions() + b.dimensions())?;
    Ok(OwnedVector::new([a.as_slice(), b.as_slice()].concat())?)
}

/// Returns `count` elements from position `start`, counted from 1. Positions outside the vector are
/// left out, as in `substr`.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn subvector(vector: Vector<'_>, start: i32, count: i32) -> Result<OwnedVector, ErrorReport> {
    let dimensions = vector.dimensions() as i64;
    let end = (i64::from(start) + i64::from(count)).min(dimensions + 1);
    let start = i64::from(start).max(1);
    if count < 1 || end <= start {
        return Err(Error::data_exception("vector must have at least 1 dimension").into());
    }
    Ok(OwnedVector::new(
        vector.as_slice()[start as usize - 1..end as usize - 1].to_vec(),
    )?)
}

/// Compares element by element; a prefix comes first. Vectors hold no NaN, so the order is total.
fn compare(a: Vector<'_>, b: Vector<'_>) -> Ordering {
    a.as_slice()
        .partial_cmp(b.as_slice())
        .unwrap_or(Ordering::Equal)
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
