//! Queries with patterns and conditions, compared with the scores of each document by itself.

use crate::support::{CREATION, Model, Random, random_terms, row};
use rag_bm25::{
    Builder, Condition, CountedPattern, Creation, Match, NumberedPhrase, Pattern, Phrase, Query,
    SegmentCache, Terms, Typo, create, remove, rows_that_may_hold,
};
use rag_pages::{MemoryPages, Tid};

const WORDS: usize = 400;

/// Returns a term of `random_terms`.
fn term(random: &mut Random) -> String {
    format!("w{}", random.below(WORDS))
}

fn pattern(random: &mut Random) -> Pattern {
    let typo = |random: &mut Random| {
        let word = format!("{}x", term(random));
        Typo::new(&word, 1 + random.below(2) as u8).unwrap()
    };
    match random.below(5) {
        0 => Pattern::Exact(term(random).into_bytes()),
        1 => Pattern::Prefix(format!("w{}", random.below(40)).into_bytes()),
        2 => Pattern::Typo(typo(random)),
        3 => Pattern::Prefix(b"none".to_vec()),
        _ => Pattern::Any(vec![
            Pattern::Exact(term(random).into_bytes()),
            Pattern::Prefix(term(random).into_bytes()),
            Pattern::Typo(typo(random)),
            Pattern::Typo(typo(random)),
        ]),
    }
}

/// A number of a query, and its term.
type ExactTerm = (u32, Vec<u8>);

fn phrase(random: &mut Random, exact: &[ExactTerm]) -> NumberedPhrase {
    let mut phrase = Phrase::new(random.below(3) as u32);
    let mut used = vec![];
    for offset in 0..2 {
        let (number, term) = &exact[random.below(exact.len())];
        phrase.add(term, offset, 1).unwrap();
        used.push((*number, term.as_slice()));
    }
    phrase.finish().unwrap();
    let numbers = phrase.terms().iter().map(|(term, _)| {
        let known = used.iter().find(|(_, known)| *known == term);
        known.unwrap().0
    });
    NumberedPhrase {
        numbers: numbers.collect(),
        phrase,
    }
}

fn part(random: &mut Random, numbers: usize, exact: &[ExactTerm], depth: usize) -> Match {
    let number = |random: &mut Random| random.below(numbers) as u32;
    let parts = |random: &mut Random| {
        let count = 1 + random.below(3);
        (0..count)
            .map(|_| part(random, numbers, exact, depth + 1))
            .collect()
    };
    let kinds = match (depth < 2, exact.is_empty()) {
        (true, false) => 6,
        (true, true) => 4,
        (false, _) => 2,
    };
    match random.below(kinds) {
        0 | 1 => Match::Term(number(random)),
        2 => Match::Any(parts(random)),
        3 => Match::All(parts(random)),
        _ => Match::Phrase(phrase(random, exact)),
    }
}

/// Returns a query with patterns and a condition, both at random.
fn random_query(random: &mut Random) -> Query {
    let length = random.below(4);
    let terms = random_terms(random, length, WORDS);
    let patterns: Vec<CountedPattern> = (0..1 + random.below(4))
        .map(|_| CountedPattern {
            pattern: pattern(random),
            weight: random.below(3) as u32,
        })
        .collect();
    let numbers = terms.len() + patterns.len();
    let exact = patterns
        .iter()
        .filter_map(|counted| match &counted.pattern {
            Pattern::Exact(term) => Some(term.clone()),
            _ => None,
        });
    let terms_first = terms.iter().map(|(term, _)| term.to_vec());
    let names: Vec<Vec<u8>> = terms_first.chain(exact).collect();
    let number_of = |term: &Vec<u8>| {
        let counted = CountedPattern {
            pattern: Pattern::Exact(term.clone()),
            weight: 0,
        };
        let is_same = |known: &CountedPattern| known.pattern == counted.pattern;
        let place = patterns
            .iter()
            .position(is_same)
            .map(|place| terms.len() + place);
        terms.number(term).or(place).unwrap() as u32
    };
    let exact: Vec<ExactTerm> = names
        .iter()
        .map(|term| (number_of(term), term.clone()))
        .collect();
    let condition = (random.below(4) > 0).then(|| Condition {
        required: (0..random.below(3))
            .map(|_| part(random, numbers, &exact, 0))
            .collect(),
        excluded: (0..random.below(3))
            .map(|_| part(random, numbers, &exact, 0))
            .collect(),
    });
    Query {
        terms,
        patterns,
        condition,
    }
}

fn verify(model: &Model, pages: &MemoryPages, cache: &SegmentCache, random: &mut Random) {
    let query = random_query(random);
    model.verify(pages, cache, &query);
    for share in [0.01, 0.3, 1.0] {
        model.verify_given(pages, cache, &query, random, share);
    }
    let Some(condition) = &query.condition else {
        return;
    };
    let rows: Vec<Tid> = model.documents.keys().rev().copied().collect();
    let holds = rows_that_may_hold(pages, cache, &query, &rows).unwrap();
    if model.documents.values().any(Terms::has_positions) {
        return; // of which `verify` knows more than `may_hold`
    }
    for (row, holds) in rows.iter().zip(holds) {
        let has_parts = CREATION.parameters.has_parts;
        let document = &model.documents[row];
        let found = query.as_ref().frequencies_in(document, has_parts);
        let has = |number: u32| found[number as usize] > 0;
        assert_eq!(condition.may_hold(&has), holds, "{query:?} {row:?}");
    }
}

#[test]
fn documents_of_a_segment_are_found_exactly() {
    let mut random = Random(31);
    for (documents, length) in [(1, 5), (90, 30), (3000, 30), (9000, 12)] {
        let (pages, mut model) = (MemoryPages::new(), Model::default());
        let mut builder = Builder::new(&pages, &CREATION, 1 << 30);
        for number in 0..documents {
            let length = 1 + random.below(length);
            let terms = random_terms(&mut random, length, WORDS);
            builder.add(row(number), &terms).unwrap();
            model.documents.insert(row(number), terms);
        }
        builder.finish().unwrap();
        let cache = SegmentCache::default();
        for round in 0..12 {
            verify(&model, &pages, &cache, &mut random);
            if round == 6 {
                let kept = |tid: &Tid| tid.block % 3 != 1 && tid.offset % 5 != 2;
                model.documents.retain(|tid, _| kept(tid));
                remove(&pages, &mut |tid| !kept(&tid)).unwrap();
            }
        }
    }
}

#[test]
fn pending_documents_and_several_segments_are_found_exactly() {
    let mut random = Random(32);
    let (pages, mut model) = (MemoryPages::new(), Model::default());
    create(&pages, &CREATION);
    let cache = SegmentCache::default();
    for number in 0..2500 {
        // some are several records
        let length = match number % 60 {
            0 => 3000,
            _ => random.below(40),
        };
        let words = if length > 100 { 20_000 } else { WORDS };
        let terms = random_terms(&mut random, length, words);
        model.insert(&pages, row(number), terms);
        if number % 120 == 7 {
            verify(&model, &pages, &cache, &mut random);
        }
        if number % 400 == 399 {
            let kept = |tid: &Tid| tid.offset % 7 != 3;
            model.documents.retain(|tid, _| kept(tid));
            remove(&pages, &mut |tid| !kept(&tid)).unwrap();
        }
    }
}

/// Returns terms of which it is known where they are. There are few, so that phrases are found.
fn placed_terms(random: &mut Random, length: usize) -> Terms {
    let mut terms = Terms::with_positions();
    for place in 0..length as u32 {
        let term = format!("w{}", random.word(WORDS));
        terms.add_at(term.as_bytes(), Some(place)).unwrap();
    }
    terms.finish();
    terms
}

#[test]
fn phrases_are_found_exactly_if_places_are_known() {
    let mut random = Random(33);
    let creation = Creation {
        has_positions: true,
        ..CREATION
    };
    let (pages, mut model) = (MemoryPages::new(), Model::default());
    let mut builder = Builder::new(&pages, &creation, 1 << 30);
    for number in 0..3000 {
        let length = 1 + random.below(30);
        let terms = placed_terms(&mut random, length);
        builder.add(row(number), &terms).unwrap();
        model.documents.insert(row(number), terms);
    }
    builder.finish().unwrap();
    let cache = SegmentCache::default();
    for number in 3000..3600 {
        let length = if number % 90 == 0 {
            4000
        } else {
            1 + random.below(30)
        };
        let terms = placed_terms(&mut random, length);
        model.insert(&pages, row(number), terms);
        if number % 12 == 0 {
            verify(&model, &pages, &cache, &mut random);
        }
    }
}

#[test]
fn a_pattern_counts_as_one_term() {
    let pages = MemoryPages::new();
    let mut model = Model::default();
    create(&pages, &CREATION);
    let documents = [
        "config configure",
        "config",
        "conflict",
        "other",
        "configure",
    ];
    for (number, words) in (0..).zip(documents) {
        let mut terms = Terms::new();
        for word in words.split(' ') {
            terms.add_halves(word.as_bytes(), 2).unwrap();
        }
        terms.finish_halves();
        model.insert(&pages, row(number), terms);
    }
    let query = Query {
        patterns: vec![CountedPattern {
            pattern: Pattern::Prefix(b"config".to_vec()),
            weight: 2,
        }],
        ..Query::default()
    };
    let cache = SegmentCache::default();
    let statistics = rag_bm25::statistics(&pages, &cache, &query).unwrap();
    assert_eq!(statistics.frequencies, [3]);
    let found = rag_bm25::top(&pages, &cache, &query, None, 10).unwrap();
    let found: Vec<Tid> = found.iter().map(|(tid, _)| *tid).collect();
    assert_eq!(found, [row(0), row(1), row(4)]);
    model.verify(&pages, &cache, &query);
}
