//! How the index on pages does on the 100,000 test vectors, with pages in memory: search, then half
//! of the vectors removed, repaired, and inserted again.
//!
//! ```sh
//! RAG_TEST_DATA=../shared/data cargo run --release -p rag-ann --example hnsw [m] [ef_construction]
//! ```

mod minilm;

use std::{env, error::Error, time::Instant};

use minilm::{DIMENSIONS, Data};
use rag_ann::{
    code::Metric,
    distance,
    graph::{Graph, Parameters},
    hnsw::{self, Index, IndexParameters, Inserter, Scan, ScanLimits},
};
use rag_pages::{MemoryPages, ReadPages, Tid};

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |place, default: usize| {
        env::args()
            .nth(place)
            .map_or(Ok(default), |text| text.parse())
    };
    let (m, ef_construction) = (argument(1, 16)?, argument(2, 64)?);
    let data = Data::read()?;

    let description = IndexParameters {
        metric: Metric::Cosine,
        m: m as u16,
        ef_construction: ef_construction as u16,
        seed: 1,
    };
    let plain = hnsw::quantizer(&description, DIMENSIONS, vec![]);
    let mut mean = plain.mean();
    data.base
        .chunks_exact(DIMENSIONS)
        .for_each(|vector| mean.add(vector));
    let quantizer = hnsw::quantizer(&description, DIMENSIONS, mean.finish());
    let count = data.base.len() / DIMENSIONS;
    let start = Instant::now();
    let mut graph = Graph::new(
        &quantizer,
        Parameters {
            m,
            ef_construction,
            seed: 1,
        },
        count,
    );
    graph.encode(&data.base, 2)?;
    graph.build(2, |_| true)?;
    let tids: Vec<Tid> = (0..count as u32)
        .map(|block| Tid { block, offset: 1 })
        .collect();
    let store = MemoryPages::new();
    hnsw::place(
        &store,
        &description,
        &quantizer,
        &graph,
        &tids,
        2,
        &mut || true,
    )?;
    println!(
        "built in {:.1} s, {} pages",
        start.elapsed().as_secs_f64(),
        store.block_count()
    );

    let index = Index::open(&store)?;
    report(&index, &store, &data)?;

    let start = Instant::now();
    hnsw::remove(&index, &store, &store, &mut |row| row.block % 2 == 0)?;
    println!("removed half in {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    hnsw::repair(&index, &store, &store, 0.0)?;
    println!("repaired in {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let mut inserter = Inserter::default();
    for i in (0..count).step_by(2) {
        let level = hnsw::random_level(m as u16, (i as f64 * 0.618_033_988_75).fract());
        inserter.insert(&index, &store, data.vector(i), tids[i], level)?;
    }
    println!(
        "inserted again, {:.0} µs each",
        start.elapsed().as_secs_f64() * 2e6 / count as f64
    );
    println!("{:?}", hnsw::info(&index, &store)?);
    hnsw::check(&index, &store, &mut |_| (), &mut |problem| {
        println!("{problem:?}")
    })?;
    report(&index, &store, &data)
}

fn report(index: &Index, store: &MemoryPages, data: &Data) -> Result<(), Box<dyn Error>> {
    println!("ef    recall@10  µs/query  nodes  pages");
    let mut scan = Scan::default();
    for ef in [20, 30, 40, 60, 80, 120, 200, 320] {
        let (mut hits, mut micros, mut scored) = (0, 0.0, 0);
        let pages = store.reads();
        let limits = ScanLimits {
            ef,
            iterative: true,
            max_tuples: 0,
            max_keys: 100_000,
        };
        for (query, truth) in data
            .queries
            .chunks_exact(DIMENSIONS)
            .zip(data.truth.chunks_exact(100))
        {
            let start = Instant::now();
            scan.begin(index, store, query, limits)?;
            let mut found: Vec<(f64, u32)> = vec![];
            while found.len() < 20.min(ef)
                && let Some(_) = scan.next(index, store)?
            {
                let exact =
                    |row: &Tid| distance::cosine_distance(query, data.vector(row.block as usize));
                found.extend(scan.tids().iter().map(|row| (exact(row), row.block)));
            }
            found.sort_by(|a, b| a.0.total_cmp(&b.0));
            micros += start.elapsed().as_secs_f64() * 1e6;
            scored += scan.visited();
            hits += found
                .iter()
                .take(10)
                .filter(|(_, row)| truth[..10].contains(row))
                .count();
        }
        let count = (data.queries.len() / DIMENSIONS) as f64;
        println!(
            "{ef:<5} {:.4}     {:<8.1}  {:<5.0}  {:.0}",
            hits as f64 / count / 10.0,
            micros / count,
            scored as f64 / count,
            (store.reads() - pages) as f64 / count
        );
    }
    Ok(())
}
