//! Distances and similarities of two vectors, and the length of one. `rag-ann` has the arithmetic.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};
use rag_ann::distance;

use super::{Halfvec, OwnedHalfvec};
use crate::types::vector::distance::{between, normalize};

/// Euclidean distance, operator `<->`.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_l2_distance(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::l2_squared)?.sqrt())
}

/// Squared Euclidean distance, which has the same order.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_l2_squared_distance(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::l2_squared)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_inner_product(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::inner_product)?)
}

/// Negative inner product, operator `<#>`: the most similar vector has the least value.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_negative_inner_product(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::negative_inner_product)?)
}

/// 1 - cosine similarity, from 0 to 2, operator `<=>`. NaN if a vector has length 0.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_cosine_distance(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::cosine_distance)?)
}

/// Taxicab distance, operator `<+>`.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_l1_distance(a: Halfvec<'_>, b: Halfvec<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::l1)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_dims(vector: Halfvec<'_>) -> i32 {
    vector.dimensions() as i32
}

/// Euclidean length.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_l2_norm(vector: Halfvec<'_>) -> f64 {
    distance::norm(vector.as_slice())
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_l2_normalize(vector: Halfvec<'_>) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(normalize(vector)?)
}
