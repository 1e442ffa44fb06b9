//! A sample of a table's vectors. Its mean is the centre that codes are made around.

use rag_ann::hnsw;
use rag_pages::memory::append;

use super::{build::out_of_memory, check_dimensions, indexed_form, opclass::Order};
use crate::{
    index::am::{
        callbacks::BuildInput,
        sample::{PLACES, each_sampled_row},
    },
    types::indexed::DetoastMemory,
};

/// Maximum number of vectors of a place.
const VECTORS_PER_PLACE: usize = 32;
/// Number of vectors whose mean is close enough to that of all.
const MIN_VECTORS: usize = 256;

/// Vectors of the same dimensions, one after another.
#[derive(Default)]
pub struct VectorSample {
    vectors: Vec<f32>,
    /// 0 while there is none.
    dimensions: usize,
}

impl VectorSample {
    /// Reads a sample of at most `bytes`, or of one vector a place if that is more.
    pub fn read(input: &BuildInput<'_>, order: Order, bytes: usize) -> Self {
        let mut sample = Self::default();
        let (mut memory, mut other) = (DetoastMemory::new(), vec![]);
        // the place that is being read, its maximum of vectors, and their number so far
        let (mut current, mut limit, mut count) = (None, 0, 0);
        each_sampled_row(input, |place, value| {
            if current != Some(place) {
                let vector_bytes = sample.dimensions.max(1) * size_of::<f32>();
                let fit = bytes / vector_bytes / PLACES as usize;
                (current, limit, count) = (Some(place), fit.clamp(1, VECTORS_PER_PLACE), 0);
            }
            if count == limit {
                return Ok(());
            }
            value.with_vector(&mut memory, |vector| {
                let Some(vector) = indexed_form(order, vector, &mut other)? else {
                    return Ok(());
                };
                if sample.dimensions == 0 {
                    sample.dimensions = vector.len();
                }
                check_dimensions(sample.dimensions, vector.len())?;
                count += 1;
                append(&mut sample.vectors, vector).map_err(|_| out_of_memory())
            })
        });
        sample
    }

    /// Returns the mean, rotated as the quantizer takes it. `others`, the first vectors of the
    /// table, are added to a sample that is too small. It is if only few rows of the table are
    /// indexed.
    pub fn mean(
        &self,
        description: &hnsw::IndexParameters,
        dimensions: usize,
        others: &[f32],
    ) -> Vec<f32> {
        let quantizer = hnsw::quantizer(description, dimensions, vec![]);
        let mut mean = quantizer.mean();
        let sampled = if self.dimensions == dimensions {
            self.vectors.as_slice()
        } else {
            &[]
        };
        let others = if sampled.len() < MIN_VECTORS * dimensions {
            others
        } else {
            &[]
        };
        for vector in sampled
            .chunks_exact(dimensions)
            .chain(others.chunks_exact(dimensions))
        {
            mean.add(vector);
        }
        mean.finish()
    }
}
