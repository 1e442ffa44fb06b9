//! Measures builds and searches over pages in memory: `keywords [documents [words a document]]`.
//!
//! Documents are random words with the frequencies of texts (Zipf), so figures only compare one
//! version of this crate with another. `benches/run.sh keywords` measures the index in a server.

#![allow(clippy::unwrap_used)] // a measurement ends if something fails

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use rag_bm25::{Builder, Creation, Parameters, SegmentCache, Terms, info, insert, merge_all, top};
use rag_pages::{MemoryPages, PAGE_BYTES, ReadPages};
use support::{Random, random_terms, row};

/// Number of different words.
const WORDS: usize = 500_000;
const QUERIES: usize = 1000;
const INSERTS: usize = 50_000;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|number| number.parse().unwrap());
    let documents = numbers.next().unwrap_or(200_000_u32);
    let length = numbers.next().unwrap_or(100_u32) as usize;
    let mut random = Random(1);
    let texts: Vec<Terms> = (0..documents)
        .map(|_| {
            let length = length / 2 + random.below(length);
            random_terms(&mut random, length, WORDS)
        })
        .collect();
    let queries: Vec<Terms> = (0..QUERIES)
        .map(|_| {
            let length = 2 + random.below(10);
            random_terms(&mut random, length, WORDS)
        })
        .collect();

    let pages = MemoryPages::new();
    let creation = Creation {
        parameters: Parameters::default(),
        identity: 1,
        label: b"",
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
        let mut times: Vec<Duration> = vec![];
        let reads = pages.reads();
        for _ in 0..3 {
            times.clear();
            for query in &queries {
                let start = Instant::now();
                let best = top(&pages, &cache, query, None, k).unwrap();
                times.push(start.elapsed());
                assert!(best.len() <= k);
            }
        }
        times.sort();
        let at = |share: f64| times[(QUERIES as f64 * share) as usize].as_secs_f64() * 1e3;
        let reads = (pages.reads() - reads) as usize / QUERIES / 3;
        println!(
            "k {k}: p50 {:.3} ms, p99 {:.3} ms, {reads} pages",
            at(0.5),
            at(0.99)
        );
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
