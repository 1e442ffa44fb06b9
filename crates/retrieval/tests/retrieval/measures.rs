//! The measures of rankings, by hand and as trec_eval computes them.
#![allow(clippy::unwrap_used)]

use rag_retrieval::evaluation::{InvalidRelevance, Judgements, Measure, measure};

fn judgements(graded: &[(u32, f64)]) -> Judgements<u32> {
    let mut judgements = Judgements::new();
    for (document, relevance) in graded {
        judgements.add(*document, *relevance).unwrap();
    }
    judgements
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

#[test]
fn measures_of_a_ranking_by_hand() {
    // documents 1 (very) and 2 and 3 are relevant; 3 is never found
    let judged = judgements(&[(1, 2.0), (2, 1.0), (3, 1.0), (4, 0.0)]);
    let measures = measure(&[9, 1, 4, 2], &judged, 3);
    assert_eq!((measures.found, measures.first_relevant), (1, Some(2)));
    assert_close(measures.recall, 1.0 / 3.0);
    assert_close(measures.precision, 1.0 / 3.0);
    assert_close(measures.reciprocal_rank, 0.5);
    assert_close(measures.average_precision, (1.0 / 2.0 + 2.0 / 4.0) / 3.0);
    let ideal = 2.0 + 1.0 / 3_f64.log2() + 1.0 / 4_f64.log2();
    assert_close(measures.ndcg, 2.0 / 3_f64.log2() / ideal);
}

#[test]
fn a_ranking_shorter_than_k_lacks_precision() {
    let measures = measure(&[1], &judgements(&[(1, 1.0)]), 10);
    assert_close(measures.precision, 0.1);
    assert_close(measures.ndcg, 1.0);
}

#[test]
fn nothing_found_and_nothing_relevant_are_zero() {
    for measures in [
        measure(&[], &judgements(&[(1, 1.0)]), 10),
        measure(&[1], &judgements(&[(1, 0.0)]), 10),
    ] {
        assert!(Measure::ALL.iter().all(|m| measures.get(*m) == 0.0));
    }
}

#[test]
fn relevance_is_checked() {
    let mut judged = Judgements::new();
    assert_eq!(judged.add(1, -1.0), Err(InvalidRelevance::Negative));
    assert_eq!(judged.add(1, f64::NAN), Err(InvalidRelevance::NotFinite));
    assert_eq!(
        judged.add(1, f64::INFINITY),
        Err(InvalidRelevance::NotFinite)
    );
    assert_eq!(judged.relevant(), 0);
}

/// Each line of the file: k, the ranking, the judgements, and what pytrec_eval-terrier 0.5.11
/// returned for recall_k, P_k, ndcg_cut_k, recip_rank and map.
#[test]
fn measures_are_those_of_trec_eval() {
    let lines = include_str!("trec_eval.txt").lines();
    let mut compared = 0;
    for line in lines {
        let fields: Vec<&str> = line.split('|').collect();
        let [k, ranking, graded, expected] = fields[..] else {
            panic!("{line}");
        };
        let ranking: Vec<u32> = ranking
            .split_whitespace()
            .map(|d| d.parse().unwrap())
            .collect();
        let graded: Vec<(u32, f64)> = graded
            .split_whitespace()
            .map(|pair| {
                let (document, relevance) = pair.split_once(':').unwrap();
                (document.parse().unwrap(), relevance.parse().unwrap())
            })
            .collect();
        let found = measure(&ranking, &judgements(&graded), k.parse().unwrap());
        for (measure, expected) in Measure::ALL.iter().zip(expected.split_whitespace()) {
            assert_close(found.get(*measure), expected.parse().unwrap());
            compared += 1;
        }
    }
    assert_eq!(compared, 300);
}
