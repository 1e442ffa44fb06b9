//! A BERT sentence encoder as an ONNX graph: token ids in, one vector of length 1 per text out.
//!
//! ```text
//!  input_ids, token_type_ids ─> embeddings + LayerNorm
//!                                    │
//!            ┌── x ──────────────────┤
//!  per layer │   attention ─> dense ─┴─> SkipLayerNormalization ──┬─> dense ─> GELU ─> dense ─┐
//!            └──────────────────────────────────────── x <── SkipLayerNormalization <─────────┴──
//!                                    │
//!  attention_mask ─────────────> pooling ─> LpNormalization ─> sentence_embedding
//! ```
//!
//! ONNX Runtime's fused operators are used throughout. In 8 bits, the weights of dense layers and
//! attention are integers, and activations are quantized at run time (`DynamicQuantizeMatMul`,
//! `QAttention`). The table of words is stored as integers. Biases and normalisation stay 32-bit
//! floats.

use rag_protocol::{EngineError, ErrorKind, embed::Precision};
use serde::Deserialize;

use crate::{
    onnx::{
        Attribute::{Float, Int},
        Dimension::{Fixed, Named},
        ElementType, Graph,
    },
    quantize::{quantize_columns, quantize_rows},
    safetensors::Weights,
    settings::Pooling,
};

/// The shape of the encoder: the fields of `config.json` that are used.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    model_type: String,
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f32,
}

impl Config {
    /// # Errors
    /// `Unsupported` if the model is not a BERT that this module can write.
    pub fn check(&self) -> Result<(), EngineError> {
        let unsupported = |problem: String| {
            Err(EngineError::new(ErrorKind::Unsupported, problem).hint(
                "Only BERT encoders with GELU and absolute positions can be converted; export \
                    others to ONNX with their own tools.",
            ))
        };
        if self.model_type != "bert" {
            return unsupported(format!(
                "a model of type \"{}\" cannot be converted",
                self.model_type
            ));
        }
        if self.hidden_act != "gelu" {
            return unsupported(format!(
                "the activation \"{}\" cannot be converted",
                self.hidden_act
            ));
        }
        if self
            .position_embedding_type
            .as_ref()
            .is_some_and(|positions| positions != "absolute")
        {
            return unsupported("positions that are not absolute cannot be converted".into());
        }
        if self.num_attention_heads == 0
            || !self.hidden_size.is_multiple_of(self.num_attention_heads)
        {
            return unsupported(format!(
                "{} dimensions cannot be shared by {} attention heads",
                self.hidden_size, self.num_attention_heads
            ));
        }
        Ok(())
    }
}

/// Writes the graph of a whole encoder.
///
/// # Errors
/// `InvalidModel` if a weight is missing or has another shape than `config` says.
pub fn graph(
    config: &Config,
    weights: &Weights,
    pooling: Pooling,
    precision: Precision,
) -> Result<Graph, EngineError> {
    let prefix = if weights.contains("bert.embeddings.word_embeddings.weight") {
        "bert."
    } else {
        ""
    };
    let mut writer = Writer {
        config,
        weights,
        precision,
        prefix,
        graph: Graph::default(),
    };
    let text = [Named("texts"), Named("tokens")];
    for input in ["input_ids", "attention_mask", "token_type_ids"] {
        writer.graph.input(input, ElementType::Int64, &text);
    }
    let mut hidden = writer.embeddings()?;
    for layer in 0..config.num_hidden_layers {
        hidden = writer.layer(layer, &hidden)?;
    }
    writer.pool(&hidden, pooling);
    writer.graph.output(
        "sentence_embedding",
        ElementType::Float,
        &[Named("texts"), Fixed(config.hidden_size)],
    );
    Ok(writer.graph)
}

struct Writer<'a> {
    config: &'a Config,
    weights: &'a Weights<'a>,
    precision: Precision,
    /// Prefix of every weight's name: checkpoints with a head on top keep the encoder under
    /// `bert.`.
    prefix: &'static str,
    graph: Graph,
}

/// A dense layer's weights: their source, and their names in the graph.
struct Dense<'a> {
    name: &'a str,
    weight: String,
    inputs: usize,
    outputs: usize,
}

impl Writer<'_> {
    fn weight(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        self.weights
            .floats(&format!("{}{name}", self.prefix), shape)
    }

    /// Copies a vector of weights into the graph under the name `to`.
    fn vector(&mut self, from: &str, to: &str, length: usize) -> Result<(), EngineError> {
        let values = self.weight(from, &[length])?;
        self.graph.floats(to, &[length], &values);
        Ok(())
    }

    fn epsilon(&self) -> [crate::onnx::Attribute<'static>; 1] {
        [Float("epsilon", self.config.layer_norm_eps)]
    }

    /// Word, position and segment embeddings, summed and normalised.
    fn embeddings(&mut self) -> Result<String, EngineError> {
        let (hidden, config) = (self.config.hidden_size, self.config);
        for (from, to) in [
            ("input_ids", "ids"),
            ("token_type_ids", "segments"),
            ("attention_mask", "mask"),
        ] {
            self.graph.node(
                "Cast",
                &[from],
                &[to],
                &[Int("to", ElementType::Int32 as i64)],
            );
        }
        let table =
            |name: &str, rows| self.weight(&format!("embeddings.{name}.weight"), &[rows, hidden]);
        let words = table("word_embeddings", config.vocab_size)?;
        let positions = table("position_embeddings", config.max_position_embeddings)?;
        let types = table("token_type_embeddings", config.type_vocab_size)?;
        self.graph.floats(
            "positions",
            &[config.max_position_embeddings, hidden],
            &positions,
        );
        self.graph
            .floats("types", &[config.type_vocab_size, hidden], &types);
        self.vector("embeddings.LayerNorm.weight", "embedded.gamma", hidden)?;
        self.vector("embeddings.LayerNorm.bias", "embedded.beta", hidden)?;
        match self.precision {
            Precision::Fp32 => {
                self.graph
                    .floats("words", &[config.vocab_size, hidden], &words);
                self.graph.fused_node(
                    "EmbedLayerNormalization",
                    &[
                        "ids",
                        "segments",
                        "words",
                        "positions",
                        "types",
                        "embedded.gamma",
                        "embedded.beta",
                        "mask",
                    ],
                    &["embedded", "embedded.mask_index"],
                    &self.epsilon(),
                );
            }
            Precision::Int8 => self.sum_quantized_words(&words),
        }
        Ok("embedded".into())
    }

    /// Does the same as `EmbedLayerNormalization`, which takes floats only, over a table of words
    /// in 8 bits: that table is most of the model.
    fn sum_quantized_words(&mut self, words: &[f32]) {
        let (hidden, rows) = (self.config.hidden_size, self.config.vocab_size);
        let table = quantize_rows(words, hidden);
        let epsilon = [self.epsilon()[0], Int("axis", -1)];
        let graph = &mut self.graph;
        graph.bytes("words", &[rows, hidden], &table.integers);
        graph.floats("words.scale", &[rows, 1], &table.scales);
        graph.node("Gather", &["words", "ids"], &["word.integers"], &[]);
        graph.node("Gather", &["words.scale", "ids"], &["word.scale"], &[]);
        graph.node(
            "Cast",
            &["word.integers"],
            &["word.floats"],
            &[Int("to", ElementType::Float as i64)],
        );
        graph.node("Mul", &["word.floats", "word.scale"], &["word"], &[]);
        // The first positions, as many as there are tokens.
        graph.integers("zero", &[1], &[0]);
        graph.node("Shape", &["ids"], &["length"], &[Int("start", 1)]);
        graph.node(
            "Slice",
            &["positions", "zero", "length", "zero"],
            &["position"],
            &[],
        );
        graph.node("Gather", &["types", "segments"], &["type"], &[]);
        graph.node("Add", &["word", "position"], &["placed"], &[]);
        graph.node("Add", &["placed", "type"], &["sum"], &[]);
        graph.node(
            "LayerNormalization",
            &["sum", "embedded.gamma", "embedded.beta"],
            &["embedded"],
            &epsilon,
        );
    }

    /// Writes one layer. Returns the name of its output.
    fn layer(&mut self, layer: usize, input: &str) -> Result<String, EngineError> {
        let (hidden, wide) = (self.config.hidden_size, self.config.intermediate_size);
        let weight = |name: &str| format!("encoder.layer.{layer}.{name}");
        let name = |name: &str| format!("layer{layer}.{name}");

        let (attended, mixed, between) = (name("attended"), name("mixed"), name("between"));
        self.attention(layer, input, &attended)?;
        let dense = weight("attention.output.dense.weight");
        self.dense(
            &attended,
            &Dense {
                name: &mixed,
                weight: dense,
                inputs: hidden,
                outputs: hidden,
            },
        )?;
        self.add_and_normalise(&mixed, input, &weight("attention.output"), &between)?;

        let (widened, bias, active) = (name("widened"), name("widened.bias"), name("active"));
        let dense = weight("intermediate.dense.weight");
        self.dense(
            &between,
            &Dense {
                name: &widened,
                weight: dense,
                inputs: hidden,
                outputs: wide,
            },
        )?;
        self.vector(&weight("intermediate.dense.bias"), &bias, wide)?;
        self.graph
            .fused_node("BiasGelu", &[&widened, &bias], &[&active], &[]);

        let (narrowed, output) = (name("narrowed"), name("output"));
        let dense = weight("output.dense.weight");
        self.dense(
            &active,
            &Dense {
                name: &narrowed,
                weight: dense,
                inputs: wide,
                outputs: hidden,
            },
        )?;
        self.add_and_normalise(&narrowed, &between, &weight("output"), &output)?;
        Ok(output)
    }

    /// Self-attention: the query, key and value projections side by side in one matrix `[hidden, 3
    /// * hidden]`.
    fn attention(&mut self, layer: usize, input: &str, output: &str) -> Result<(), EngineError> {
        let hidden = self.config.hidden_size;
        let columns = 3 * hidden;
        let mut matrix = vec![0.0; hidden * columns];
        let mut bias = Vec::with_capacity(columns);
        for (third, part) in ["query", "key", "value"].iter().enumerate() {
            let part = format!("encoder.layer.{layer}.attention.self.{part}");
            let weight = self.weight(&format!("{part}.weight"), &[hidden, hidden])?;
            for (out, row) in weight.chunks_exact(hidden).enumerate() {
                for (input, value) in row.iter().enumerate() {
                    matrix[input * columns + third * hidden + out] = *value;
                }
            }
            bias.extend(self.weight(&format!("{part}.bias"), &[hidden])?);
        }
        let part = |name: &str| format!("{output}.{name}");
        let heads = [Int("num_heads", self.config.num_attention_heads as i64)];
        self.graph.floats(&part("bias"), &[columns], &bias);
        match self.precision {
            Precision::Fp32 => {
                self.graph
                    .floats(&part("weight"), &[hidden, columns], &matrix);
                let inputs = [input, &part("weight"), &part("bias"), "mask"];
                self.graph
                    .fused_node("Attention", &inputs, &[output], &heads);
            }
            Precision::Int8 => {
                self.quantized(output, &matrix, hidden, columns);
                let (x, scale, zero) = (part("input"), part("input.scale"), part("input.zero"));
                self.graph
                    .node("DynamicQuantizeLinear", &[input], &[&x, &scale, &zero], &[]);
                let (weight, weight_scale, weight_zero) =
                    (part("weight"), part("scale"), part("zero"));
                let inputs = [
                    x.as_str(),
                    &weight,
                    &part("bias"),
                    &scale,
                    &weight_scale,
                    "mask",
                    &zero,
                    &weight_zero,
                ];
                self.graph
                    .fused_node("QAttention", &inputs, &[output], &heads);
            }
        }
        Ok(())
    }

    /// `input * weight`, without the bias, which the next operator adds.
    fn dense(&mut self, input: &str, dense: &Dense) -> Result<(), EngineError> {
        let stored = self.weight(&dense.weight, &[dense.outputs, dense.inputs])?;
        let matrix = transposed(&stored, dense.inputs);
        let part = |name: &str| format!("{}.{name}", dense.name);
        match self.precision {
            Precision::Fp32 => {
                self.graph
                    .floats(&part("weight"), &[dense.inputs, dense.outputs], &matrix);
                self.graph
                    .node("MatMul", &[input, &part("weight")], &[dense.name], &[]);
            }
            Precision::Int8 => {
                self.quantized(dense.name, &matrix, dense.inputs, dense.outputs);
                let inputs = [input, &part("weight"), &part("scale"), &part("zero")];
                self.graph
                    .fused_node("DynamicQuantizeMatMul", &inputs, &[dense.name], &[]);
            }
        }
        Ok(())
    }

    /// Adds the constants `NAME.weight`, `NAME.scale` and `NAME.zero`.
    fn quantized(&mut self, name: &str, matrix: &[f32], inputs: usize, outputs: usize) {
        let quantized = quantize_columns(matrix, outputs);
        self.graph.bytes(
            &format!("{name}.weight"),
            &[inputs, outputs],
            &quantized.integers,
        );
        self.graph
            .floats(&format!("{name}.scale"), &[outputs], &quantized.scales);
        self.graph
            .bytes(&format!("{name}.zero"), &[outputs], &vec![0; outputs]);
    }

    /// `LayerNorm(dense + bias + residual)`, with the weights under `block`.
    fn add_and_normalise(
        &mut self,
        dense: &str,
        residual: &str,
        block: &str,
        output: &str,
    ) -> Result<(), EngineError> {
        let (gamma, beta, bias) = (
            format!("{output}.gamma"),
            format!("{output}.beta"),
            format!("{output}.bias"),
        );
        for (from, to) in [
            ("LayerNorm.weight", &gamma),
            ("LayerNorm.bias", &beta),
            ("dense.bias", &bias),
        ] {
            self.vector(&format!("{block}.{from}"), to, self.config.hidden_size)?;
        }
        let inputs = [dense, residual, &gamma, &beta, &bias];
        self.graph.fused_node(
            "SkipLayerNormalization",
            &inputs,
            &[output],
            &self.epsilon(),
        );
        Ok(())
    }

    /// Pools the tokens' vectors to one vector of length 1.
    fn pool(&mut self, hidden: &str, pooling: Pooling) {
        let graph = &mut self.graph;
        match pooling {
            Pooling::Mean => {
                // mask [texts, 1, tokens] x hidden [texts, tokens, h] is the sum over the tokens
                // that count.
                graph.integers("axis1", &[1], &[1]);
                graph.node(
                    "Cast",
                    &["attention_mask"],
                    &["weights"],
                    &[Int("to", ElementType::Float as i64)],
                );
                graph.node("Unsqueeze", &["weights", "axis1"], &["weights.row"], &[]);
                graph.node("MatMul", &["weights.row", hidden], &["total.row"], &[]);
                graph.node("Squeeze", &["total.row", "axis1"], &["total"], &[]);
                graph.node(
                    "ReduceSum",
                    &["weights", "axis1"],
                    &["tokens"],
                    &[Int("keepdims", 1)],
                );
                graph.node("Div", &["total", "tokens"], &["pooled"], &[]);
            }
            Pooling::Cls => {
                graph.integers("first", &[], &[0]);
                graph.node("Gather", &[hidden, "first"], &["pooled"], &[Int("axis", 1)]);
            }
        }
        graph.node(
            "LpNormalization",
            &["pooled"],
            &["sentence_embedding"],
            &[Int("axis", -1), Int("p", 2)],
        );
    }
}

/// Returns the transpose of a row-major matrix of `columns` columns.
fn transposed(matrix: &[f32], columns: usize) -> Vec<f32> {
    let rows = matrix.len() / columns;
    let mut out = vec![0.0; matrix.len()];
    for (r, row) in matrix.chunks_exact(columns).enumerate() {
        for (c, value) in row.iter().enumerate() {
            out[c * rows + r] = *value;
        }
    }
    out
}

#[cfg(test)]
mod tests;
