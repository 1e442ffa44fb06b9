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
    /// The number of the collection that it is of, among those that are searched together.
    pub part: usize,
    pub score: f64,
    /// The cosine similarity, 0 for negative ones.
    pub vector_score: Option<f64>,
    /// The BM25 score, divided by that of the best candidate.
    pub keyword_score: Option<f64>,
    pub vector_rank: Option<u32>,
    pub keyword_rank: Option<u32>,
}

/// The candidates of one collection.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    pub candidates: &'a Candidates,
    pub method: Method,
    /// The cosine similarity that the model gives texts that have nothing to do with each other. In
    /// the score of [`Method::Weighted`] it counts as 0.
    pub baseline: f64,
}

/// Returns the candidates of all collections with their scores, the best first. Equal ones are in
/// the order of their ids.
///
/// The BM25 scores of all collections are divided by the best of all. A list of vector search, or
/// of keyword search, is one list: a rank is the place in it. Cosine similarities of models with
/// other baselines are in the order of what they are above these.
pub fn rank(parts: &[Part<'_>]) -> Vec<Ranked> {
    let mut all: Vec<(usize, Candidate)> = vec![];
    for (number, part) in parts.iter().enumerate() {
        all.extend(part.candidates.iter().map(|found| (number, *found)));
    }
    if parts.len() > 1 {
        let cosine = |part: usize, found: &Candidate| above(found.cosine, parts[part].baseline);
        count_ranks(&mut all, cosine, |found| &mut found.vector_rank);
        let keyword = |_: usize, found: &Candidate| found.keyword.unwrap_or_default();
        count_ranks(&mut all, keyword, |found| &mut found.keyword_rank);
    }
    let keywords = all.iter().filter_map(|(_, found)| found.keyword);
    let best_keyword = keywords.fold(0.0, f64::max);
    let mut ranked: Vec<Ranked> = all
        .iter()
        .map(|(number, found)| scored(*number, found, &parts[*number], best_keyword))
        .collect();
    ranked.sort_unstable_by(|one, other| {
        other
            .score
            .total_cmp(&one.score)
            .then_with(|| (one.key, one.part).cmp(&(other.key, other.part)))
    });
    ranked
}

/// Makes one list of the lists of all parts: the highest value first, and equal ones by their ids.
fn count_ranks(
    all: &mut [(usize, Candidate)],
    value: impl Fn(usize, &Candidate) -> f64,
    rank: impl Fn(&mut Candidate) -> &mut Option<u32>,
) {
    all.sort_unstable_by(|(part, one), (other_part, other)| {
        value(*other_part, other)
            .total_cmp(&value(*part, one))
            .then_with(|| (one.key, *part).cmp(&(other.key, *other_part)))
    });
    let listed = all.iter_mut().filter_map(|(_, found)| rank(found).as_mut());
    (1..).zip(listed).for_each(|(place, rank)| *rank = place);
}

/// Returns how far a cosine similarity is above a baseline, where 1 is as far as it can be.
fn above(cosine: Option<f64>, baseline: f64) -> f64 {
    (cosine.unwrap_or_default() - baseline) / (1.0 - baseline)
}

fn scored(number: usize, candidate: &Candidate, part: &Part<'_>, best_keyword: f64) -> Ranked {
    let vector_score = candidate.cosine.map(|cosine| cosine.clamp(0.0, 1.0));
    let keyword_score = candidate.keyword.map(|score| {
        if best_keyword > 0.0 {
            (score / best_keyword).clamp(0.0, 1.0)
        } else {
            0.0
        }
    });
    let keyword = keyword_score.unwrap_or_default();
    let score = match part.method {
        Method::Vector => vector_score.unwrap_or_default(),
        Method::Keyword => keyword,
        Method::Weighted(weights) => {
            let similar = above(vector_score, part.baseline).max(0.0);
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
        part: number,
        score: score.clamp(0.0, 1.0),
        vector_score,
        keyword_score,
        vector_rank: candidate.vector_rank,
        keyword_rank: candidate.keyword_rank,
    }
}
