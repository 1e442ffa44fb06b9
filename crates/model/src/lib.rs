//! Sentence-transformers folders: reads a model's settings, and writes the graph for ONNX Runtime
//! from its weights.
//!
//! Models are published as weights (`model.safetensors`), and ONNX Runtime needs a graph. Exporting
//! one usually takes Python, PyTorch and an hour. Encoders are regular, so their graphs can be
//! written directly, with ONNX Runtime's fused operators, in about a second:
//!
//! ```text
//!  model.safetensors ── safetensors ──┐
//!  config.json ──────── config ───────┼── graph ── onnx ── protobuf ──> model.onnx, model_int8.onnx
//!  1_Pooling/config.json ─ settings ──┘
//! ```
//!
//! * [`settings`]: dimensions, token limit and pooling of a folder, [`steps`] after it, and
//!   `prompts` before a text; `modules` is their order. `rag-engine` uses them, too;
//! * [`config`]: the shape of an encoder, whatever its family;
//! * [`safetensors`]: reads and validates weights;
//! * [`graph`](mod@graph): the encoder as a graph, in 32-bit floats or 8-bit integers
//!   ([`quantize`]). `bert` writes families with a table of positions (`relative`: MPNet's bias),
//!   `rotary` those with rotations (`window`: local attention), `head` what follows, and `writer`
//!   what they share;
//! * [`onnx`] over [`protobuf`]: the file format;
//! * [`convert`](mod@convert): from folder to folder, atomically;
//! * [`identity`]: the weights of a graph as a hash, the same for each precision;
//! * [`token_vectors`]: a graph that returns the vectors of all tokens, too.
//!
//! Errors are [`rag_protocol::EngineError`]s: they reach a user of Postgres through `rag-engine`,
//! and a user of the shell through the program `rag-model`.

mod bert;
pub mod config;
pub mod convert;
pub mod graph;
mod head;
pub mod identity;
mod modules;
pub mod onnx;
mod prompts;
pub mod protobuf;
pub mod quantize;
mod relative;
mod rotary;
pub mod safetensors;
pub mod settings;
pub mod steps;
pub mod token_vectors;
mod window;
mod wire;
mod writer;

use std::{
    io,
    path::{Path, PathBuf},
};

use rag_definition::model::Precision;
use rag_protocol::{EngineError, ErrorKind};

/// Returns the graph of a precision in a model's folder: one that [`convert`](mod@convert) wrote,
/// or one that was published in the folder `onnx`. If there is none, the name of the first one.
pub fn graph_file(dir: &Path, precision: Precision) -> PathBuf {
    let mut files = precision.file_names().iter().map(|name| dir.join(name));
    let found = files.find(|path| path.exists());
    found.unwrap_or_else(|| dir.join(precision.file_name()))
}

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
