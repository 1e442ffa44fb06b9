//! Encoders that rotate queries and keys by their position: NomicBERT and ModernBERT.
//!
//! ```text
//!  input_ids ─> word embeddings (+ segment 0) ─> LayerNorm ── x
//!
//!  NomicBERT   x ─> LayerNorm(x + attention(x)) ─> LayerNorm(x + gated(x))
//!  ModernBERT  x ─> x + attention(LayerNorm(x)) ─> x + gated(LayerNorm(x)), LayerNorm at the end
//! ```
//!
//! The blocks are gated: one half of a dense layer is multiplied by the activation of the other
//! half. The rotation takes the first half of a head's dimensions as real, and the second half as
//! imaginary parts.
//!
//! The graph has no `attention_mask`: texts are run one by one, so that none is padded.

use rag_protocol::EngineError;

use crate::{
    config::{Family, LayerRotation},
    onnx::{Attribute::Int, ElementType, Graph},
    window,
    writer::Writer,
};

/// Writes the encoder. Returns the name of the vectors of the tokens.
///
/// # Errors
/// `InvalidModel` if a weight is missing or has another shape than the configuration says.
pub(crate) fn encoder(writer: &mut Writer) -> Result<String, EngineError> {
    let mut hidden = embeddings(writer)?;
    let mut thetas: Vec<f64> = vec![];
    let mut has_positions = false;
    for layer in 0..writer.config.layers {
        let rotation = writer.config.rotations[layer];
        if !thetas.contains(&rotation.theta) {
            if !has_positions {
                positions(&mut writer.graph);
                has_positions = true;
            }
            waves(writer, thetas.len(), rotation.theta);
            thetas.push(rotation.theta);
        }
        let wave = thetas.iter().position(|theta| *theta == rotation.theta);
        let layer = Layer {
            number: layer,
            rotation,
            wave: format!("rotation{}", wave.unwrap_or_default()),
        };
        hidden = match writer.config.family {
            Family::NomicBert => nomic_layer(writer, &layer, &hidden)?,
            _ => modern_layer(writer, &layer, &hidden)?,
        };
    }
    if writer.config.family == Family::ModernBert {
        writer.normalise(&hidden, "final_norm", "normalised")?;
        hidden = "normalised".into();
    }
    Ok(hidden)
}

/// A layer of the encoder.
struct Layer {
    number: usize,
    rotation: LayerRotation,
    /// The name of the sines and cosines.
    wave: String,
}

impl Layer {
    /// Returns the name of an edge of the graph.
    fn name(&self, name: &str) -> String {
        format!("layer{}.{name}", self.number)
    }

    /// Returns the name of a weight. `layers` is the prefix that the family has for all of them.
    fn weight(&self, layers: &str, name: &str) -> String {
        format!("{layers}.{}.{name}", self.number)
    }
}

fn embeddings(writer: &mut Writer) -> Result<String, EngineError> {
    let config = writer.config;
    let (table, norm) = match config.family {
        Family::NomicBert => ("embeddings.word_embeddings.weight", "emb_ln"),
        _ => ("embeddings.tok_embeddings.weight", "embeddings.norm"),
    };
    let words = writer.weight(table, &[config.words, config.hidden])?;
    writer.words(&words, "input_ids");
    let mut sum = "word";
    if config.segments > 0 {
        let shape = [config.segments, config.hidden];
        let types = writer.weight("embeddings.token_type_embeddings.weight", &shape)?;
        writer
            .graph
            .floats("type", &[config.hidden], &types[..config.hidden]);
        writer.graph.node("Add", &["word", "type"], &["sum"], &[]);
        sum = "sum";
    }
    writer.normalise(sum, norm, "embedded")?;
    Ok("embedded".into())
}

/// The positions of the tokens, as a column of floats.
fn positions(graph: &mut Graph) {
    graph.integers("rotation.first", &[], &[0]);
    graph.integers("rotation.step", &[], &[1]);
    graph.integers("rotation.start", &[1], &[0]);
    graph.integers("rotation.axis0", &[1], &[0]);
    graph.integers("rotation.axis1", &[1], &[1]);
    let last = [Int("start", 1), Int("end", 2)];
    graph.node("Shape", &["input_ids"], &["rotation.shape"], &last);
    graph.node(
        "Squeeze",
        &["rotation.shape", "rotation.axis0"],
        &["rotation.tokens"],
        &[],
    );
    graph.node(
        "Range",
        &["rotation.first", "rotation.tokens", "rotation.step"],
        &["rotation.places"],
        &[],
    );
    graph.node(
        "Cast",
        &["rotation.places"],
        &["rotation.floats"],
        &[Int("to", ElementType::Float as i64)],
    );
    graph.node(
        "Unsqueeze",
        &["rotation.floats", "rotation.axis1"],
        &["rotation.column"],
        &[],
    );
}

/// Sines and cosines for the number of tokens at hand: `NAME.cos` and `NAME.sin`.
fn waves(writer: &mut Writer, number: usize, theta: f64) {
    let half = writer.config.hidden / writer.config.heads / 2;
    let name = |part: &str| format!("rotation{number}.{part}");
    // in 32 bits, as PyTorch computes them
    let frequency = |at: usize| {
        let exponent = (2 * at) as f32 / (2 * half) as f32;
        1.0 / (theta as f32).powf(exponent)
    };
    let frequencies: Vec<f32> = (0..half).map(frequency).collect();
    let graph = &mut writer.graph;
    graph.floats(&name("frequency"), &[1, half], &frequencies);
    graph.node(
        "Mul",
        &["rotation.column", &name("frequency")],
        &[&name("angle")],
        &[],
    );
    graph.node("Cos", &[&name("angle")], &[&name("cos")], &[]);
    graph.node("Sin", &[&name("angle")], &[&name("sin")], &[]);
}

/// Self-attention with rotated queries and keys, whose weights are packed. `layers` is as for
/// [`Layer::weight`]. Returns its name.
fn attention(
    writer: &mut Writer,
    layer: &Layer,
    layers: &str,
    input: &str,
) -> Result<String, EngineError> {
    let (name, packed) = (layer.name("attended"), layer.weight(layers, "attn.Wqkv"));
    let (wave, hidden) = (&layer.wave, writer.config.hidden);
    let projected = format!("{name}.projected");
    let shape = [hidden.saturating_mul(3), hidden];
    let whole = writer.dense_with_optional_bias(&projected, input, &packed, shape)?;
    let [q, k, v] = writer.split_in_three(&whole);
    let (cos, sin) = (format!("{wave}.cos"), format!("{wave}.sin"));
    let [turned_q, turned_k] = [&q, &k].map(|part| format!("{part}.turned"));
    for (part, turned) in [(&q, &turned_q), (&k, &turned_k)] {
        writer.graph.fused_node(
            "RotaryEmbedding",
            &[part, "rotation.start", &cos, &sin],
            &[turned],
            &[Int("interleaved", 0)],
        );
    }
    match layer.rotation.distance {
        None => {
            let heads = writer.heads();
            writer.graph.fused_node(
                "MultiHeadAttention",
                &[&turned_q, &turned_k, &v],
                &[&name],
                &heads,
            );
        }
        Some(distance) => window::attention(writer, &name, [&turned_q, &turned_k, &v], distance),
    }
    Ok(name)
}

fn nomic_layer(writer: &mut Writer, layer: &Layer, input: &str) -> Result<String, EngineError> {
    const LAYERS: &str = "encoder.layers";
    let (weight, name) = (
        |name: &str| layer.weight(LAYERS, name),
        |name: &str| layer.name(name),
    );
    let (hidden, wide) = (writer.config.hidden, writer.config.wide);
    let (mixed, between) = (name("mixed"), name("between"));
    let attended = attention(writer, layer, LAYERS, input)?;
    let dense = weight("attn.out_proj.weight");
    writer.dense(&mixed, &attended, &dense, [hidden, hidden])?;
    writer.normalise_sum(&[&mixed, input], &weight("norm1"), &between)?;

    let (value, gate, active) = (name("value"), name("gate"), name("active"));
    let (gated, narrowed, output) = (name("gated"), name("narrowed"), name("output"));
    let shape = [wide, hidden];
    writer.dense(&value, &between, &weight("mlp.fc11.weight"), shape)?;
    writer.dense(&gate, &between, &weight("mlp.fc12.weight"), shape)?;
    writer.activate(writer.config.activation, &gate, &active);
    writer.graph.node("Mul", &[&value, &active], &[&gated], &[]);
    let dense = weight("mlp.fc2.weight");
    writer.dense(&narrowed, &gated, &dense, [hidden, wide])?;
    writer.normalise_sum(&[&narrowed, &between], &weight("norm2"), &output)?;
    Ok(output)
}

fn modern_layer(writer: &mut Writer, layer: &Layer, input: &str) -> Result<String, EngineError> {
    const LAYERS: &str = "layers";
    let (weight, name) = (
        |name: &str| layer.weight(LAYERS, name),
        |name: &str| layer.name(name),
    );
    let (hidden, wide) = (writer.config.hidden, writer.config.wide);
    // the embeddings are normalised already
    let ready = if layer.number == 0 {
        input.to_owned()
    } else {
        writer.normalise(input, &weight("attn_norm"), &name("ready"))?;
        name("ready")
    };
    let (mixed, between) = (name("mixed"), name("between"));
    let attended = attention(writer, layer, LAYERS, &ready)?;
    let mixed =
        writer.dense_with_optional_bias(&mixed, &attended, &weight("attn.Wo"), [hidden, hidden])?;
    writer.graph.node("Add", &[input, &mixed], &[&between], &[]);

    let (prepared, widened) = (name("prepared"), name("widened"));
    writer.normalise(&between, &weight("mlp_norm"), &prepared)?;
    let shape = [wide.saturating_mul(2), hidden];
    let widened = writer.dense_with_optional_bias(&widened, &prepared, &weight("mlp.Wi"), shape)?;
    let (value, gate, sizes) = (name("value"), name("gate"), name("sizes"));
    writer.graph.integers(&sizes, &[2], &[wide as i64; 2]);
    writer.graph.node(
        "Split",
        &[&widened, &sizes],
        &[&value, &gate],
        &[Int("axis", -1)],
    );
    let (active, gated) = (name("active"), name("gated"));
    writer.activate(writer.config.activation, &value, &active);
    writer.graph.node("Mul", &[&active, &gate], &[&gated], &[]);
    let narrowed = name("narrowed");
    let narrowed =
        writer.dense_with_optional_bias(&narrowed, &gated, &weight("mlp.Wo"), [hidden, wide])?;
    let output = name("output");
    writer
        .graph
        .node("Add", &[&between, &narrowed], &[&output], &[]);
    Ok(output)
}
