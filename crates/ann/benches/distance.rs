//! Nanoseconds of one distance, by path and dimension: `cargo bench -p rag-ann --bench distance`.
//!
//! Each figure is the best of several rounds over 64 vector pairs that fit the first- and
//! second-level caches, so it shows the arithmetic and the call, not memory.

use std::hint::black_box;
use std::time::Instant;

use rag_ann::{
    distance::{Element, Kernels},
    half::Half,
};

type Distance<E> = fn(&Kernels, &[E], &[E]) -> f64;

const NAMES: [&str; 4] = ["l2_squared", "inner_product", "cosine_distance", "l1"];
const VECTORS: usize = 64;
const ROUNDS: usize = 50;
const PASSES: usize = 200;

fn main() {
    println!(
        "{:<10} {:<8} {:>5} {}",
        "path",
        "elements",
        "dim",
        NAMES.map(|name| format!("{name:>16}")).join("")
    );
    for dimension in [384, 768, 1000, 1536] {
        let vectors: Vec<Vec<f32>> = (0..VECTORS).map(|i| vector(dimension, i)).collect();
        let query = vector(dimension, VECTORS);
        let halve = |vector: &Vec<f32>| vector.iter().map(|&x| Half::from_f32(x)).collect();
        let halves: Vec<Vec<Half>> = vectors.iter().map(halve).collect();
        for kernels in Kernels::available() {
            measure(kernels, "f32", &query, &vectors);
            measure(kernels, "half", &halve(&query), &halves);
        }
    }
}

fn measure<E: Element>(kernels: &Kernels, name: &str, query: &[E], vectors: &[Vec<E>]) {
    let distances: [Distance<E>; 4] = [
        Kernels::l2_squared,
        Kernels::inner_product,
        Kernels::cosine_distance,
        Kernels::l1,
    ];
    let columns = distances
        .map(|distance| format!("{:>16.1}", best_of(kernels, distance, query, vectors)))
        .join("");
    println!(
        "{:<10} {name:<8} {:>5} {columns}",
        kernels.name(),
        query.len()
    );
}

/// Nanoseconds a call, the best round.
fn best_of<E: Element>(
    kernels: &Kernels,
    distance: Distance<E>,
    query: &[E],
    vectors: &[Vec<E>],
) -> f64 {
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
