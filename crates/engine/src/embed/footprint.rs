//! The memory that a model needs, from its files and its settings.
//!
//! | part | bytes |
//! |---|---|
//! | weights | the graph and the files beside it, and half as much for ONNX Runtime's own order of them, or as much again for OpenVINO |
//! | weights again | the graph, while it is loaded to compare tokens |
//! | tokenizer | 8 times `tokenizer.json` |
//! | arena | [`VECTORS`] vectors of floats for each token of one run |
//!
//! A copy of the graph, which computes texts beside others, needs weights and an arena.
//!
//! The factors were measured with a ModernBERT of 768 dimensions, up to 8,192 tokens; that of
//! OpenVINO with the default model, whose process had 207 MB of memory of its own.

use std::fs;

use rag_model::{graph_file, settings::Settings};
use rag_protocol::embed::ModelRef;

use super::{fingerprint::beside, model::run_texts, runtime::Runtime};

/// Number of vectors of a token that are in memory at once: those before and after attention, and
/// the wider ones of the dense layers.
const VECTORS: u64 = 20;

/// The memory of a model, in bytes.
#[derive(Debug)]
pub struct Footprint {
    pub model: u64,
    /// That of each copy of its graph.
    pub copy: u64,
}

/// Returns the memory that a model needs. Files that cannot be read count as empty: the model will
/// not load.
pub fn footprint(reference: &ModelRef, runtime: &Runtime) -> Footprint {
    let graph = graph_file(&reference.dir, reference.precision);
    let size = |path| fs::metadata(path).map_or(0, |file| file.len());
    let weights =
        size(graph.clone()) + size(beside(&graph, ".data")) + size(beside(&graph, "_data"));
    let tokenizer = size(reference.dir.join("tokenizer.json"));
    let arena = Settings::read(&reference.dir).map_or(0, |settings| {
        let texts = if runtime.takes_batches(reference.precision) {
            run_texts(settings.max_tokens)
        } else {
            1
        };
        let tokens = (texts * settings.max_tokens) as u64;
        tokens * settings.hidden_size as u64 * 4 * VECTORS
    });
    let again = if reference.options.compares_tokens {
        size(graph)
    } else {
        0
    };
    let reordered = match runtime.openvino(reference) {
        Some(_) => weights,
        None => weights / 2,
    };
    let copy = weights + reordered + again + arena;
    Footprint {
        model: copy + 8 * tokenizer,
        copy,
    }
}
