//! The measures of one query.

use std::hash::Hash;

use super::Judgements;

/// A measure of a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Recall,
    Precision,
    Ndcg,
    ReciprocalRank,
    AveragePrecision,
}

impl Measure {
    pub const ALL: [Self; 5] = [
        Self::Recall,
        Self::Precision,
        Self::Ndcg,
        Self::ReciprocalRank,
        Self::AveragePrecision,
    ];

    /// Returns the name of the mean over queries: `ndcg@10`, `mrr`.
    pub fn name(self, k: usize) -> String {
        match self {
            Self::Recall => format!("recall@{k}"),
            Self::Precision => format!("precision@{k}"),
            Self::Ndcg => format!("ndcg@{k}"),
            Self::ReciprocalRank => "mrr".to_owned(),
            Self::AveragePrecision => "map".to_owned(),
        }
    }
}

/// The measures of one query, each 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measures {
    pub recall: f64,
    pub precision: f64,
    pub ndcg: f64,
    pub reciprocal_rank: f64,
    pub average_precision: f64,
    /// The number of relevant documents among the first k.
    pub found: usize,
    /// The rank of the first relevant document, from 1.
    pub first_relevant: Option<usize>,
}

impl Measures {
    pub fn get(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Recall => self.recall,
            Measure::Precision => self.precision,
            Measure::Ndcg => self.ndcg,
            Measure::ReciprocalRank => self.reciprocal_rank,
            Measure::AveragePrecision => self.average_precision,
        }
    }
}

/// Measures a ranking of different documents, best first. The first `k` count for recall, precision
/// and nDCG, all of them for the others. A query without a relevant document has 0 everywhere.
pub fn measure<D: Hash + Eq>(ranking: &[D], judgements: &Judgements<D>, k: usize) -> Measures {
    let mut found = 0;
    let mut found_within_k = 0;
    let mut gain = 0.0;
    let mut precisions = 0.0;
    let mut first_relevant = None;
    for (rank, document) in (1..).zip(ranking) {
        let relevance = judgements.of(document);
        if relevance <= 0.0 {
            continue;
        }
        found += 1;
        precisions += found as f64 / rank as f64;
        first_relevant.get_or_insert(rank);
        if rank <= k {
            found_within_k += 1;
            gain += relevance / discount(rank);
        }
    }
    let ideal: f64 = (1..)
        .zip(judgements.ideal().into_iter().take(k))
        .map(|(rank, relevance)| relevance / discount(rank))
        .sum();
    let relevant = judgements.relevant() as f64;
    Measures {
        recall: ratio(found_within_k as f64, relevant),
        precision: ratio(found_within_k as f64, k as f64),
        ndcg: ratio(gain, ideal),
        reciprocal_rank: first_relevant.map_or(0.0, |rank| 1.0 / rank as f64),
        average_precision: ratio(precisions, relevant),
        found: found_within_k,
        first_relevant,
    }
}

fn discount(rank: usize) -> f64 {
    (rank as f64 + 1.0).log2()
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
