//! Sentence-transformers folders: reads a model's settings, and writes the graph for ONNX Runtime
//! from its weights.
//!
//! Models are published as weights (`model.safetensors`), and ONNX Runtime needs a graph. Exporting
//! one usually takes Python, PyTorch and an hour. A BERT encoder is regular, so its graph can be
//! written directly, with ONNX Runtime's fused operators, in about a second:
//!
//! ```text
//!  model.safetensors ── safetensors ──┐
//!  config.json ──────── bert ─────────┼── onnx ── protobuf ──> model.onnx, model_int8.onnx
//!  1_Pooling/config.json ─ settings ──┘
//! ```
//!
//! * [`settings`]: dimensions, token limit and pooling of a folder; `rag-engine` uses it, too;
//! * [`safetensors`]: reads and validates weights;
//! * [`bert`]: the encoder as a graph, in 32-bit floats or 8-bit integers ([`quantize`]);
//! * [`onnx`] over [`protobuf`]: the file format;
//! * [`convert`](mod@convert): from folder to folder, atomically;
//! * [`identity`]: the weights of a graph as a hash, the same for each precision.
//!
//! Errors are [`rag_protocol::EngineError`]s: they reach a user of Postgres through `rag-engine`,
//! and a user of the shell through the program `rag-model`.

pub mod bert;
pub mod convert;
pub mod identity;
pub mod onnx;
pub mod protobuf;
pub mod quantize;
pub mod safetensors;
pub mod settings;

use std::{io, path::Path};

use rag_protocol::{EngineError, ErrorKind};

/// Returns the error for a file of a model's folder that cannot be read.
pub fn unreadable(path: &Path, error: &io::Error) -> EngineError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::FileNotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => ErrorKind::WrongFileType,
        _ => ErrorKind::Io,
    };
    EngineError::new(kind, format!("could not read \"{}\"", path.display()))
        .detail(error.to_string())
}

/// Returns the error for a file of a model's folder with invalid content.
pub fn invalid(path: &Path, detail: impl Into<String>) -> EngineError {
    EngineError::new(
        ErrorKind::InvalidModel,
        format!("\"{}\" is not valid", path.display()),
    )
    .detail(detail)
}
