//! An order of vectors in which near ones follow each other.

use crate::{
    distance::Kernels,
    memory::{OutOfMemory, collect},
};

/// Vectors of a region.
const REGION: usize = 64;
const MOST_REGIONS: usize = 128;

/// Returns the places of vectors, which have the same dimensions, in an order in which near ones
/// follow each other. It takes time in proportion to their number.
///
/// Some of the vectors, spread evenly, are centres. Each vector goes to the nearest centre, and
/// each centre is followed by the nearest one that is left.
///
/// # Errors
/// Memory runs out.
pub fn near_order(vectors: &[&[f32]]) -> Result<Vec<usize>, OutOfMemory> {
    let kernels = Kernels::best();
    let regions = (vectors.len() / REGION).min(MOST_REGIONS);
    if regions < 2 {
        return collect(0..vectors.len());
    }
    let mut left: Vec<&[f32]> = (0..regions)
        .map(|region| vectors[region * vectors.len() / regions])
        .collect();
    let mut centres = vec![left.swap_remove(0)];
    while let Some(place) = nearest(kernels, &left, centres[centres.len() - 1]) {
        centres.push(left.swap_remove(place));
    }
    let region = |vector: &[f32]| nearest(kernels, &centres, vector).unwrap_or(0);
    let placed = vectors.iter().enumerate();
    let mut placed = collect(placed.map(|(place, vector)| (region(vector), place)))?;
    placed.sort_unstable();
    collect(placed.into_iter().map(|(_, place)| place))
}

/// Returns the place of the vector that is nearest.
fn nearest(kernels: &Kernels, among: &[&[f32]], to: &[f32]) -> Option<usize> {
    let distances = among.iter().map(|vector| kernels.l2_squared(vector, to));
    let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
    nearest.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(elements: &[f32], dimensions: usize) -> Vec<usize> {
        let vectors: Vec<&[f32]> = elements.chunks_exact(dimensions).collect();
        near_order(&vectors).expect("memory")
    }

    #[test]
    fn each_vector_has_a_place() {
        for count in [0, 1, 100, 300, 20_000] {
            let elements: Vec<f32> = (0..count * 3).map(|i| (i * 7919 % 1009) as f32).collect();
            let mut order = order(&elements, 3);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..count));
        }
    }

    #[test]
    fn near_vectors_follow_each_other() {
        let elements: Vec<f32> = (0..1000).map(|i| (i * 7919 % 1000) as f32).collect();
        let order = order(&elements, 1);
        let step = |pair: &[usize]| (elements[pair[0]] - elements[pair[1]]).abs();
        assert!(order.windows(2).map(step).sum::<f32>() / 1000.0 < 100.0);
    }
}
