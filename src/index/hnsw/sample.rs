//! A sample of a table's vectors, whose mean is the centre that codes are made around.

use std::ffi::c_void;

use pgrx::{pg_guard, pg_sys};
use rag_ann::{code::Metric, hnsw, memory::append};

use super::{build::out_of_memory, check_dimensions, is_indexable, rows::RowMemory};

/// Places of the table that vectors are taken from, evenly spread: rows that came together are
/// often alike.
const PLACES: u32 = 64;
/// Most blocks that are read at each place.
const BLOCKS: u32 = 8;
/// Most vectors of a place.
const VECTORS: usize = 32;
/// Vectors whose mean is near enough to that of all.
const ENOUGH: usize = 256;

/// Vectors of the same dimensions, one after another.
#[derive(Default)]
pub struct Sample {
    vectors: Vec<f32>,
    /// 0 while there is none.
    dimensions: usize,
}

/// Taking a sample.
struct Taking {
    metric: Metric,
    sample: Sample,
    /// Vectors taken at this place, and the most that are.
    here: usize,
    most_here: usize,
    memory: RowMemory,
}

impl Sample {
    /// Reads one, of at most `bytes` (or of one vector a place).
    ///
    /// # Safety
    /// As for `ambuild`: table and index are open and locked.
    pub unsafe fn take(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        info: *mut pg_sys::IndexInfo,
        metric: Metric,
        bytes: usize,
    ) -> Self {
        let mut taking = Taking {
            metric,
            sample: Self::default(),
            here: 0,
            most_here: VECTORS,
            memory: RowMemory::new(),
        };
        // SAFETY: the caller's promise; the scan calls back only until it returns.
        unsafe {
            let blocks =
                pg_sys::RelationGetNumberOfBlocksInFork(table, pg_sys::ForkNumber::MAIN_FORKNUM);
            let places = PLACES.min(blocks);
            for place in 0..places {
                let start = (u64::from(place) * u64::from(blocks) / u64::from(places)) as u32;
                let end = (u64::from(place + 1) * u64::from(blocks) / u64::from(places)) as u32;
                taking.here = 0;
                let vector_bytes = taking.sample.dimensions.max(1) * size_of::<f32>();
                taking.most_here = VECTORS.min(bytes / vector_bytes / PLACES as usize).max(1);
                pg_sys::table_index_build_range_scan(
                    table,
                    index,
                    info,
                    false, // from `start`, not from where another scan is
                    false,
                    false, // is not the build's progress
                    start,
                    (end - start).min(BLOCKS),
                    Some(add),
                    (&raw mut taking).cast(),
                    std::ptr::null_mut(),
                );
            }
        }
        taking.sample
    }

    /// The mean, rotated as the quantizer takes it. `others`, the first vectors of the table, are
    /// added to a sample that is too small, as that of a table of which only few rows are indexed.
    pub fn mean(
        &self,
        description: &hnsw::Description,
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
        let others = if sampled.len() < ENOUGH * dimensions {
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

impl Taking {
    fn add(&mut self, vector: &[f32]) {
        if !is_indexable(self.metric, vector) {
            return;
        }
        let sample = &mut self.sample;
        if sample.dimensions == 0 {
            sample.dimensions = vector.len();
        }
        if let Err(error) = check_dimensions(sample.dimensions, vector.len()) {
            error.raise();
        }
        self.here += 1;
        append(&mut sample.vectors, vector).unwrap_or_else(|_| out_of_memory().raise());
    }
}

/// Called for each row of a place.
#[pg_guard]
unsafe extern "C-unwind" fn add(
    _index: pg_sys::Relation,
    _row: pg_sys::ItemPointer,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    _is_alive: bool,
    state: *mut c_void,
) {
    // SAFETY: `take`'s state, and the only column of the index.
    unsafe {
        let taking = &mut *state.cast::<Taking>();
        if !*nulls && taking.here < taking.most_here {
            let memory = taking.memory;
            memory.with_vector(*values, |vector| taking.add(vector));
        }
    }
}
