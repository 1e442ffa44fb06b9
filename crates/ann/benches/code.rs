//! Nanoseconds of one distance to a code, of encoding a vector and of preparing a query, by path
//! and dimension: `cargo bench -p rag-ann --bench code`.
//!
//! Each figure is the best of several rounds over 64 vectors, whose codes fit the first-level
//! cache, so it shows the arithmetic and the call, not memory.

use std::hint::black_box;
use std::time::Instant;

use rag_ann::code::{Factors, Kernels, Metric, Quantizer};

const VECTORS: usize = 64;
const ROUNDS: usize = 50;

fn main() {
    println!(
        "{:<10} {:>5} {:>10} {:>10} {:>10} {:>10}",
        "path", "dim", "distance", "encode", "prepare", "from code"
    );
    for dimensions in [384, 768, 1000, 1536] {
        for kernels in Kernels::available() {
            let figures = measure(kernels, dimensions).map(|figure| format!("{figure:>10.1}"));
            println!(
                "{:<10} {dimensions:>5} {}",
                kernels.name(),
                figures.join(" ")
            );
        }
    }
}

fn measure(kernels: &'static Kernels, dimensions: usize) -> [f64; 4] {
    let vectors: Vec<Vec<f32>> = (0..VECTORS).map(|i| vector(dimensions, i)).collect();
    let code_dimensions = dimensions.next_multiple_of(128);
    let quantizer = Quantizer::new(Metric::Cosine, dimensions, code_dimensions, 1, vec![])
        .with_kernels(kernels);

    let mut scratch = Vec::new();
    let mut code = vec![0; quantizer.code_bytes()];
    let codes: Vec<(Vec<u8>, Factors)> = vectors
        .iter()
        .map(|vector| {
            let factors = quantizer.encode(vector, &mut scratch, &mut code);
            (code.clone(), factors)
        })
        .collect();
    let mut query = quantizer.query(&vectors[0]);
    let distance = best_of(200, &codes, |(code, factors)| {
        black_box(black_box(&query).distance(black_box(code), *factors));
    });
    let encode = best_of(2, &vectors, |vector| {
        black_box(quantizer.encode(black_box(vector), &mut scratch, &mut code));
    });
    let prepare = best_of(2, &vectors, |vector| {
        quantizer.prepare(black_box(vector), &mut query)
    });
    let from_code = best_of(20, &codes, |(code, factors)| {
        quantizer.prepare_from_code(black_box(code), *factors, &mut query);
    });
    [distance, encode, prepare, from_code]
}

/// Nanoseconds a call, the best round.
fn best_of<T>(passes: usize, items: &[T], mut call: impl FnMut(&T)) -> f64 {
    let mut round = || {
        let start = Instant::now();
        for _ in 0..passes {
            items.iter().for_each(&mut call);
        }
        start.elapsed().as_nanos() as f64 / (passes * items.len()) as f64
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
