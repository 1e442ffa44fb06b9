//! How near two vectors are.

use serde::{Deserialize, Serialize};

/// How near two vectors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    #[default]
    Cosine,
    /// Euclidean distance.
    L2,
    InnerProduct,
}

impl Metric {
    pub const ALL: [Self; 3] = [Self::Cosine, Self::L2, Self::InnerProduct];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::L2 => "l2",
            Self::InnerProduct => "inner_product",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Returns the operator for the distance, as `rag` and pgvector name it.
    pub fn operator(self) -> &'static str {
        match self {
            Self::Cosine => "<=>",
            Self::L2 => "<->",
            Self::InnerProduct => "<#>",
        }
    }

    /// Returns the operator class of an index, as `rag_hnsw` and pgvector name it.
    pub fn operator_class(self) -> &'static str {
        match self {
            Self::Cosine => "vector_cosine_ops",
            Self::L2 => "vector_l2_ops",
            Self::InnerProduct => "vector_ip_ops",
        }
    }

    /// Returns the score of a distance, higher for nearer vectors.
    ///
    /// * `cosine`: `1 - distance`, the cosine similarity, -1 to 1;
    /// * `l2`: `1 / (1 + distance)`, above 0 and at most 1;
    /// * `inner_product`: `(1 + p / (1 + |p|)) / 2` for the product `p`, which is `-distance`,
    ///   between 0 and 1. It is 0.5 for orthogonal vectors.
    pub fn score(self, distance: f64) -> f64 {
        match self {
            Self::Cosine => 1.0 - distance,
            Self::L2 => 1.0 / (1.0 + distance),
            Self::InnerProduct => f64::midpoint(1.0, -distance / (1.0 + distance.abs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_fall_with_the_distance_and_stay_within_one() {
        for (metric, distances) in [
            (Metric::Cosine, [0.0, 0.5, 1.0, 2.0]),
            (Metric::L2, [0.0, 0.1, 5.0, 1e30]),
            (Metric::InnerProduct, [-1e6, -1.0, 0.0, 7.0]),
        ] {
            let scores = distances.map(|distance| metric.score(distance));
            assert!(scores.is_sorted_by(|a, b| a > b), "{metric:?} {scores:?}");
            assert!(scores.iter().all(|score| (-1.0..=1.0).contains(score)));
        }
        assert_eq!(Metric::InnerProduct.score(0.0), 0.5);
        assert_eq!(Metric::InnerProduct.score(-1.0), 0.75);
        assert_eq!(Metric::L2.score(1.0), 0.5);
    }
}
