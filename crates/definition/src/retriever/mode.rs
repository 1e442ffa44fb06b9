//! How chunks are found.

use std::fmt;

use serde::{Serialize, Serializer};

/// The maximum number of results of a search.
pub const MAX_TOP_K: i32 = 10_000;
/// The maximum number of chunks before and after a result that are joined to it.
pub const MAX_NEIGHBOURS: i32 = 10;

/// The sum of two weights may differ from 1 by this much.
const WEIGHT_TOLERANCE: f64 = 0.01;

/// How chunks are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetrievalMode {
    Vector,
    Keyword,
    Hybrid,
}

impl RetrievalMode {
    pub const ALL: [Self; 3] = [Self::Vector, Self::Keyword, Self::Hybrid];

    pub fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Keyword => "keyword",
            Self::Hybrid => "hybrid",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

impl fmt::Display for RetrievalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parts of the two scores in the score of mode `hybrid`. Their sum is about 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    pub vector: f64,
    pub keyword: f64,
}

impl Weights {
    /// Returns the weights for what a user gave. If one is given, the other is 1 minus it.
    ///
    /// # Errors
    /// Their sum is not 1.
    pub fn new(vector: Option<f64>, keyword: Option<f64>) -> Result<Option<Self>, WeightSum> {
        let (vector, keyword) = match (vector, keyword) {
            (None, None) => return Ok(None),
            (Some(vector), None) => (vector, rest(vector)),
            (None, Some(keyword)) => (rest(keyword), keyword),
            (Some(vector), Some(keyword)) => (vector, keyword),
        };
        let sum = vector + keyword;
        // the sum of two decimal fractions is not exact
        if (sum - 1.0).abs() > WEIGHT_TOLERANCE + f64::EPSILON {
            return Err(WeightSum(sum));
        }
        Ok(Some(Self { vector, keyword }))
    }
}

/// Returns 1 minus a weight: 0.3 for 0.7, and not the next number to it.
fn rest(weight: f64) -> f64 {
    const DECIMALS: f64 = 1e12;
    ((1.0 - weight) * DECIMALS).round() / DECIMALS
}

/// The sum of two weights, which is not 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightSum(pub f64);

/// How mode `hybrid` combines the two lists of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fusion {
    /// The weighted sum of both scores.
    #[default]
    Weighted,
    /// Reciprocal rank fusion: by the places in both lists.
    ReciprocalRank,
}

impl Fusion {
    pub const ALL: [Self; 2] = [Self::Weighted, Self::ReciprocalRank];

    pub fn name(self) -> &'static str {
        match self {
            Self::Weighted => "weighted",
            Self::ReciprocalRank => "rrf",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fusion| fusion.name() == name)
    }
}

impl Serialize for Fusion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
