//! An encoder as an ONNX graph.
//!
//! | input | shape | |
//! |---|---|---|
//! | `input_ids` | texts, tokens | |
//! | `attention_mask` | texts, tokens | absent if texts must be run one by one, as in 8 bits |
//! | `token_type_ids` | texts, tokens | present if the model has segments |
//!
//! | output | shape | |
//! |---|---|---|
//! | `sentence_embedding` | texts, dimensions | vectors of length 1 |
//! | `last_hidden_state` | texts, tokens, dimensions | instead, if more than a mean follows |
//! | `logits` | texts, 1 | instead, of a model that scores pairs |

use rag_definition::model::Precision;
use rag_protocol::{EngineError, ErrorKind};

use crate::{
    bert,
    config::{Config, Family},
    head,
    onnx::{
        Dimension::{Fixed, Named},
        ElementType, Graph,
    },
    rotary,
    safetensors::Weights,
    settings::Settings,
    writer::Writer,
};

/// Maximum size of a graph with its weights in bytes, less some room: a Protocol Buffers message
/// has less than 2 GiB.
const MOST_BYTES: usize = (1 << 31) - (1 << 24);

/// Names that checkpoints with a head on top give to the encoder.
const PREFIXES: [&str; 8] = [
    "",
    "bert.",
    "roberta.",
    "mpnet.",
    "distilbert.",
    "nomic_bert.",
    "model.",
    "0.auto_model.",
];

/// Writes the graph of a whole encoder.
///
/// # Errors
/// `InvalidModel` if a weight is missing or has another shape than `config` says; `Unsupported` if
/// the graph would be too large for a file.
pub fn graph(
    config: &Config,
    weights: &Weights,
    settings: &Settings,
    precision: Precision,
) -> Result<Graph, EngineError> {
    let words = match config.family {
        Family::ModernBert => "embeddings.tok_embeddings.weight",
        _ => "embeddings.word_embeddings.weight",
    };
    let prefix = PREFIXES
        .into_iter()
        .find(|prefix| weights.contains(&format!("{prefix}{words}")))
        .unwrap_or_default();
    if precision == Precision::Fp32 && weights.elements().saturating_mul(4) > MOST_BYTES {
        return Err(EngineError::new(
            ErrorKind::Unsupported,
            "the model is too large for one graph of 32-bit floats",
        )
        .detail(format!("It has {} numbers.", weights.elements()))
        .hint("Convert it with --precision int8."));
    }
    let mut writer = Writer {
        config,
        weights,
        precision,
        prefix,
        graph: Graph::default(),
    };
    let mut inputs = vec!["input_ids"];
    let mut text = [Named("texts"), Named("tokens")];
    if writer.takes_texts_alone() {
        text[0] = Fixed(1);
    } else {
        inputs.push("attention_mask");
    }
    if config.segments > 0 && config.family != Family::NomicBert {
        inputs.push("token_type_ids");
    }
    for input in inputs {
        writer.graph.input(input, ElementType::Int64, &text);
    }
    let hidden = match config.family {
        Family::NomicBert | Family::ModernBert => rotary::encoder(&mut writer)?,
        _ => bert::encoder(&mut writer)?,
    };
    head::output(&mut writer, &hidden, settings)?;
    Ok(writer.graph)
}
