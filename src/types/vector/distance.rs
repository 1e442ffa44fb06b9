//! Distances and similarities of two vectors, and the length of one. `rag-ann` has the arithmetic.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};
use rag_ann::distance;

use super::{Elements, OwnedElements, OwnedVector, Vector, VectorElement, check_same_dimensions};
use crate::error::Error;

/// Returns a distance of two vectors.
///
/// # Errors
/// They have different dimensions.
pub fn between<E: VectorElement>(
    a: Elements<'_, E>,
    b: Elements<'_, E>,
    distance: impl Fn(&[E], &[E]) -> f64,
) -> Result<f64, Error> {
    check_same_dimensions(&a, &b)?;
    Ok(distance(a.as_slice(), b.as_slice()))
}

/// Returns the vector of length 1 in the same direction, or the zero vector for itself.
///
/// # Errors
/// None: the elements are at most 1.
pub fn normalize<E: VectorElement>(vector: Elements<'_, E>) -> Result<OwnedElements<E>, Error> {
    let norm = distance::norm(vector.as_slice());
    let divisor = if norm > 0.0 { norm } else { 1.0 };
    let scaled = vector.as_slice().iter();
    let scaled = scaled.map(|x| E::nearest((x.to_f64() / divisor) as f32));
    OwnedElements::new(scaled.collect())
}

/// Euclidean distance, operator `<->`.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn l2_distance(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::l2_squared)?.sqrt())
}

/// Squared Euclidean distance, which has the same order.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_l2_squared_distance(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::l2_squared)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn inner_product(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::inner_product)?)
}

/// Negative inner product, operator `<#>`: the most similar vector has the least value.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_negative_inner_product(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::negative_inner_product)?)
}

/// 1 - cosine similarity, from 0 to 2, operator `<=>`. NaN if a vector has length 0.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn cosine_distance(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::cosine_distance)?)
}

/// Taxicab distance, operator `<+>`.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn l1_distance(a: Vector<'_>, b: Vector<'_>) -> Result<f64, ErrorReport> {
    Ok(between(a, b, distance::l1)?)
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

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn l2_normalize(vector: Vector<'_>) -> Result<OwnedVector, ErrorReport> {
    Ok(normalize(vector)?)
}
