//! Reduces the output of a graph to one vector of length 1 per text.

use rag_model::settings::Pooling;
use rag_protocol::{EngineError, ErrorKind};

/// Pools the vectors of one text's tokens. `hidden` is `[padded tokens, dimensions]`, of which
/// `tokens` count.
pub fn pool(pooling: Pooling, hidden: &[f32], tokens: usize, dimensions: usize) -> Vec<f32> {
    let mut vectors = hidden.chunks_exact(dimensions).take(tokens);
    match pooling {
        Pooling::Cls => first(vectors.next(), dimensions),
        Pooling::Last => first(vectors.next_back(), dimensions),
        Pooling::Max => {
            let mut largest = first(vectors.next(), dimensions);
            for vector in vectors {
                for (largest, value) in largest.iter_mut().zip(vector) {
                    *largest = largest.max(*value);
                }
            }
            largest
        }
        Pooling::Mean => {
            let mut sum = vec![0.0; dimensions];
            for vector in vectors {
                for (sum, value) in sum.iter_mut().zip(vector) {
                    *sum += value;
                }
            }
            // a layer that follows needs more than the direction
            let count = tokens.max(1) as f32;
            sum.iter_mut().for_each(|sum| *sum /= count);
            sum
        }
    }
}

/// Returns a copy of a vector, or zeros.
fn first(vector: Option<&[f32]>, dimensions: usize) -> Vec<f32> {
    vector.map_or_else(|| vec![0.0; dimensions], <[f32]>::to_vec)
}

/// Scales a vector to length 1.
///
/// # Errors
/// `Internal` if the vector has no direction: all zero, or not finite.
pub fn normalise(vector: &mut [f32]) -> Result<(), EngineError> {
    let length = check_direction(vector)?;
    for value in vector {
        *value = (f64::from(*value) / length) as f32;
    }
    Ok(())
}

/// Returns the length of a vector.
///
/// # Errors
/// See [`normalise`].
pub fn check_direction(vector: &[f32]) -> Result<f64, EngineError> {
    let length = vector
        .iter()
        .map(|v| f64::from(*v) * f64::from(*v))
        .sum::<f64>()
        .sqrt();
    if !length.is_finite() || length < f64::from(f32::MIN_POSITIVE) {
        return Err(EngineError::new(
            ErrorKind::Internal,
            "the model returned a vector without a direction",
        )
        .detail(format!("Its length is {length}.")));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDDEN: [f32; 6] = [1.0, 2.0, 3.0, 6.0, 100.0, 100.0];

    #[test]
    fn padding_does_not_count() {
        let mut mean = pool(Pooling::Mean, &HIDDEN, 2, 2);
        normalise(&mut mean).unwrap();
        assert_eq!(mean, [1.0 / 5f32.sqrt(), 2.0 / 5f32.sqrt()]);
        assert_eq!(pool(Pooling::Cls, &HIDDEN, 2, 2), [1.0, 2.0]);
        assert_eq!(pool(Pooling::Last, &HIDDEN, 2, 2), [3.0, 6.0]);
        assert_eq!(
            pool(Pooling::Max, &[1.0, 6.0, 3.0, 2.0, 100.0, 100.0], 2, 2),
            [3.0, 6.0]
        );
    }

    #[test]
    fn a_vector_without_direction_is_an_error() {
        for mut vector in [[0.0, 0.0], [f32::NAN, 1.0], [f32::INFINITY, 0.0]] {
            assert_eq!(
                normalise(&mut vector).unwrap_err().kind,
                ErrorKind::Internal
            );
        }
    }
}
