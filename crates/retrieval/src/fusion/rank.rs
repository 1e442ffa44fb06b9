use rag_definition::retriever::Weights;

use super::{Candidate, Candidates, ChunkKey};

/// The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).
const RRF_K: f64 = 60.0;

/// How a candidate gets its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// The cosine similarity.
    Vector,
    /// The BM25 score, divided by that of the best candidate.
    Keyword,
    /// A weighted sum of both.
    Weighted(Weights),
    /// Reciprocal rank fusion, divided by the score of a chunk that is first in both lists.
    ReciprocalRank,
}

/// A candidate with its score. All scores are between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    pub key: ChunkKey,
    pub score: f64,
    /// The cosine similarity, 0 for negative ones.
    pub vector_score: Option<f64>,
    /// The BM25 score, divided by that of the best candidate.
    pub keyword_score: Option<f64>,
    pub vector_rank: Option<u32>,
    pub keyword_rank: Option<u32>,
}

/// Returns the candidates with their scores, the best first. Equal ones are in the order of their
/// ids.
///
/// `baseline` is the cosine similarity that the model gives texts that have nothing to do with each
/// other. In the score of [`Method::Weighted`] it counts as 0.
pub fn rank(candidates: &Candidates, method: Method, baseline: f64) -> Vec<Ranked> {
    let best_keyword = candidates
        .iter()
        .filter_map(|candidate| candidate.keyword)
        .fold(0.0, f64::max);
    let mut ranked: Vec<Ranked> = candidates
        .iter()
        .map(|candidate| scored(candidate, method, baseline, best_keyword))
        .collect();
    ranked.sort_unstable_by(|one, other| {
        other
            .score
            .total_cmp(&one.score)
            .then_with(|| one.key.cmp(&other.key))
    });
    ranked
}

fn scored(candidate: &Candidate, method: Method, baseline: f64, best_keyword: f64) -> Ranked {
    let vector_score = candidate.cosine.map(|cosine| cosine.clamp(0.0, 1.0));
    let keyword_score = candidate.keyword.map(|score| {
        if best_keyword > 0.0 {
            (score / best_keyword).clamp(0.0, 1.0)
        } else {
            0.0
        }
    });
    let (vector, keyword) = (
        vector_score.unwrap_or_default(),
        keyword_score.unwrap_or_default(),
    );
    let score = match method {
        Method::Vector => vector,
        Method::Keyword => keyword,
        Method::Weighted(weights) => {
            let similar = ((vector - baseline) / (1.0 - baseline)).max(0.0);
            weights.vector * similar + weights.keyword * keyword
        }
        Method::ReciprocalRank => {
            let part = |rank: Option<u32>| rank.map_or(0.0, |rank| 1.0 / (RRF_K + f64::from(rank)));
            let first_in_both = 2.0 / (RRF_K + 1.0);
            (part(candidate.vector_rank) + part(candidate.keyword_rank)) / first_in_both
        }
    };
    Ranked {
        key: candidate.key,
        score: score.clamp(0.0, 1.0),
        vector_score,
        keyword_score,
        vector_rank: candidate.vector_rank,
        keyword_rank: candidate.keyword_rank,
    }
}
