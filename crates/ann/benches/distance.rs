//! Nanoseconds of one distance, by path and dimension: `cargo bench -p rag-ann --bench distance`.
//!
//! Each figure is the best of several rounds over 64 vector pairs that fit the first- and
//! second-level caches, so it shows the arithmetic and the call, not memory.

use std::hint::black_box;
use std::time::Instant;

use rag_ann::distance::Kernels;

type Distance = fn(&Kernels, &[f32], &[f32]) -> f64;

const METRICS: [(&str, Distance); 4] = [
    ("l2_squared", Kernels::l2_squared),
    ("inner_product", Kernels::inner_product),
    ("cosine_distance", Kernels::cosine_distance),
    ("l1", Kernels::l1),
];
const VECTORS: usize = 64;
const ROUNDS: usize = 50;
const PASSES: usize = 200;

fn main() {
    println!(
        "{:<10} {:>5} {}",
        "path",
        "dim",
        METRICS.map(|(name, _)| format!("{name:>16}")).join("")
    );
    for dimension in [384, 768, 1000, 1536] {
        let vectors: Vec<Vec<f32>> = (0..VECTORS).map(|i| vector(dimension, i)).collect();
        let query = vector(dimension, VECTORS);
        for kernels in Kernels::available() {
            let columns = METRICS.map(|(_, distance)| {
                format!("{:>16.1}", best_of(kernels, distance, &query, &vectors))
            });
            println!("{:<10} {dimension:>5} {}", kernels.name(), columns.join(""));
        }
    }
}

/// Nanoseconds a call, the best round.
fn best_of(kernels: &Kernels, distance: Distance, query: &[f32], vectors: &[Vec<f32>]) -> f64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..PASSES {
            for vector in vectors {
                black_box(distance(kernels, black_box(query), black_box(vector)));
            }
        }
        start.elapsed().as_nanos() as f64 / (PASSES * vectors.len()) as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Elements in -1..1 from a multiplicative hash: the same on every run.
fn vector(dimension: usize, seed: usize) -> Vec<f32> {
    (0..dimension)
        .map(|i| {
            ((seed * dimension + i) as u32).wrapping_mul(2_654_435_761) as f32 / u32::MAX as f32
                * 2.0
                - 1.0
        })
        .collect()
}
