//! Hashes the weights of an ONNX graph. The hash is the same for each precision of a model.
//!
//! A graph that [`convert`](crate::convert) wrote has the same tensors in both precisions, under
//! the same names: some as floats in both, the others as floats or as the integers that
//! [`quantize`](crate::quantize) computes. The hash covers those integers. Other tools name and
//! scale their integers differently; for their graphs the hash covers the vectors that stay floats,
//! biases and normalisation, in the order of their content.
//!
//! The file is read once, tensor by tensor. Field numbers are those of `onnx.proto`.

use std::{
    io::{self, BufReader, Read},
    path::Path,
};

use rag_protocol::EngineError;
use sha2::{Digest, Sha256};

use crate::{
    invalid,
    onnx::{ElementType, PRODUCER},
    quantize::{quantize_columns, quantize_rows},
    unreadable,
    wire::{Field, field_bytes, varint},
};

/// Returns the hash in hex, or `None` if the graph contains no weights that can be compared.
///
/// # Errors
/// The file cannot be read, or is not an ONNX graph.
pub fn weights(path: &Path) -> Result<Option<String>, EngineError> {
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            invalid(path, "it is no ONNX graph")
                .hint("The file may be truncated; fetch or convert it again.")
        }
        _ => unreadable(path, &e),
    };
    let file = rag_protocol::file::open(path).map_err(|e| unreadable(path, &e))?;
    let length = file.metadata().map_err(|e| unreadable(path, &e))?.len();
    let mut tensors = Tensors::default();
    tensors
        .read_model(&mut BufReader::new(file).take(length))
        .map_err(failed)?;
    Ok(tensors.hash())
}

/// The tensors read so far.
#[derive(Default)]
struct Tensors {
    is_ours: bool,
    hashes: Vec<[u8; 32]>,
}

impl Tensors {
    fn read_model(&mut self, model: &mut impl Read) -> io::Result<()> {
        while let Some(field) = Field::next(model)? {
            match field {
                Field::Bytes(2, length) => {
                    self.is_ours = field_bytes(model, length)? == PRODUCER.as_bytes()
                }
                Field::Bytes(7, length) => {
                    let mut graph = model.by_ref().take(length);
                    self.read_graph(&mut graph)?;
                    if graph.limit() > 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                other => other.skip(model)?,
            }
        }
        Ok(())
    }

    fn read_graph(&mut self, graph: &mut impl Read) -> io::Result<()> {
        while let Some(field) = Field::next(graph)? {
            match field {
                Field::Bytes(5, length) => {
                    let bytes = field_bytes(graph, length)?;
                    self.add(&Tensor::parse(&mut bytes.as_slice())?);
                }
                other => other.skip(graph)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, tensor: &Tensor) {
        let content = if self.is_ours {
            tensor.canonical()
        } else {
            tensor.is_kept_by_others().then(|| tensor.raw.clone())
        };
        if let Some(content) = content {
            let mut hasher = Sha256::new();
            if self.is_ours {
                hasher.update((tensor.name.len() as u64).to_le_bytes());
                hasher.update(&tensor.name);
            }
            hasher.update(&content);
            self.hashes.push(hasher.finalize().into());
        }
    }

    fn hash(mut self) -> Option<String> {
        self.hashes.sort_unstable();
        (!self.hashes.is_empty()).then(|| hex::encode(Sha256::digest(self.hashes.concat())))
    }
}

/// A `TensorProto` whose elements are in the file itself.
#[derive(Default)]
struct Tensor {
    shape: Vec<u64>,
    element: u64,
    name: String,
    raw: Vec<u8>,
}

impl Tensor {
    fn parse(message: &mut impl Read) -> io::Result<Self> {
        let mut tensor = Self::default();
        while let Some(field) = Field::next(message)? {
            match field {
                Field::Integer(1, length) => tensor.shape.push(length),
                Field::Bytes(1, length) => {
                    let packed = field_bytes(message, length)?;
                    let mut rest = packed.as_slice();
                    while !rest.is_empty() {
                        tensor
                            .shape
                            .push(varint(&mut rest)?.ok_or(io::ErrorKind::UnexpectedEof)?);
                    }
                }
                Field::Integer(2, element) => tensor.element = element,
                Field::Bytes(8, length) => {
                    tensor.name =
                        String::from_utf8_lossy(&field_bytes(message, length)?).into_owned();
                }
                // The floats are packed, as in raw data.
                Field::Bytes(4 | 9, length) => tensor.raw = field_bytes(message, length)?,
                other => other.skip(message)?,
            }
        }
        Ok(tensor)
    }

    fn floats(&self) -> Vec<f32> {
        self.raw
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    }

    /// Returns the content of one of our tensors as the 8-bit graph has it, or `None` for content
    /// that only one precision has.
    fn canonical(&self) -> Option<Vec<u8>> {
        const FLOAT: u64 = ElementType::Float as u64;
        const INT8: u64 = ElementType::Int8 as u64;
        let columns = self
            .shape
            .last()
            .and_then(|n| usize::try_from(*n).ok())
            .filter(|n| *n > 0)?;
        let bytes = |integers: Vec<i8>| Some(integers.into_iter().map(|i| i as u8).collect());
        match self.element {
            INT8 if !self.name.ends_with(".zero") => Some(self.raw.clone()),
            FLOAT if self.name.ends_with(".scale") => None,
            FLOAT if self.name == "words" => bytes(quantize_rows(&self.floats(), columns).integers),
            FLOAT if self.name.ends_with(".weight") => {
                bytes(quantize_columns(&self.floats(), columns).integers)
            }
            FLOAT => Some(self.raw.clone()),
            _ => None,
        }
    }

    /// Returns true for a vector that tools keep in floats when they quantize a graph's matrices.
    fn is_kept_by_others(&self) -> bool {
        let is_scale = self.name.to_ascii_lowercase().contains("scale");
        self.element == ElementType::Float as u64
            && matches!(*self.shape, [n] if n > 1)
            && !self.raw.is_empty()
            && !is_scale
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::onnx::Graph;

    fn hash(graph: &Graph) -> Option<String> {
        hash_of(&graph.encode("g"))
    }

    fn hash_of(bytes: &[u8]) -> Option<String> {
        let mut tensors = Tensors::default();
        tensors.read_model(&mut &*bytes).unwrap();
        tensors.hash()
    }

    /// A graph with a table of words, a matrix and a bias, as `bert` writes them in each precision.
    fn graph(matrix: &[f32], bias: &[f32], quantized: bool) -> Graph {
        let mut graph = Graph::default();
        let words = [1.0, -0.5, 0.25, 2.0];
        if quantized {
            let (words, matrix) = (quantize_rows(&words, 2), quantize_columns(matrix, 2));
            graph.bytes("words", &[2, 2], &words.integers);
            graph.floats("words.scale", &[2, 1], &words.scales);
            graph.integers("zero", &[1], &[0]);
            graph.bytes("dense.weight", &[2, 2], &matrix.integers);
            graph.floats("dense.scale", &[2], &matrix.scales);
            graph.bytes("dense.zero", &[2], &[0, 0]);
        } else {
            graph.floats("dense.weight", &[2, 2], matrix);
            graph.floats("words", &[2, 2], &words);
        }
        graph.floats("dense.bias", &[2], bias);
        graph
    }

    #[test]
    fn both_precisions_have_the_same_hash() {
        let (matrix, bias) = ([0.1, -0.2, 0.3, 0.4], [1.0, 2.0]);
        let hash_of_floats = hash(&graph(&matrix, &bias, false));
        assert!(hash_of_floats.is_some());
        assert_eq!(hash_of_floats, hash(&graph(&matrix, &bias, true)));
    }

    #[test]
    fn other_weights_have_another_hash() {
        let first = hash(&graph(&[0.1, -0.2, 0.3, 0.4], &[1.0, 2.0], false));
        assert_ne!(
            first,
            hash(&graph(&[0.1, -0.2, 0.2, 0.4], &[1.0, 2.0], false))
        );
        assert_ne!(
            first,
            hash(&graph(&[0.1, -0.2, 0.3, 0.4], &[1.0, 2.5], false))
        );
    }

    #[test]
    fn graphs_of_other_tools_are_hashed_by_their_biases() {
        let other = |graph: &Graph| {
            let bytes = graph.encode("g");
            let at = bytes
                .windows(9)
                .position(|part| part == PRODUCER.as_bytes())
                .unwrap();
            let mut bytes = bytes;
            bytes[at..at + 9].copy_from_slice(b"elsewhere");
            hash_of(&bytes)
        };
        let (matrix, bias) = ([0.1, -0.2, 0.3, 0.4], [1.0, 2.0]);
        let first = other(&graph(&matrix, &bias, false));
        assert!(first.is_some());
        assert_eq!(first, other(&graph(&matrix, &bias, true)));
        assert_ne!(first, other(&graph(&matrix, &[1.0, 2.5], false)));
        assert_eq!(hash(&Graph::default()), None);
    }

    #[test]
    fn a_truncated_file_is_not_a_graph() {
        let bytes = graph(&[0.1, -0.2, 0.3, 0.4], &[1.0, 2.0], true).encode("g");
        // A cut between two fields of the model itself looks like its end.
        let (mut rest, mut ends) = (bytes.as_slice(), vec![0]);
        while let Some(field) = Field::next(&mut rest).unwrap() {
            field.skip(&mut rest).unwrap();
            ends.push(bytes.len() - rest.len());
        }
        for length in (0..bytes.len()).filter(|length| !ends.contains(length)) {
            assert!(
                Tensors::default()
                    .read_model(&mut &bytes[..length])
                    .is_err(),
                "{length}"
            );
        }
    }
}
