//! The codes of all nodes.
//!
//! They lie in chunks that never move. A single growing array would have to be copied, and would
//! exist twice meanwhile.

use rag_pages::prefetch;

use super::{Node, threads};
use crate::{
    code::{Factors, Quantizer},
    memory::{self, OutOfMemory, Reserve},
};

/// Rows begin at multiples of it, so that a code touches no additional cache line.
const CACHE_LINE: usize = 64;
/// Bytes of a chunk, about: large enough for huge pages, small enough that a mostly empty last
/// chunk does not matter.
const CHUNK_BYTES: usize = 4 << 20;
/// Number of rows that a thread encodes at a time.
const PIECE: usize = 64;

pub(super) struct Codes {
    code_bytes: usize,
    max_nodes: usize,
    /// A chunk has 2^shift rows.
    shift: u32,
    chunks: Vec<Chunk>,
    len: usize,
}

struct Chunk {
    bytes: Vec<u8>,
    /// The offset of the first row.
    start: usize,
    factors: Vec<Factors>,
}

impl Chunk {
    fn new(rows: usize, code_bytes: usize) -> Result<Self, OutOfMemory> {
        let bytes = memory::filled(rows * code_bytes + CACHE_LINE, 0)?;
        let start = bytes.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE);
        Ok(Self {
            bytes,
            start,
            factors: memory::filled(
                rows,
                Factors {
                    scale: 0.0,
                    bias: 0.0,
                },
            )?,
        })
    }
}

impl Codes {
    pub fn new(code_bytes: usize, max_nodes: usize) -> Self {
        let rows = (CHUNK_BYTES / code_bytes).max(PIECE).min(max_nodes.max(1));
        Self {
            code_bytes,
            max_nodes,
            shift: rows.next_power_of_two().trailing_zeros(),
            chunks: vec![],
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn encode(
        &mut self,
        quantizer: &Quantizer,
        vectors: &[f32],
        threads: usize,
    ) -> Result<(), OutOfMemory> {
        let (dimensions, code_bytes) = (quantizer.dimensions(), self.code_bytes);
        let rows_of_chunk = 1 << self.shift;
        let count = (vectors.len() / dimensions).min(self.max_nodes - self.len);
        let mut vectors = &vectors[..count * dimensions];
        while self.chunks.len() * rows_of_chunk < self.len + count {
            let rows = rows_of_chunk.min(self.max_nodes - self.chunks.len() * rows_of_chunk);
            self.chunks.make_room(1)?;
            self.chunks.push(Chunk::new(rows, code_bytes)?);
        }
        let mut pieces = vec![];
        let mut row = self.len % rows_of_chunk;
        for chunk in &mut self.chunks[self.len / rows_of_chunk..] {
            let rows = (chunk.factors.len() - row).min(vectors.len() / dimensions);
            let (here, rest) = vectors.split_at(rows * dimensions);
            let codes = &mut chunk.bytes[chunk.start + row * code_bytes..][..rows * code_bytes];
            pieces.extend(
                here.chunks(PIECE * dimensions)
                    .zip(codes.chunks_mut(PIECE * code_bytes))
                    .zip(chunk.factors[row..row + rows].chunks_mut(PIECE)),
            );
            (vectors, row) = (rest, 0);
        }
        threads::share(threads, pieces, |((vectors, codes), factors)| {
            let mut scratch = vec![];
            let rows = vectors
                .chunks_exact(dimensions)
                .zip(codes.chunks_exact_mut(code_bytes))
                .zip(factors);
            for ((vector, code), factors) in rows {
                *factors = quantizer.encode(vector, &mut scratch, code);
            }
        });
        self.len += count;
        Ok(())
    }

    #[inline]
    pub fn code(&self, node: Node) -> &[u8] {
        let (chunk, row) = self.place(node);
        &chunk.bytes[chunk.start + row * self.code_bytes..][..self.code_bytes]
    }

    #[inline]
    pub fn factors(&self, node: Node) -> Factors {
        let (chunk, row) = self.place(node);
        chunk.factors[row]
    }

    /// Prefetches a node's code and factors.
    #[inline]
    pub fn prefetch(&self, node: Node) {
        let (chunk, row) = self.place(node);
        prefetch(self.code(node).as_ptr(), self.code_bytes);
        prefetch((&raw const chunk.factors[row]).cast(), size_of::<Factors>());
    }

    #[inline]
    fn place(&self, node: Node) -> (&Chunk, usize) {
        let node = node as usize;
        (
            &self.chunks[node >> self.shift],
            node & ((1 << self.shift) - 1),
        )
    }
}
