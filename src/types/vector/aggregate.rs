//! `avg(vector)`. Its state is `{count, sum of element 1, ...}` in double precision. `sum(vector)`
//! needs no code of its own: it is `vector_add`.

use pgrx::{Array, pg_extern, pg_sys::panic::ErrorReport};

use super::{MAX_DIMENSIONS, OwnedVector, Vector};
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

fn add(
    state: &mut Vec<f64>,
    count: f64,
    sums: impl ExactSizeIterator<Item = f64>,
) -> Result<(), Error> {
    if state.len() == 1 {
        state.resize(sums.len() + 1, 0.0);
    }
    if state.len() != sums.len() + 1 {
        return Err(Error::data_exception(format!(
            "different vector dimensions {} and {}",
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
    let mut state = state_elements(&state)?;
    add(
        &mut state,
        1.0,
        vector.as_slice().iter().map(|x| f64::from(*x)),
    )?;
    Ok(state)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_combine(a: Array<'_, f64>, b: Array<'_, f64>) -> Result<Vec<f64>, ErrorReport> {
    let (mut a, b) = (state_elements(&a)?, state_elements(&b)?);
    if b.len() > 1 {
        add(&mut a, b[0], b[1..].iter().copied())?;
    }
    Ok(a)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_avg(state: Array<'_, f64>) -> Result<Option<OwnedVector>, ErrorReport> {
    let state = state_elements(&state)?;
    if state[0] == 0.0 {
        return Ok(None);
    }
    Ok(OwnedVector::new(state[1..].iter().map(|x| (x / state[0]) as f32).collect()).map(Some)?)
}
