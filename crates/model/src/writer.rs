//! The parts of a graph that all families share: dense layers, tables of words, normalisation.

use rag_definition::model::Precision;
use rag_protocol::EngineError;

use crate::{
    config::{Activation, Config},
    onnx::{
        Attribute::{self, Float, Int},
        ElementType, Graph,
    },
    quantize::{quantize_columns, quantize_rows},
    safetensors::Weights,
};

/// Writes the graph of one encoder.
pub(crate) struct Writer<'a> {
    pub config: &'a Config,
    pub weights: &'a Weights<'a>,
    pub precision: Precision,
    /// Prefix of every weight's name: checkpoints with a head on top keep the encoder under
    /// a name.
    pub prefix: &'static str,
    pub graph: Graph,
}

impl Writer<'_> {
    pub fn weight(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        self.weights
            .floats(&format!("{}{name}", self.prefix), shape)
    }

    pub fn has(&self, name: &str) -> bool {
        self.weights.contains(&format!("{}{name}", self.prefix))
    }

    /// Copies a vector of weights into the graph under the name `to`.
    pub fn vector(&mut self, from: &str, to: &str, length: usize) -> Result<(), EngineError> {
        // the names in checkpoints of the first years
        let old = match from.rsplit_once("LayerNorm.") {
            Some((block, "weight")) => Some(format!("{block}LayerNorm.gamma")),
            Some((block, "bias")) => Some(format!("{block}LayerNorm.beta")),
            _ => None,
        };
        let name = match &old {
            Some(old) if !self.has(from) && self.has(old) => old,
            _ => from,
        };
        let values = self.weight(name, &[length])?;
        self.graph.floats(to, &[length], &values);
        Ok(())
    }

    pub fn epsilon(&self) -> [Attribute<'static>; 1] {
        [Float("epsilon", self.config.epsilon)]
    }

    /// Returns true for a graph without `attention_mask`. Texts in 8 bits are always run alone: a
    /// run has one scale for the activations of all its texts.
    pub fn takes_texts_alone(&self) -> bool {
        self.precision == Precision::Int8 || self.config.takes_texts_alone()
    }

    /// `input * weight + bias`. `stored` is `[outputs, inputs]`, as PyTorch stores it, and `bias`
    /// the name of a constant. Returns the name of the output.
    pub fn product(
        &mut self,
        name: &str,
        input: &str,
        stored: &[f32],
        inputs: usize,
        bias: Option<&str>,
    ) -> String {
        let outputs = stored.len() / inputs;
        let matrix = transposed(stored, inputs);
        let part = |part: &str| format!("{name}.{part}");
        let weight = part("weight");
        match self.precision {
            Precision::Fp32 => {
                self.graph.floats(&weight, &[inputs, outputs], &matrix);
                self.graph.node("MatMul", &[input, &weight], &[name], &[]);
                let Some(bias) = bias else {
                    return name.into();
                };
                let sum = part("sum");
                self.graph.node("Sum", &[name, bias], &[&sum], &[]);
                sum
            }
            Precision::Int8 => {
                self.quantized(name, &matrix, inputs, outputs);
                let (scale, zero) = (part("scale"), part("zero"));
                let mut inputs = vec![input, &weight, &scale, &zero];
                inputs.extend(bias);
                self.graph
                    .fused_node("DynamicQuantizeMatMul", &inputs, &[name], &[]);
                name.into()
            }
        }
    }

    /// A dense layer `weight` without a bias.
    pub fn dense(
        &mut self,
        name: &str,
        input: &str,
        weight: &str,
        [outputs, inputs]: [usize; 2],
    ) -> Result<(), EngineError> {
        let stored = self.weight(weight, &[outputs, inputs])?;
        self.product(name, input, &stored, inputs, None);
        Ok(())
    }

    /// A dense layer with its bias. Returns the name of the output.
    pub fn dense_with_bias(
        &mut self,
        name: &str,
        input: &str,
        layer: &str,
        [outputs, inputs]: [usize; 2],
    ) -> Result<String, EngineError> {
        let stored = self.weight(&format!("{layer}.weight"), &[outputs, inputs])?;
        let bias = format!("{name}.bias");
        self.vector(&format!("{layer}.bias"), &bias, outputs)?;
        Ok(self.product(name, input, &stored, inputs, Some(&bias)))
    }

    /// A dense layer with its bias, if the model has one. Returns the name of the output.
    pub fn dense_with_optional_bias(
        &mut self,
        name: &str,
        input: &str,
        layer: &str,
        shape: [usize; 2],
    ) -> Result<String, EngineError> {
        if self.has(&format!("{layer}.bias")) {
            return self.dense_with_bias(name, input, layer, shape);
        }
        self.dense(name, input, &format!("{layer}.weight"), shape)?;
        Ok(name.into())
    }

    /// Adds the constants `NAME.weight`, `NAME.scale` and `NAME.zero`.
    pub fn quantized(&mut self, name: &str, matrix: &[f32], inputs: usize, outputs: usize) {
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

    /// Looks up the words of `ids` in a table of 8 bits: that table is most of a small model.
    /// The result is `word`.
    pub fn quantized_words(&mut self, table: &[f32], ids: &str) {
        let (hidden, rows) = (self.config.hidden, self.config.words);
        let table = quantize_rows(table, hidden);
        let graph = &mut self.graph;
        graph.bytes("words", &[rows, hidden], &table.integers);
        graph.floats("words.scale", &[rows, 1], &table.scales);
        graph.node("Gather", &["words", ids], &["word.integers"], &[]);
        graph.node("Gather", &["words.scale", ids], &["word.scale"], &[]);
        graph.node(
            "Cast",
            &["word.integers"],
            &["word.floats"],
            &[Int("to", ElementType::Float as i64)],
        );
        graph.node("Mul", &["word.floats", "word.scale"], &["word"], &[]);
    }

    /// Looks up the words of `ids`. The result is `word`.
    pub fn words(&mut self, table: &[f32], ids: &str) {
        match self.precision {
            Precision::Fp32 => {
                let shape = [self.config.words, self.config.hidden];
                self.graph.floats("words", &shape, table);
                self.graph.node("Gather", &["words", ids], &["word"], &[]);
            }
            Precision::Int8 => self.quantized_words(table, ids),
        }
    }

    /// Normalises with the weights under `norm`; the bias is optional.
    pub fn normalise(&mut self, input: &str, norm: &str, output: &str) -> Result<(), EngineError> {
        let (gamma, beta) = (format!("{output}.gamma"), format!("{output}.beta"));
        let hidden = self.config.hidden;
        self.vector(&format!("{norm}.weight"), &gamma, hidden)?;
        let mut inputs = vec![input, &gamma];
        if self.has(&format!("{norm}.bias")) || self.has(&format!("{norm}.beta")) {
            self.vector(&format!("{norm}.bias"), &beta, hidden)?;
            inputs.push(&beta);
        }
        let attributes = [self.epsilon()[0], Int("axis", -1)];
        self.graph
            .node("LayerNormalization", &inputs, &[output], &attributes);
        Ok(())
    }

    /// Normalises a sum, with the weights under `norm`; the bias is optional.
    ///
    /// ONNX Runtime 1.31 fuses `Add` and `LayerNormalization` to `SkipLayerNormalization`, which
    /// takes almost four times as long. It leaves `Sum` as it is.
    pub fn normalise_sum(
        &mut self,
        inputs: &[&str],
        norm: &str,
        output: &str,
    ) -> Result<(), EngineError> {
        let sum = format!("{output}.sum");
        self.graph.node("Sum", inputs, &[&sum], &[]);
        self.normalise(&sum, norm, output)
    }

    /// Applies an activation.
    pub fn activate(&mut self, activation: Activation, input: &str, output: &str) {
        let graph = &mut self.graph;
        match activation {
            Activation::Gelu => graph.fused_node("Gelu", &[input], &[output], &[]),
            Activation::TanhGelu => graph.fused_node("FastGelu", &[input], &[output], &[]),
            Activation::Relu => graph.node("Relu", &[input], &[output], &[]),
            Activation::Tanh => graph.node("Tanh", &[input], &[output], &[]),
            Activation::Silu => {
                let gate = format!("{output}.gate");
                graph.node("Sigmoid", &[input], &[&gate], &[]);
                graph.node("Mul", &[input, &gate], &[output], &[]);
            }
        }
    }

    /// Splits `[texts, tokens, 3 * hidden]` into queries, keys and values: `NAME.q`, `.k`, `.v`.
    pub fn split_in_three(&mut self, name: &str) -> [String; 3] {
        let parts = ["q", "k", "v"].map(|part| format!("{name}.{part}"));
        let sizes = format!("{name}.sizes");
        let hidden = self.config.hidden as i64;
        self.graph.integers(&sizes, &[3], &[hidden; 3]);
        self.graph.node(
            "Split",
            &[name, &sizes],
            &[&parts[0], &parts[1], &parts[2]],
            &[Int("axis", -1)],
        );
        parts
    }

    pub fn heads(&self) -> [Attribute<'static>; 1] {
        [Int("num_heads", self.config.heads as i64)]
    }
}

/// Returns the transpose of a row-major matrix of `columns` columns.
pub(crate) fn transposed(matrix: &[f32], columns: usize) -> Vec<f32> {
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
mod tests {
    use super::*;

    #[test]
    fn a_transposed_matrix_swaps_rows_and_columns() {
        assert_eq!(
            transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3),
            [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
        );
    }
}
