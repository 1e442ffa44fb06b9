//! Distances and similarities of two vectors, and the length of one. `rag-ann` has the arithmetic.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};
use rag_ann::distance;

use super::{OwnedVector, Vector, check_same_dimensions};

/// Euclidean distance, operator `<->`.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn l2_distance(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    check_same_dimensions(&a, &b)?;
    Ok(distance::l2_squared(a.as_slice(), b.as_slice()).sqrt())
}

/// Squared Euclidean distance, which has the same order.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_l2_squared_distance(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    check_same_dimensions(&a, &b)?;
    Ok(distance::l2_squared(a.as_slice(), b.as_slice()))
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn inner_product(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    check_same_dimensions(&a, &b)?;
    Ok(distance::inner_product(a.as_slice(), b.as_slice()))
}

/// Negative inner product, operator `<#>`: the most similar vector has the least value.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_negative_inner_product(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    check_same_dimensions(&a, &b)?;
    Ok(-distance::inner_product(a.as_slice(), b.as_slice()))
}

/// 1 - cosine similarity, from 0 to 2, operator `<=>`. NaN if a vector has length 0.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn cosine_distance(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    check_same_dimensions(&a, &b)?;
    Ok(distance::cosine_distance(a.as_slice(), b.as_slice()))
}

/// Taxicab distance, operator `<+>`.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn l1_distance(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    check_same_dimensions(&a, &b)?;
    Ok(distance::l1(a.as_slice(), b.as_slice()))
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_dims(vector: Vector<'_>) -> i32 {
    vector.dimensions() as i32
}

/// Euclidean length.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_norm(vector: Vector<'_>) -> f64 {
    distance::norm(vector.as_slice())
}

/// Returns the vector of length 1 in the same direction, or the zero vector for itself.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn l2_normalize(vector: Vector<'_>) -> Result<OwnedVector, ErrorReport> {
    let norm = distance::norm(vector.as_slice());
    let scaled = vector
        .as_slice()
        .iter()
        .map(|x| {
            if norm > 0.0 {
                (f64::from(*x) / norm) as f32
            } else {
                *x
            }
        })
        .collect();
    Ok(OwnedVector::new(scaled)?)
}
