//! Ranks and chosen results, against what their definitions say.

use proptest::prelude::*;
use rag_definition::retriever::Weights;
use rag_retrieval::fusion::{self, Candidates, ChunkKey, Limits, Method, Part, Ranked, choose};

/// Ranks the candidates of one collection.
fn rank(candidates: &Candidates, method: Method, baseline: f64) -> Vec<Ranked> {
    fusion::rank(&[Part {
        candidates,
        method,
        baseline,
    }])
}

fn key(chunk: u8, document: u8) -> ChunkKey {
    ChunkKey {
        chunk: [chunk; 16],
        document: [document; 16],
    }
}

const WEIGHTS: Weights = Weights {
    vector: 0.7,
    keyword: 0.3,
};

const TOP_10: Limits = Limits {
    top_k: 10,
    threshold: None,
    per_document: None,
    mmr_lambda: None,
};

fn chunks(ranked: &[Ranked]) -> Vec<u8> {
    ranked.iter().map(|chunk| chunk.key.chunk[0]).collect()
}

/// Chunk 1 is similar, chunk 2 has the words, chunk 3 has some of both.
fn example() -> Candidates {
    let mut candidates = Candidates::default();
    candidates.add_vector_list(vec![(key(3, 2), 0.5), (key(1, 1), 0.8)], 10);
    candidates.add_keyword_list(vec![(key(2, 2), 12.0), (key(3, 2), 9.0)], 10);
    candidates.set_cosine(key(2, 2), -0.1);
    candidates.set_keyword(key(1, 1), 0.0);
    candidates
}

#[test]
fn weighted_sum_is_that_of_the_exact_scores() {
    let ranked = rank(&example(), Method::Weighted(WEIGHTS), 0.0);
    assert_eq!(chunks(&ranked), [3, 1, 2]);
    let expected = [0.7 * 0.5 + 0.3 * 0.75, 0.7 * 0.8, 0.3];
    for (chunk, expected) in ranked.iter().zip(expected) {
        assert!((chunk.score - expected).abs() < 1e-12, "{chunk:?}");
    }
    assert_eq!(ranked[2].vector_score, Some(0.0));
    assert_eq!(ranked[1].keyword_score, Some(0.0));
    assert_eq!(
        (ranked[0].vector_rank, ranked[0].keyword_rank),
        (Some(2), Some(2))
    );
    assert_eq!(
        (ranked[1].vector_rank, ranked[1].keyword_rank),
        (Some(1), None)
    );
}

#[test]
fn baseline_counts_as_zero() {
    let ranked = rank(&example(), Method::Weighted(WEIGHTS), 0.6);
    let similar = ranked.iter().find(|chunk| chunk.key.chunk[0] == 1).unwrap();
    assert!((similar.score - 0.7 * 0.5).abs() < 1e-12);
    assert_eq!(similar.vector_score, Some(0.8));
    let less = ranked.iter().find(|chunk| chunk.key.chunk[0] == 3).unwrap();
    assert!((less.score - 0.3 * 0.75).abs() < 1e-12);
}

#[test]
fn reciprocal_ranks_are_those_of_the_lists() {
    let ranked = rank(&example(), Method::ReciprocalRank, 0.0);
    // 3 is second in both lists, 1 and 2 are first in one
    assert_eq!(chunks(&ranked), [3, 1, 2]);
    assert!((ranked[0].score - 61.0 / 62.0).abs() < 1e-12);
    assert_eq!(ranked[1].score, 0.5);
}

#[test]
fn without_matching_words_keywords_count_nothing() {
    let mut candidates = Candidates::default();
    candidates.add_vector_list(vec![(key(1, 1), 0.4)], 10);
    candidates.set_keyword(key(1, 1), 0.0);
    let ranked = rank(&candidates, Method::Weighted(WEIGHTS), 0.0);
    assert_eq!(ranked[0].keyword_score, Some(0.0));
    assert!((ranked[0].score - 0.28).abs() < 1e-12);
}

#[test]
fn lists_are_cut_after_they_are_ordered() {
    let mut candidates = Candidates::default();
    let list = vec![(key(2, 1), 0.5), (key(1, 1), 0.5), (key(3, 1), 0.9)];
    candidates.add_vector_list(list, 2);
    candidates.set_keyword(key(2, 1), 3.0); // no candidate
    let ranked = rank(&candidates, Method::Vector, 0.0);
    assert_eq!(chunks(&ranked), [3, 1]);
    assert!(candidates.lacks_keyword(key(1, 1)) && !candidates.lacks_keyword(key(2, 1)));
}

#[test]
fn documents_are_limited() {
    let mut candidates = Candidates::default();
    let documents = [(1, 1), (2, 1), (3, 1), (4, 2)];
    let list = (0..).zip(documents).map(|(place, (chunk, document))| {
        let cosine = 0.9 - f64::from(place) / 10.0;
        (key(chunk, document), cosine)
    });
    candidates.add_vector_list(list.collect(), 10);
    let ranked = rank(&candidates, Method::Vector, 0.0);
    let limits = Limits {
        per_document: Some(1),
        ..TOP_10
    };
    let chosen = choose(&ranked, limits, |_, _| unreachable!());
    assert_eq!(chunks(&chosen.results), [1, 4]);
    assert!(chosen.needs_more);
    let two = Limits { top_k: 2, ..limits };
    assert!(!choose(&ranked, two, |_, _| unreachable!()).needs_more);
}

#[test]
fn diverse_results_leave_out_copies() {
    let mut candidates = Candidates::default();
    let list = vec![
        (key(1, 1), 0.9),
        (key(2, 2), 0.89), // a copy of 1
        (key(3, 3), 0.6),
    ];
    candidates.add_vector_list(list, 10);
    let ranked = rank(&candidates, Method::Vector, 0.0);
    let similarity = |one: usize, other: usize| {
        if ranked[one].key.chunk[0] + ranked[other].key.chunk[0] == 3 {
            1.0
        } else {
            0.1
        }
    };
    let limits = Limits {
        mmr_lambda: Some(0.5),
        ..TOP_10
    };
    let chosen = choose(&ranked, limits, similarity);
    assert_eq!(chunks(&chosen.results), [1, 3, 2]);
}

/// Up to 40 chunks of 8 documents: cosine, BM25 score, and which lists have them.
fn found() -> impl Strategy<Value = Vec<(f64, f64, u8)>> {
    proptest::collection::vec((-1.0..1.0_f64, 0.0..30.0_f64, 1..4_u8), 0..40)
}

fn candidates(found: &[(f64, f64, u8)]) -> Candidates {
    let mut candidates = Candidates::default();
    let keyed = || (0..).zip(found).map(|(n, chunk)| (key(n, n % 8), chunk));
    let list = |bit: u8, score: fn(&(f64, f64, u8)) -> f64| {
        keyed()
            .filter(|(_, chunk)| chunk.2 & bit != 0)
            .map(|(key, chunk)| (key, score(chunk)))
            .collect()
    };
    candidates.add_vector_list(list(1, |chunk| chunk.0), 80);
    candidates.add_keyword_list(list(2, |chunk| chunk.1), 80);
    for (key, chunk) in keyed() {
        candidates.set_cosine(key, chunk.0);
        candidates.set_keyword(key, chunk.1);
    }
    candidates
}

proptest! {
    #[test]
    fn scores_are_fractions_in_descending_order(
        found in found(), vector in 0.0..=1.0_f64, baseline in 0.0..0.9_f64
    ) {
        let weights = Weights { vector, keyword: 1.0 - vector };
        for method in [
            Method::Vector, Method::Keyword, Method::Weighted(weights), Method::ReciprocalRank,
        ] {
            let ranked = rank(&candidates(&found), method, baseline);
            prop_assert_eq!(ranked.len(), found.len());
            prop_assert!(ranked.iter().all(|chunk| (0.0..=1.0).contains(&chunk.score)));
            let is_sorted = ranked.is_sorted_by(|one, other| {
                one.score > other.score || one.score == other.score && one.key < other.key
            });
            prop_assert!(is_sorted);
        }
    }

    #[test]
    fn collections_are_ranked_as_one_would_be(
        found in found(), other in found(), vector in 0.0..=1.0_f64, baseline in 0.0..0.9_f64
    ) {
        let weights = Weights { vector, keyword: 1.0 - vector };
        let all: Vec<_> = found.iter().chain(&other).copied().collect();
        let (one, together) = (candidates(&found), candidates(&all));
        let mut rest = Candidates::default();
        let is_rest = |candidate: &&fusion::Candidate| {
            one.iter().all(|known| known.key != candidate.key)
        };
        let list = |of: fn(&fusion::Candidate) -> Option<f64>,
                    rank: fn(&fusion::Candidate) -> Option<u32>| {
            let listed = together.iter().filter(is_rest).filter(move |found| rank(found).is_some());
            listed.map(|found| (found.key, of(found).unwrap())).collect::<Vec<_>>()
        };
        rest.add_vector_list(list(|found| found.cosine, |found| found.vector_rank), 80);
        rest.add_keyword_list(list(|found| found.keyword, |found| found.keyword_rank), 80);
        for found in together.iter().filter(is_rest) {
            rest.set_cosine(found.key, found.cosine.unwrap());
            rest.set_keyword(found.key, found.keyword.unwrap());
        }
        for method in [
            Method::Vector, Method::Keyword, Method::Weighted(weights), Method::ReciprocalRank,
        ] {
            let part = |candidates| Part { candidates, method, baseline };
            let apart = fusion::rank(&[part(&one), part(&rest)]);
            let expected = rank(&together, method, baseline);
            prop_assert_eq!(apart.len(), expected.len());
            for (chunk, expected) in apart.iter().zip(&expected) {
                prop_assert_eq!(chunk.part, usize::from(chunk.key.chunk[0] >= found.len() as u8));
                prop_assert_eq!(Ranked { part: 0, ..*chunk }, *expected);
            }
        }
    }

    #[test]
    fn chosen_are_the_first_that_are_allowed(
        found in found(), top_k in 1..20_usize, threshold in 0.0..1.0_f64, cap in 1..4_usize
    ) {
        let ranked = rank(&candidates(&found), Method::Weighted(WEIGHTS), 0.0);
        let limits = Limits {
            top_k, threshold: Some(threshold), per_document: Some(cap), mmr_lambda: None,
        };
        let chosen = choose(&ranked, limits, |_, _| unreachable!());
        let mut expected: Vec<Ranked> = vec![];
        for chunk in &ranked {
            let of_document = expected.iter().filter(|known| {
                known.key.document == chunk.key.document
            });
            if chunk.score >= threshold && of_document.count() < cap && expected.len() < top_k {
                expected.push(*chunk);
            }
        }
        prop_assert_eq!(chosen.results, expected);
    }

    #[test]
    fn with_lambda_one_diversity_counts_nothing(
        found in found(), top_k in 1..20_usize, cap in 1..4_usize
    ) {
        let ranked = rank(&candidates(&found), Method::Weighted(WEIGHTS), 0.0);
        let limits = Limits { top_k, threshold: None, per_document: Some(cap), mmr_lambda: None };
        let plain = choose(&ranked, limits, |_, _| unreachable!());
        let diverse = Limits { mmr_lambda: Some(1.0), ..limits };
        prop_assert_eq!(choose(&ranked, diverse, |_, _| 1.0).results, plain.results);
    }
}
