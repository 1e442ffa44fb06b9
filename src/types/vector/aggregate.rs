//! `avg(vector)`. Its state is `{count, sum of element 1, ...}` in double precision. `sum(vector)`
//! needs no code of its own: it is `vector_add`. Other types of vectors have the same states.

use pgrx::{Array, pg_extern, pg_sys::panic::ErrorReport};

use super::{Elements, MAX_DIMENSIONS, OwnedElements, OwnedVector, Vector, VectorElement};
use crate::error::Error;

/// Returns the elements of a state: the count, then the sums. The initial state `{0}` has no sums.
fn state_elements(state: &Array<'_, f64>) -> Result<Vec<f64>, Error> {
    if state.len() > MAX_DIMENSIONS + 1 {
        return Err(Error::limit(format!(
            "a state array cannot have more than {} elements",
            MAX_DIMENSIONS + 1
        )));
    }
    let state: Option<Vec<f64>> = state.iter().collect();
    state
        .filter(|s| !s.is_empty())
        .ok_or_else(|| Error::data_exception("expected a state array without nulls"))
}

fn add<E: VectorElement>(
    state: &mut Vec<f64>,
    count: f64,
    sums: impl ExactSizeIterator<Item = f64>,
) -> Result<(), Error> {
    if state.len() == 1 {
        state.resize(sums.len() + 1, 0.0);
    }
    if state.len() != sums.len() + 1 {
        return Err(Error::data_exception(format!(
            "different {} dimensions {} and {}",
            E::TYPE,
            state.len() - 1,
            sums.len()
        )));
    }
    state[0] += count;
    for (total, x) in state[1..].iter_mut().zip(sums) {
        *total += x;
    }
    Ok(())
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_accum(state: Array<'_, f64>, vector: Vector<'_>) -> Result<Vec<f64>, ErrorReport> {
    Ok(accumulate(state, vector)?)
}

/// Adds a vector to a state.
///
/// # Errors
/// The state has other dimensions, or is none.
pub fn accumulate<E: VectorElement>(
    state: Array<'_, f64>,
    vector: Elements<'_, E>,
) -> Result<Vec<f64>, Error> {
    let mut state = state_elements(&state)?;
    let elements = vector.as_slice().iter();
    add::<E>(&mut state, 1.0, elements.map(|x| x.to_f64()))?;
    Ok(state)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_combine(a: Array<'_, f64>, b: Array<'_, f64>) -> Result<Vec<f64>, ErrorReport> {
    let (mut a, b) = (state_elements(&a)?, state_elements(&b)?);
    if b.len() > 1 {
        add::<f32>(&mut a, b[0], b[1..].iter().copied())?;
    }
    Ok(a)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_avg(state: Array<'_, f64>) -> Result<Option<OwnedVector>, ErrorReport> {
    Ok(mean(state)?)
}

/// Returns the mean of the vectors of a state, or `None` if there are none.
///
/// # Errors
/// The state is none, or a mean is out of range.
pub fn mean<E: VectorElement>(state: Array<'_, f64>) -> Result<Option<OwnedElements<E>>, Error> {
    let state = state_elements(&state)?;
    if state[0] == 0.0 {
        return Ok(None);
    }
    let means = state[1..].iter().map(|x| E::nearest((x / state[0]) as f32));
    OwnedElements::new(means.collect()).map(Some)
}
