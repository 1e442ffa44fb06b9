//! Late interaction: how well a document matches a query, by the vectors of their tokens.
//!
//! Each token of the query looks for the token of the document that is nearest to it. The score is
//! the mean of these cosine similarities (MaxSim, as in ColBERT: arXiv 2004.12832, divided by the
//! number of tokens of the query). Special tokens count like others.

use rag_protocol::EngineError;

use super::pooling::normalise;

/// Number of sums that are computed side by side.
const LANES: usize = 16;

/// The vectors of the tokens of a text, each of length 1.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenVectors {
    elements: Vec<f32>,
    dimensions: usize,
}

impl TokenVectors {
    /// Scales vectors of `dimensions` elements, one after another, to length 1.
    ///
    /// # Errors
    /// `Internal` if a vector has no direction: all zero, or not finite.
    pub fn of(mut elements: Vec<f32>, dimensions: usize) -> Result<Self, EngineError> {
        elements
            .chunks_exact_mut(dimensions)
            .try_for_each(normalise)?;
        Ok(Self {
            elements,
            dimensions,
        })
    }

    fn all(&self) -> impl Iterator<Item = &[f32]> {
        self.elements.chunks_exact(self.dimensions)
    }

    /// Returns the mean over these tokens of the cosine similarity to the nearest token of another
    /// text, -1 to 1. Without tokens it is -1.
    pub fn best_matches(&self, other: &Self) -> f32 {
        let tokens = self.all().count();
        if tokens == 0 || other.elements.is_empty() {
            return -1.0;
        }
        let best = |token: &[f32]| {
            let similarities = other.all().map(|vector| product(token, vector));
            f64::from(similarities.fold(-1.0, f32::max))
        };
        // a rounded cosine can be larger than 1
        (self.all().map(best).sum::<f64>() / tokens as f64).min(1.0) as f32
    }
}

/// Returns the inner product. The order of its sums is the same on each processor.
fn product(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use rag_protocol::ErrorKind;

    use super::*;

    fn vectors(elements: &[f32]) -> TokenVectors {
        TokenVectors::of(elements.to_vec(), 2).unwrap()
    }

    #[test]
    fn each_token_finds_its_nearest() {
        let query = vectors(&[3.0, 0.0, 0.0, 1.0]);
        let document = vectors(&[1.0, 1.0, 2.0, 0.0, -1.0, 0.0]);
        let expected = (1.0 + 0.5f32.sqrt()) / 2.0;
        assert!((query.best_matches(&document) - expected).abs() < 1e-6);
        assert!((query.best_matches(&query) - 1.0).abs() < 1e-6);
        let away = vectors(&[-1.0, -1.0]);
        assert!((query.best_matches(&away) + 0.5f32.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn without_tokens_nothing_matches() {
        let (none, some) = (vectors(&[]), vectors(&[1.0, 0.0]));
        assert_eq!(none.best_matches(&some), -1.0);
        assert_eq!(some.best_matches(&none), -1.0);
    }

    #[test]
    fn a_token_without_direction_is_an_error() {
        let error = TokenVectors::of(vec![1.0, 0.0, 0.0, 0.0], 2).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal);
    }

    #[test]
    fn products_of_any_length() {
        for length in [0, 1, 15, 16, 17, 40] {
            let a: Vec<f32> = (0..length).map(|i| i as f32).collect();
            let expected: f32 = a.iter().map(|x| x * x).sum();
            assert_eq!(product(&a, &a), expected, "{length}");
        }
    }
}
