//! Measures builds and searches over pages in memory.
//!
//! ```text
//! keywords [DOCUMENTS [WORDS [positions]]]
//!                                random words with the frequencies of texts (Zipf): figures
//!                                only compare one version of this crate with another
//! keywords DOCUMENTS QUERIES     files in the format of benches/tantivy, to compare with tantivy
//! ```
//!
//! `benches/run.sh bm25` measures the index in a server.

#![allow(clippy::unwrap_used)] // a measurement ends if something fails

#[allow(dead_code)] // the tests use the rest
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use rag_bm25::{
    Builder, Condition, CountedPattern, Creation, Match, Parameters, Pattern, Query, SegmentCache,
    Terms, Typo, info, insert, merge_all, top,
};
use rag_pages::{MemoryPages, PAGE_BYTES, ReadPages};
use support::{Random, fill, random_terms, row, terms_of};

/// Number of different words.
const WORDS: usize = 500_000;
const QUERIES: usize = 1000;
/// The median of so many measurements of a query counts.
const ROUNDS: usize = 5;
const INSERTS: usize = 50_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).map(|number| number.parse::<u32>());
    let has_positions = arguments.get(2).is_some_and(|third| third == "positions");
    let (texts, queries) = match (number(0), number(1)) {
        (Some(Err(_)), _) => read(&arguments[0], &arguments[1]),
        (documents, length) => random(
            documents.map_or(200_000, Result::unwrap),
            length.map_or(100, Result::unwrap) as usize,
            has_positions,
        ),
    };
    let documents = texts.len() as u32;

    let pages = MemoryPages::new();
    let creation = Creation {
        parameters: Parameters::default(),
        identity: 1,
        label: b"",
        variant: 0,
        has_positions,
    };
    let start = Instant::now();
    let mut builder = Builder::new(&pages, &creation, 1 << 30);
    for (number, terms) in (0..).zip(&texts) {
        builder.add(row(number), terms).unwrap();
    }
    builder.finish().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let bytes = pages.block_count() as usize * PAGE_BYTES;
    println!("build {seconds:.2} s, {:.1} MB", bytes as f64 / 1e6);

    let cache = SegmentCache::default();
    for k in [10, 16, 64, 1000] {
        let mut times = vec![vec![]; queries.len()];
        let reads = pages.reads();
        for _ in 0..ROUNDS {
            for (query, times) in queries.iter().zip(&mut times) {
                let start = Instant::now();
                let best = top(&pages, &cache, query, None, k).unwrap();
                times.push(start.elapsed());
                assert!(best.len() <= k);
            }
        }
        let mut times: Vec<Duration> = times.into_iter().map(median).collect();
        times.sort();
        let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e3;
        let reads = (pages.reads() - reads) as usize / queries.len() / ROUNDS;
        println!(
            "k {k}: p50 {:.4} ms, p90 {:.4} ms, p99 {:.4} ms, {reads} pages",
            at(0.5),
            at(0.9),
            at(0.99)
        );
    }

    for (name, queries) in clauses(&queries) {
        let mut times = vec![];
        for query in &queries {
            let start = Instant::now();
            // the lists of the last query are kept
            top(&pages, &SegmentCache::default(), query, None, 10).unwrap();
            times.push(start.elapsed());
        }
        times.sort();
        let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e3;
        println!("{name}: p50 {:.3} ms, p90 {:.3} ms", at(0.5), at(0.9));
    }

    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    for (number, terms) in (documents..).zip(texts.iter().take(INSERTS)) {
        let start = Instant::now();
        insert(&pages, row(number), terms).unwrap();
        slowest = slowest.max(start.elapsed());
    }
    let mean = start.elapsed() / INSERTS as u32;
    println!(
        "insert {mean:?}, the slowest {slowest:?}; {:?}",
        info(&pages).unwrap()
    );
    let start = Instant::now();
    merge_all(&pages).unwrap();
    println!("merge {:?}", start.elapsed());
}

/// Returns queries with clauses, made of queries without.
fn clauses(queries: &[Terms]) -> Vec<(&'static str, Vec<Query>)> {
    let words = |query: &Terms| -> Vec<Vec<u8>> {
        let terms = query.iter().map(|(term, _)| term.to_vec());
        terms.collect()
    };
    let patterns = |of: &dyn Fn(&[u8]) -> Pattern| -> Vec<Query> {
        let pattern = |query: &Terms| CountedPattern {
            pattern: of(&words(query)[0]),
            weight: 1,
        };
        let queries = queries.iter().take(200);
        queries
            .map(|query| Query {
                patterns: vec![pattern(query)],
                ..Query::default()
            })
            .collect()
    };
    let conditions = |required: bool| -> Vec<Query> {
        let queries = queries.iter().filter(|query| query.len() > 2).take(200);
        queries
            .map(|query| Query {
                terms: query.clone(),
                condition: Some(Condition {
                    required: match required {
                        true => vec![Match::Term(0), Match::Term(1)],
                        false => vec![],
                    },
                    excluded: vec![Match::Term(2)],
                }),
                ..Query::default()
            })
            .collect()
    };
    let typo = |word: &[u8], edits| {
        let word = String::from_utf8_lossy(word).into_owned() + "x";
        Pattern::Typo(Typo::new(&word, edits).unwrap())
    };
    vec![
        (
            "words, lists not kept",
            queries.iter().cloned().map(Query::from).collect(),
        ),
        (
            "prefix, a letter less",
            patterns(&|word| Pattern::Prefix(word[..word.len().max(3) - 1].to_vec())),
        ),
        (
            "prefix of 3 letters",
            patterns(&|word| Pattern::Prefix(word[..word.len().min(3)].to_vec())),
        ),
        ("typo of 1 edit", patterns(&|word| typo(word, 1))),
        ("typo of 2 edits", patterns(&|word| typo(word, 2))),
        ("two required, one excluded", conditions(true)),
        ("one excluded", conditions(false)),
    ]
}

fn random(documents: u32, length: usize, has_positions: bool) -> (Vec<Terms>, Vec<Terms>) {
    let mut random = Random(1);
    let texts = (0..documents)
        .map(|_| {
            let length = length / 2 + random.below(length);
            let terms = match has_positions {
                true => Terms::with_positions(),
                false => Terms::new(),
            };
            fill(terms, &mut random, length, WORDS)
        })
        .collect();
    let queries = (0..QUERIES)
        .map(|_| {
            let length = 2 + random.below(10);
            random_terms(&mut random, length, WORDS)
        })
        .collect();
    (texts, queries)
}

/// Reads documents, each with a number before its terms, and queries.
fn read(documents: &str, queries: &str) -> (Vec<Terms>, Vec<Terms>) {
    let lines = |path: &str| -> Vec<Terms> {
        let text = std::fs::read_to_string(path).unwrap();
        let terms = |line: &str| terms_of(line.split('\t').next_back().unwrap());
        text.lines().map(terms).collect()
    };
    (lines(documents), lines(queries))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
