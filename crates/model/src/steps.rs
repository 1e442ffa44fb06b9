//! Dense layers after pooling, which `rag-engine` applies: a folder each, such as `2_Dense`, with
//! `config.json` and `model.safetensors`.

use std::path::Path;

use rag_protocol::EngineError;
use serde::Deserialize;

use crate::{invalid, safetensors::Weights, settings::required, unreadable};

/// Maximum length of a vector.
pub(crate) const MOST_DIMENSIONS: usize = 1 << 14;

/// The function after a dense layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepActivation {
    Identity,
    Tanh,
    Relu,
}

/// A dense layer.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseStep {
    /// The name of its folder.
    pub folder: String,
    pub inputs: usize,
    pub outputs: usize,
    pub has_bias: bool,
    /// True if its input is scaled to length 1.
    pub is_normalized: bool,
    pub activation: StepActivation,
}

/// The weights of a dense layer.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseLayer {
    /// A row for each output.
    matrix: Vec<f32>,
    bias: Vec<f32>,
    is_normalized: bool,
    activation: StepActivation,
}

/// Reads the settings of dense layers, and checks that they fit each other.
pub(crate) fn dense_steps(
    dir: &Path,
    folders: &[(String, bool)],
    hidden_size: usize,
) -> Result<Vec<DenseStep>, EngineError> {
    #[derive(Deserialize)]
    struct Dense {
        in_features: usize,
        out_features: usize,
        #[serde(default = "yes")]
        bias: bool,
        #[serde(default)]
        activation_function: Option<String>,
        #[serde(default)]
        module_input_name: Option<String>,
    }
    fn yes() -> bool {
        true
    }
    let mut steps = vec![];
    let mut length = hidden_size;
    for (folder, is_normalized) in folders {
        let path = dir.join(folder).join("config.json");
        let dense: Dense = required(&path)?;
        if dense.in_features != length || !(1..=MOST_DIMENSIONS).contains(&dense.out_features) {
            return Err(invalid(
                &path,
                format!(
                    "it makes vectors of {} numbers from vectors of {}, not of {length}",
                    dense.out_features, dense.in_features
                ),
            ));
        }
        let input = dense.module_input_name.as_deref();
        if let Some(other) = input.filter(|input| *input != "sentence_embedding") {
            return Err(
                invalid(&path, format!("its input \"{other}\" is not supported"))
                    .hint("Supported is sentence_embedding, the vector after pooling."),
            );
        }
        let name = dense.activation_function.unwrap_or_default();
        // the default of the library
        let activation = match name.rsplit('.').next().unwrap_or_default() {
            "Identity" => StepActivation::Identity,
            "" | "Tanh" => StepActivation::Tanh,
            "ReLU" => StepActivation::Relu,
            _ => {
                return Err(
                    invalid(&path, format!("the activation \"{name}\" is not supported"))
                        .hint("Supported are Identity, Tanh and ReLU."),
                );
            }
        };
        length = dense.out_features;
        steps.push(DenseStep {
            folder: folder.clone(),
            inputs: dense.in_features,
            outputs: length,
            has_bias: dense.bias,
            is_normalized: *is_normalized,
            activation,
        });
    }
    Ok(steps)
}

impl DenseStep {
    /// Reads the weights.
    ///
    /// # Errors
    /// `FileNotFound`, or `InvalidModel` if they do not fit the settings.
    pub fn load(&self, dir: &Path) -> Result<DenseLayer, EngineError> {
        let path = dir.join(&self.folder).join("model.safetensors");
        let bytes = rag_protocol::file::read(&path).map_err(|e| {
            unreadable(&path, &e)
                .hint("Weights in pytorch_model.bin cannot be read: save the model as safetensors.")
        })?;
        let weights = Weights::parse(&path, &bytes)?;
        let shape = [self.outputs, self.inputs];
        Ok(DenseLayer {
            matrix: weights.floats("linear.weight", &shape)?,
            bias: if self.has_bias {
                weights.floats("linear.bias", &[self.outputs])?
            } else {
                vec![0.0; self.outputs]
            },
            is_normalized: self.is_normalized,
            activation: self.activation,
        })
    }
}

impl DenseLayer {
    pub fn apply(&self, vector: &[f32]) -> Vec<f32> {
        let length = match self.is_normalized {
            true => vector
                .iter()
                .map(|v| f64::from(*v).powi(2))
                .sum::<f64>()
                .sqrt(),
            false => 1.0,
        };
        let scale = if length > 0.0 { 1.0 / length } else { 1.0 };
        let rows = self.matrix.chunks_exact(vector.len().max(1));
        let sums = rows.zip(&self.bias).map(|(row, bias)| {
            let products = row.iter().zip(vector).map(|(a, b)| f64::from(a * b));
            (products.sum::<f64>() * scale + f64::from(*bias)) as f32
        });
        sums.map(|sum| match self.activation {
            StepActivation::Identity => sum,
            StepActivation::Tanh => sum.tanh(),
            StepActivation::Relu => sum.max(0.0),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_layer_is_a_product_a_sum_and_a_function() {
        let mut layer = DenseLayer {
            matrix: vec![1.0, 2.0, -3.0, 0.5],
            bias: vec![0.5, 1.0],
            is_normalized: false,
            activation: StepActivation::Identity,
        };
        assert_eq!(layer.apply(&[2.0, 4.0]), [10.5, -3.0]);
        layer.activation = StepActivation::Relu;
        assert_eq!(layer.apply(&[2.0, 4.0]), [10.5, 0.0]);
        layer.activation = StepActivation::Tanh;
        assert_eq!(layer.apply(&[0.0, 0.0]), [0.5f32.tanh(), 1f32.tanh()]);
        layer.activation = StepActivation::Identity;
        layer.is_normalized = true;
        assert_eq!(layer.apply(&[0.0, 4.0]), [2.5, 1.5]);
        assert_eq!(layer.apply(&[0.0, 0.0]), [0.5, 1.0]);
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("2_Dense")).unwrap();
        let read = |config: &str| {
            fs::write(dir.path().join("2_Dense/config.json"), config).unwrap();
            dense_steps(dir.path(), &[("2_Dense".into(), false)], 8)
        };
        let steps = read(r#"{"in_features": 8, "out_features": 4, "bias": false}"#).unwrap();
        assert_eq!((steps[0].outputs, steps[0].has_bias), (4, false));
        assert_eq!(steps[0].activation, StepActivation::Tanh);
        for (config, detail) in [
            (
                r#"{"in_features": 9, "out_features": 4}"#,
                "it makes vectors of 4 numbers from vectors of 9, not of 8",
            ),
            (
                r#"{"in_features": 8, "out_features": 4, "activation_function": "a.Softplus"}"#,
                "the activation \"a.Softplus\" is not supported",
            ),
            (
                r#"{"in_features": 8, "out_features": 4, "module_input_name": "token_embeddings"}"#,
                "its input \"token_embeddings\" is not supported",
            ),
        ] {
            assert_eq!(read(config).unwrap_err().detail.as_deref(), Some(detail));
        }
        let missing = steps[0].load(dir.path()).unwrap_err();
        assert_eq!(missing.kind, rag_protocol::ErrorKind::FileNotFound);
    }
}
