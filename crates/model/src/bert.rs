//! Encoders with a table of positions: BERT, RoBERTa, XLM-R, MPNet and DistilBERT.
//!
//! ```text
//!  input_ids, token_type_ids ─> embeddings + LayerNorm
//!                                    │
//!            ┌── x ──────────────────┤
//!  per layer │   attention ─> dense ─┴─> sum + LayerNorm ──┬─> dense ─> GELU ─> dense ─┐
//!            └───────────────────────────────────── x <── sum + LayerNorm <────────────┴──
//! ```
//!
//! ONNX Runtime's fused operators are used where they are faster than others. In 8 bits, the
//! weights of dense layers are integers, and activations are quantized at run time
//! (`DynamicQuantizeMatMul`). The table of words is stored as integers. Biases and normalisation
//! stay 32-bit floats.
//!
//! RoBERTa and its relatives number positions from `pad_token_id + 1` on. Texts are padded at their
//! end, so the graph gets the table without the rows before.

use rag_definition::model::Precision;
use rag_protocol::EngineError;

use crate::{
    config::Family,
    onnx::{Attribute::Int, ElementType},
    relative,
    writer::{Writer, transposed},
};

/// Names of the weights of a layer.
struct LayerNames {
    attention: [String; 3],
    mix: String,
    mix_norm: String,
    widen: String,
    narrow: String,
    norm: String,
}

impl LayerNames {
    fn new(family: Family, layer: usize) -> Self {
        let name = |name: &str| match family {
            Family::DistilBert => format!("transformer.layer.{layer}.{name}"),
            _ => format!("encoder.layer.{layer}.{name}"),
        };
        let [q, k, v, mix, mix_norm, widen, narrow, norm] = match family {
            Family::DistilBert => [
                "attention.q_lin",
                "attention.k_lin",
                "attention.v_lin",
                "attention.out_lin",
                "sa_layer_norm",
                "ffn.lin1",
                "ffn.lin2",
                "output_layer_norm",
            ],
            Family::Mpnet => [
                "attention.attn.q",
                "attention.attn.k",
                "attention.attn.v",
                "attention.attn.o",
                "attention.LayerNorm",
                "intermediate.dense",
                "output.dense",
                "output.LayerNorm",
            ],
            _ => [
                "attention.self.query",
                "attention.self.key",
                "attention.self.value",
                "attention.output.dense",
                "attention.output.LayerNorm",
                "intermediate.dense",
                "output.dense",
                "output.LayerNorm",
            ],
        };
        Self {
            attention: [name(q), name(k), name(v)],
            mix: name(mix),
            mix_norm: name(mix_norm),
            widen: name(widen),
            narrow: name(narrow),
            norm: name(norm),
        }
    }
}

/// Writes the encoder. Returns the name of the vectors of the tokens.
///
/// # Errors
/// `InvalidModel` if a weight is missing or has another shape than the configuration says.
pub(crate) fn encoder(writer: &mut Writer) -> Result<String, EngineError> {
    let mut hidden = embeddings(writer)?;
    if writer.config.family == Family::Mpnet {
        relative::bias(writer)?;
    }
    for number in 0..writer.config.layers {
        hidden = layer(writer, number, &hidden)?;
    }
    Ok(hidden)
}

/// Word, position and segment embeddings, summed and normalised.
fn embeddings(writer: &mut Writer) -> Result<String, EngineError> {
    let config = writer.config;
    let hidden = config.hidden;
    let mut casts = vec![("input_ids", "ids")];
    if config.segments > 0 {
        casts.push(("token_type_ids", "segments"));
    }
    if !writer.takes_texts_alone() {
        casts.push(("attention_mask", "mask"));
    }
    for (from, to) in casts {
        let to_int = [Int("to", ElementType::Int32 as i64)];
        writer.graph.node("Cast", &[from], &[to], &to_int);
    }
    let table =
        |name: &str, rows| writer.weight(&format!("embeddings.{name}.weight"), &[rows, hidden]);
    let words = table("word_embeddings", config.words)?;
    let positions = table("position_embeddings", config.positions)?;
    let types = match config.segments {
        0 => None,
        rows => Some(table("token_type_embeddings", rows)?),
    };
    // the rows of the first positions belong to padding
    let used = &positions[config.first_position * hidden..];
    writer
        .graph
        .floats("positions", &[used.len() / hidden, hidden], used);
    if let Some(types) = &types {
        writer
            .graph
            .floats("types", &[config.segments, hidden], types);
    }
    writer.vector("embeddings.LayerNorm.weight", "embedded.gamma", hidden)?;
    writer.vector("embeddings.LayerNorm.bias", "embedded.beta", hidden)?;
    match writer.precision {
        Precision::Fp32 => {
            writer
                .graph
                .floats("words", &[config.words, hidden], &words);
            let (segments, types) = match types {
                Some(_) => ("segments", "types"),
                None => ("", ""),
            };
            let mut inputs = vec![
                "ids",
                segments,
                "words",
                "positions",
                types,
                "embedded.gamma",
                "embedded.beta",
            ];
            if !config.takes_texts_alone() {
                inputs.push("mask");
            }
            writer.graph.fused_node(
                "EmbedLayerNormalization",
                &inputs,
                &["embedded", "embedded.mask_index"],
                &writer.epsilon(),
            );
        }
        Precision::Int8 => sum_quantized_words(writer, &words),
    }
    Ok("embedded".into())
}

/// Writes what `EmbedLayerNormalization` computes, over a table of words in 8 bits. The operator
/// itself takes floats only.
fn sum_quantized_words(writer: &mut Writer, words: &[f32]) {
    writer.quantized_words(words, "ids");
    let epsilon = [writer.epsilon()[0], Int("axis", -1)];
    let has_segments = writer.config.segments > 0;
    let graph = &mut writer.graph;
    // The first positions, as many as there are tokens.
    graph.integers("zero", &[1], &[0]);
    graph.node("Shape", &["ids"], &["length"], &[Int("start", 1)]);
    graph.node(
        "Slice",
        &["positions", "zero", "length", "zero"],
        &["position"],
        &[],
    );
    let mut inputs = vec!["word", "position"];
    if has_segments {
        graph.node("Gather", &["types", "segments"], &["type"], &[]);
        inputs.push("type");
    }
    graph.node("Sum", &inputs, &["sum"], &[]);
    graph.node(
        "LayerNormalization",
        &["sum", "embedded.gamma", "embedded.beta"],
        &["embedded"],
        &epsilon,
    );
}

/// Writes one layer. Returns the name of its output.
fn layer(writer: &mut Writer, layer: usize, input: &str) -> Result<String, EngineError> {
    let (hidden, wide) = (writer.config.hidden, writer.config.wide);
    let names = LayerNames::new(writer.config.family, layer);
    let name = |name: &str| format!("layer{layer}.{name}");
    let (attended, between, output) = (name("attended"), name("between"), name("output"));
    attention(writer, &names, input, &attended)?;
    let shape = [hidden, hidden];
    let mixed = writer.dense_with_bias(&name("mixed"), &attended, &names.mix, shape)?;
    writer.normalise_sum(&[&mixed, input], &names.mix_norm, &between)?;

    let (active, shape) = (name("active"), [wide, hidden]);
    let widened = writer.dense_with_bias(&name("widened"), &between, &names.widen, shape)?;
    writer.activate(writer.config.activation, &widened, &active);
    let (narrowed, shape) = (name("narrowed"), [hidden, wide]);
    let narrowed = writer.dense_with_bias(&narrowed, &active, &names.narrow, shape)?;
    writer.normalise_sum(&[&narrowed, &between], &names.norm, &output)?;
    Ok(output)
}

/// Self-attention: the query, key and value projections side by side in one matrix `[hidden, 3 *
/// hidden]`.
fn attention(
    writer: &mut Writer,
    names: &LayerNames,
    input: &str,
    output: &str,
) -> Result<(), EngineError> {
    let hidden = writer.config.hidden;
    let columns = 3 * hidden;
    let mut stored = Vec::with_capacity(hidden * columns);
    let mut bias = Vec::with_capacity(columns);
    for part in &names.attention {
        stored.extend(writer.weight(&format!("{part}.weight"), &[hidden, hidden])?);
        bias.extend(writer.weight(&format!("{part}.bias"), &[hidden])?);
    }
    let part = |name: &str| format!("{output}.{name}");
    let (projected, weight) = (part("projected"), part("projected.weight"));
    let bias_name = part("bias");
    writer.graph.floats(&bias_name, &[columns], &bias);
    let heads = writer.heads();
    let is_mpnet = writer.config.family == Family::Mpnet;
    if is_mpnet || writer.takes_texts_alone() {
        // Operators with a projection inside take no bias by distance, and need the whole matrix of
        // all pairs of tokens. In 8 bits they take longer, too.
        let projected = writer.product(&projected, input, &stored, hidden, None);
        let [q, k, v] = writer.split_in_three(&projected);
        let mut inputs = vec![q.as_str(), &k, &v, &bias_name];
        if !writer.takes_texts_alone() {
            inputs.push("mask");
        }
        if is_mpnet {
            inputs.resize(5, "");
            inputs.push(relative::BIAS);
        }
        writer
            .graph
            .fused_node("MultiHeadAttention", &inputs, &[output], &heads);
        return Ok(());
    }
    let matrix = transposed(&stored, hidden);
    writer.graph.floats(&weight, &[hidden, columns], &matrix);
    let inputs = [input, &weight, &bias_name, "mask"];
    writer
        .graph
        .fused_node("Attention", &inputs, &[output], &heads);
    Ok(())
}
