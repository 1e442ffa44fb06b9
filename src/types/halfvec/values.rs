//! Element-wise arithmetic, concatenation, subvectors, and the aggregates.

use pgrx::{Array, pg_extern, pg_sys::panic::ErrorReport};

use super::{Halfvec, OwnedHalfvec};
use crate::types::vector::{
    aggregate::{accumulate, mean},
    arithmetic::{concatenate, element_wise, multiply, part},
};

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_add(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(element_wise(a, b, |x, y| x + y)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_sub(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(element_wise(a, b, |x, y| x - y)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_mul(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(multiply(a, b)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_concat(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(concatenate(a, b)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_subvector(
    vector: Halfvec<'_>,
    start: i32,
    count: i32,
) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(part(vector, start, count)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_accum(state: Array<'_, f64>, vector: Halfvec<'_>) -> Result<Vec<f64>, ErrorReport> {
    Ok(accumulate(state, vector)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_avg(state: Array<'_, f64>) -> Result<Option<OwnedHalfvec>, ErrorReport> {
    Ok(mean(state)?)
}
