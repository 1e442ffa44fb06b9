//! Reads weights from a `.safetensors` file.
//!
//! ```text
//! | u64 LE: bytes of JSON | JSON: name -> {dtype, shape, data_offsets} | data |
//! ```
//!
//! Everything in the header is checked against the file before a tensor is returned, so a truncated
//! download is distinguished from a model of another shape. Source: the README of `safetensors`.

use std::{collections::HashMap, path::Path};

use rag_protocol::EngineError;
use serde::Deserialize;

use crate::invalid;

/// Maximum size of a header, the same as in the format's reference implementation.
const MAX_HEADER: usize = 100_000_000;

/// The validated weights of one file.
#[derive(Debug)]
pub struct Weights<'a> {
    path: &'a Path,
    tensors: HashMap<String, Tensor>,
    data: &'a [u8],
}

#[derive(Debug, Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl<'a> Weights<'a> {
    /// Parses the file's bytes; `path` is only for messages.
    ///
    /// # Errors
    /// `InvalidModel` if the header does not describe the file.
    pub fn parse(path: &'a Path, bytes: &'a [u8]) -> Result<Self, EngineError> {
        let cut_short = || {
            invalid(
                path,
                format!("the file is truncated: it has {} bytes", bytes.len()),
            )
        };
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut_short)?;
        let length = u64::from_le_bytes(*length);
        let length = usize::try_from(length)
            .ok()
            .filter(|n| *n <= MAX_HEADER)
            .ok_or_else(|| {
                invalid(path, format!("its header would have {length} bytes"))
                    .hint("This is not a safetensors file.")
            })?;
        let (header, data) = rest.split_at_checked(length).ok_or_else(cut_short)?;
        let mut header: HashMap<String, serde_json::Value> = serde_json::from_slice(header)
            .map_err(|e| invalid(path, format!("its header is not JSON: {e}")))?;
        header.remove("__metadata__");
        let mut tensors = HashMap::with_capacity(header.len());
        for (name, value) in header {
            let tensor: Tensor = serde_json::from_value(value)
                .map_err(|e| invalid(path, format!("tensor \"{name}\": {e}")))?;
            let (start, end) = tensor.data_offsets;
            if start > end || end > data.len() {
                return Err(invalid(
                    path,
                    format!(
                        "tensor \"{name}\" lies at bytes {start} to {end} of {}",
                        data.len()
                    ),
                )
                .hint("The file may be truncated; fetch it again."));
            }
            tensors.insert(name, tensor);
        }
        Ok(Self {
            path,
            tensors,
            data,
        })
    }

    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Returns the number of elements of all tensors.
    pub fn elements(&self) -> usize {
        let shapes = self.tensors.values().map(|tensor| &tensor.shape);
        shapes
            .map(|shape| shape.iter().fold(1usize, |all, n| all.saturating_mul(*n)))
            .fold(0, usize::saturating_add)
    }

    /// Returns one tensor as 32-bit floats, row-major. Floats of 16 bits are converted.
    ///
    /// # Errors
    /// `InvalidModel` if the tensor is absent, has another shape or another type, or contains
    /// values that are not finite.
    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        let tensor = self
            .tensors
            .get(name)
            .ok_or_else(|| invalid(self.path, format!("it has no tensor \"{name}\"")))?;
        let element = FloatType::parse(&tensor.dtype).ok_or_else(|| {
            invalid(
                self.path,
                format!(
                    "tensor \"{name}\" has type {}, not F32, F16 or BF16",
                    tensor.dtype
                ),
            )
        })?;
        let bytes = &self.data[tensor.data_offsets.0..tensor.data_offsets.1];
        let expected = shape
            .iter()
            .try_fold(element.size(), |product, n| product.checked_mul(*n));
        if tensor.shape != shape || expected != Some(bytes.len()) {
            return Err(invalid(
                self.path,
                format!(
                    "tensor \"{name}\" has shape {:?} in {} bytes, not {shape:?}",
                    tensor.shape,
                    bytes.len()
                ),
            )
            .hint("config.json and model.safetensors may be of two different models."));
        }
        let values = element.values(bytes);
        if values.iter().any(|v| !v.is_finite()) {
            return Err(invalid(
                self.path,
                format!("tensor \"{name}\" holds values that are not finite"),
            ));
        }
        Ok(values)
    }
}

/// Types of floats in published weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FloatType {
    F32,
    /// IEEE 754 half precision: 5 bits of exponent, 10 of fraction.
    F16,
    /// The first half of an F32.
    Bf16,
}

impl FloatType {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "F32" => Some(Self::F32),
            "F16" => Some(Self::F16),
            "BF16" => Some(Self::Bf16),
            _ => None,
        }
    }

    fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    fn values(self, bytes: &[u8]) -> Vec<f32> {
        let halves = bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|b| u16::from_le_bytes(*b));
        match self {
            Self::F32 => bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect(),
            Self::F16 => halves.map(from_half).collect(),
            Self::Bf16 => halves
                .map(|bits| f32::from_bits(u32::from(bits) << 16))
                .collect(),
        }
    }
}

/// Returns the value of a float of half precision, which every `f32` can represent.
fn from_half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2f32.powi(-24),
        0x1f if fraction == 0.0 => f32::INFINITY,
        0x1f => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [
            &(header.len() as u64).to_le_bytes(),
            header.as_bytes(),
            data,
        ]
        .concat()
    }

    fn problem(bytes: &[u8], shape: &[usize]) -> String {
        let read = Weights::parse(Path::new("w"), bytes).and_then(|w| w.floats("a", shape));
        read.unwrap_err().detail.unwrap()
    }

    const ONE: &str =
        r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;

    #[test]
    fn a_tensor_is_read_back() {
        let bytes = file(
            ONE,
            &[1.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat(),
        );
        let weights = Weights::parse(Path::new("w"), &bytes).unwrap();
        assert_eq!(weights.floats("a", &[2]).unwrap(), [1.5, -2.0]);
        assert!(weights.contains("a") && !weights.contains("__metadata__"));
    }

    #[test]
    fn tensors_of_another_shape_are_named() {
        assert_eq!(
            problem(&[1, 2], &[2]),
            "the file is truncated: it has 2 bytes"
        );
        assert_eq!(
            problem(&file(ONE, &[0; 7]), &[2]),
            "tensor \"a\" lies at bytes 0 to 8 of 7"
        );
        assert_eq!(
            problem(&file(ONE, &[0; 8]), &[3]),
            "tensor \"a\" has shape [2] in 8 bytes, not [3]"
        );
        assert_eq!(problem(&file("{}", &[]), &[2]), "it has no tensor \"a\"");
        assert_eq!(
            problem(&u64::MAX.to_le_bytes(), &[2]),
            format!("its header would have {} bytes", u64::MAX)
        );
        let integers = ONE.replace("F32", "I32");
        assert_eq!(
            problem(&file(&integers, &[0; 8]), &[2]),
            "tensor \"a\" has type I32, not F32, F16 or BF16"
        );
        let f16 = ONE.replace("F32", "F16");
        assert_eq!(
            problem(&file(&f16, &[0; 8]), &[2]),
            "tensor \"a\" has shape [2] in 8 bytes, not [2]"
        );
        let infinite = file(ONE, &[f32::INFINITY.to_le_bytes(), [0; 4]].concat());
        assert_eq!(
            problem(&infinite, &[2]),
            "tensor \"a\" holds values that are not finite"
        );
    }

    #[test]
    fn floats_of_16_bits_are_converted() {
        let read = |dtype: &str, values: [u16; 2]| {
            let header = ONE.replace("F32", dtype).replace("[0,8]", "[0,4]");
            let bytes = file(&header, &values.map(u16::to_le_bytes).concat());
            let weights = Weights::parse(Path::new("w"), &bytes).unwrap();
            weights.floats("a", &[2]).unwrap()
        };
        assert_eq!(read("F16", [0x3e00, 0xc100]), [1.5, -2.5]);
        assert_eq!(read("F16", [0x0001, 0x7bff]), [2f32.powi(-24), 65504.0]);
        assert_eq!(read("BF16", [0x3fc0, 0xc020]), [1.5, -2.5]);
        assert!(from_half(0x7c00).is_infinite() && from_half(0x7e00).is_nan());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80),
            data in prop::collection::vec(any::<u8>(), 0..20), offsets: (usize, usize)) {
            let _ = Weights::parse(Path::new("w"), &bytes);
            let header = format!(r#"{{"a":{{"dtype":"F32","shape":[2],"data_offsets":[{},{}]}}}}"#, offsets.0, offsets.1);
            let _ = Weights::parse(Path::new("w"), &file(&header,
                &data)).and_then(|w| w.floats("a", &[2]));
        }
    }
}
