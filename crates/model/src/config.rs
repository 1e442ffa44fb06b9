//! `config.json`: the shape of an encoder, whatever its family calls its fields.
//!
//! | family | `model_type` | positions | normalisation |
//! |---|---|---|---|
//! | BERT | `bert` | a table | after each block |
//! | RoBERTa, XLM-R, CamemBERT | `roberta`, `xlm-roberta`, `camembert` | a table whose first `pad_token_id + 1` rows are unused | after |
//! | MPNet | `mpnet` | such a table, and a bias by distance | after |
//! | DistilBERT | `distilbert` | a table | after |
//! | NomicBERT | `nomic_bert` | rotation | after |
//! | ModernBERT | `modernbert` | rotation | before |
//!
//! Sources: the configuration classes of `transformers`, and `config.json` of the published models.

use std::path::{Path, PathBuf};

use rag_protocol::{EngineError, ErrorKind};
use serde_json::{Map, Value};

use crate::{invalid, settings};

/// Maximum number of tokens that any model reads.
pub const MOST_TOKENS: usize = 8192;
/// Maximum distance of tokens that see each other in a layer with local attention.
const MOST_DISTANCE: usize = 1024;

/// The architecture of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Bert,
    Roberta,
    Mpnet,
    DistilBert,
    NomicBert,
    ModernBert,
}

impl Family {
    fn parse(model_type: &str) -> Option<Self> {
        Some(match model_type {
            "bert" => Self::Bert,
            "roberta" | "xlm-roberta" | "camembert" => Self::Roberta,
            "mpnet" => Self::Mpnet,
            "distilbert" => Self::DistilBert,
            "nomic_bert" => Self::NomicBert,
            "modernbert" => Self::ModernBert,
            _ => return None,
        })
    }

    fn is_rotary(self) -> bool {
        matches!(self, Self::NomicBert | Self::ModernBert)
    }
}

/// The function between the two dense layers of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    Gelu,
    /// GELU, approximated by the hyperbolic tangent.
    TanhGelu,
    Relu,
    Silu,
    Tanh,
}

impl Activation {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "gelu" | "geglu" => Self::Gelu,
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => Self::TanhGelu,
            "relu" => Self::Relu,
            "silu" | "swish" | "swiglu" => Self::Silu,
            "tanh" => Self::Tanh,
            _ => return None,
        })
    }
}

/// What is computed from the vectors of the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A vector for each text.
    Embedding,
    /// A number for each pair of texts: the model is a `*ForSequenceClassification`.
    Score,
}

/// The attention of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerRotation {
    /// Base of the wave lengths.
    pub theta: f64,
    /// Maximum distance of tokens that see each other. `None`: all do.
    pub distance: Option<usize>,
}

/// The shape of an encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub family: Family,
    pub purpose: Purpose,
    pub hidden: usize,
    pub wide: usize,
    pub layers: usize,
    pub heads: usize,
    pub words: usize,
    /// Rows of the table of positions, or the maximum number of tokens.
    pub positions: usize,
    /// Number of rows of that table before the first token's.
    pub first_position: usize,
    /// Rows of the table of segments; 0 if there is none.
    pub segments: usize,
    pub epsilon: f32,
    pub activation: Activation,
    /// One for each layer of a family with rotation.
    pub rotations: Vec<LayerRotation>,
    /// MPNet's number of rows in the table of biases by distance.
    pub distances: usize,
    /// Activation of the head that scores.
    pub head_activation: Activation,
    /// True if the head that scores reads the mean of the tokens, and not the first one.
    pub head_reads_mean: bool,
}

impl Config {
    /// Reads a model's `config.json`.
    ///
    /// # Errors
    /// `FileNotFound`; `InvalidModel` if a field is missing or of another type; `Unsupported` for a
    /// model that cannot be converted.
    pub fn read(dir: &Path) -> Result<Self, EngineError> {
        let fields = Fields::read(dir)?;
        Self::parse(&fields).map_err(|error| match error.detail {
            Some(_) => error,
            None => error.detail(format!("\"{}\" describes it.", fields.path.display())),
        })
    }

    pub(crate) fn parse(fields: &Fields) -> Result<Self, EngineError> {
        let model_type = fields.text("model_type").unwrap_or_default();
        let Some(family) = Family::parse(model_type) else {
            return unsupported(format!(
                "a model of type \"{model_type}\" cannot be converted"
            ));
        };
        let (names, fallback) = match family {
            Family::NomicBert => (["hidden_act", "activation_function"], "silu"),
            Family::ModernBert => (["hidden_activation", "hidden_act"], "gelu"),
            _ => (["hidden_act", "activation"], "gelu"),
        };
        let named = names.iter().find_map(|name| fields.text(name));
        let config = Self {
            family,
            purpose: fields.purpose()?,
            hidden: fields.hidden()?,
            wide: fields.number(&["intermediate_size", "hidden_dim", "n_inner"])?,
            layers: fields.number(&["num_hidden_layers", "n_layers", "n_layer"])?,
            heads: fields.number(&["num_attention_heads", "n_heads", "n_head"])?,
            words: fields.number(&["vocab_size"])?,
            positions: fields.positions().unwrap_or(512),
            first_position: fields.first_position(),
            segments: match family {
                Family::Mpnet | Family::DistilBert | Family::ModernBert => 0,
                _ => fields.optional(&["type_vocab_size"]).unwrap_or(0),
            },
            epsilon: fields.epsilon(family),
            activation: activation(named.unwrap_or(fallback))?,
            rotations: vec![],
            distances: fields
                .optional(&["relative_attention_num_buckets"])
                .unwrap_or(32),
            head_activation: match family {
                Family::DistilBert => Activation::Relu,
                Family::ModernBert => {
                    activation(fields.text("classifier_activation").unwrap_or("gelu"))?
                }
                _ => Activation::Tanh,
            },
            head_reads_mean: family == Family::ModernBert
                && fields.text("classifier_pooling") == Some("mean"),
        };
        config.check(fields)?.with_rotations(fields)
    }

    fn check(self, fields: &Fields) -> Result<Self, EngineError> {
        let has_other_positions = fields
            .text("position_embedding_type")
            .is_some_and(|positions| !["absolute", "rope"].contains(&positions));
        if has_other_positions {
            return unsupported("positions that are not absolute cannot be converted");
        }
        if fields.flag("is_decoder") || fields.flag("causal") {
            return unsupported("a decoder cannot be converted");
        }
        if !self.hidden.is_multiple_of(self.heads) {
            return unsupported(format!(
                "{} dimensions cannot be shared by {} attention heads",
                self.hidden, self.heads
            ));
        }
        if self.family.is_rotary() && !(self.hidden / self.heads).is_multiple_of(2) {
            return unsupported(format!(
                "{} dimensions of an attention head cannot be rotated",
                self.hidden / self.heads
            ));
        }
        if self.purpose == Purpose::Score && self.family == Family::NomicBert {
            return unsupported("a NomicBERT that classifies cannot be converted");
        }
        if self.positions <= self.first_position {
            return Err(fields.invalid(format!("it has {} positions", self.positions)));
        }
        if self.family == Family::Mpnet && (self.distances < 4 || self.distances > 1 << 16) {
            return Err(fields.invalid(format!(
                "relative_attention_num_buckets is {}",
                self.distances
            )));
        }
        if self.family == Family::NomicBert {
            let plain = [
                ("prenorm", false),
                ("use_rms_norm", false),
                ("rotary_emb_interleaved", false),
                ("qkv_proj_bias", false),
                ("mlp_fc1_bias", false),
                ("mlp_fc2_bias", false),
                ("parallel_block", false),
            ];
            let other = plain.iter().find(|(key, no)| fields.flag(key) != *no);
            if let Some((key, _)) = other {
                return unsupported(format!("a NomicBERT with {key} cannot be converted"));
            }
            if fields.optional(&["num_experts"]).is_some_and(|n| n > 0)
                && fields.optional(&["moe_every_n_layers"]).unwrap_or(1) > 0
            {
                return unsupported("a mixture of experts cannot be converted");
            }
            let part = fields.float("rotary_emb_fraction").unwrap_or(1.0);
            if part != 1.0 || fields.float("rotary_emb_scale_base").is_some() {
                return unsupported("a NomicBERT with other rotations cannot be converted");
            }
        }
        Ok(self)
    }

    fn with_rotations(mut self, fields: &Fields) -> Result<Self, EngineError> {
        let rope = fields.object("rope_parameters");
        let theta = |kind: Option<&str>| -> Result<Option<f64>, EngineError> {
            let Some(rope) = rope else { return Ok(None) };
            let of_kind = kind.and_then(|kind| rope.get(kind)?.as_object());
            let rope = of_kind.unwrap_or(rope);
            let scaling = rope.get("rope_type").and_then(Value::as_str);
            if scaling.is_some_and(|scaling| scaling != "default") {
                return unsupported(format!(
                    "rotations of type \"{}\" cannot be converted",
                    scaling.unwrap_or_default()
                ));
            }
            Ok(rope.get("rope_theta").and_then(Value::as_f64))
        };
        match self.family {
            Family::NomicBert => {
                let old = fields.float("rotary_emb_base");
                let theta = theta(None)?
                    .or(old)
                    .or(fields.float("rope_theta"))
                    .unwrap_or(1000.0);
                let everywhere = LayerRotation {
                    theta,
                    distance: None,
                };
                self.rotations = vec![everywhere; fields.layers(self.layers)?];
            }
            Family::ModernBert => {
                let old = fields.float("global_rope_theta");
                let global = theta(Some("full_attention"))?.or(old).unwrap_or(160_000.0);
                let old = match fields.map.get("local_rope_theta") {
                    Some(Value::Null) => Some(global),
                    _ => fields.float("local_rope_theta"),
                };
                let local = theta(Some("sliding_attention"))?
                    .or(old)
                    .unwrap_or(10_000.0);
                let distance = fields.optional(&["local_attention"]).unwrap_or(128) / 2;
                if !(1..=MOST_DISTANCE).contains(&distance) {
                    return unsupported(format!(
                        "local attention to {distance} tokens on each side cannot be converted"
                    ));
                }
                let every = fields
                    .optional(&["global_attn_every_n_layers"])
                    .unwrap_or(3)
                    .max(1);
                let kinds = fields.map.get("layer_types").and_then(Value::as_array);
                let is_global = |layer: usize| match kinds.and_then(|kinds| kinds.get(layer)) {
                    Some(kind) => kind != "sliding_attention",
                    None => layer.is_multiple_of(every),
                };
                let rotation = |layer: usize| {
                    if is_global(layer) {
                        LayerRotation {
                            theta: global,
                            distance: None,
                        }
                    } else {
                        LayerRotation {
                            theta: local,
                            distance: Some(distance),
                        }
                    }
                };
                self.rotations = (0..fields.layers(self.layers)?).map(rotation).collect();
            }
            _ => {}
        }
        Ok(self)
    }

    /// Returns true if the graph must not pad texts. ONNX Runtime computes the attention of long
    /// texts in blocks then, and does not need a matrix of all pairs of tokens.
    pub fn takes_texts_alone(&self) -> bool {
        self.family.is_rotary() || self.positions > 1024 + self.first_position
    }
}

fn activation(name: &str) -> Result<Activation, EngineError> {
    match Activation::parse(name) {
        Some(activation) => Ok(activation),
        None => unsupported(format!("the activation \"{name}\" cannot be converted")),
    }
}

/// Returns the error for a model that cannot be converted.
pub(crate) fn unsupported<T>(problem: impl Into<String>) -> Result<T, EngineError> {
    Err(EngineError::new(ErrorKind::Unsupported, problem).hint(
        "Encoders of the families BERT, RoBERTa, XLM-R, CamemBERT, MPNet, DistilBERT, NomicBERT \
             and ModernBERT can be converted. Export others to ONNX with their own tools; a graph \
             in the folder is used as it is.",
    ))
}

/// The fields of `config.json`.
#[derive(Debug)]
pub struct Fields {
    path: PathBuf,
    map: Map<String, Value>,
}

impl Fields {
    /// # Errors
    /// `FileNotFound`, or `InvalidModel` if the file is not a JSON object.
    pub fn read(dir: &Path) -> Result<Self, EngineError> {
        let path = dir.join("config.json");
        let map = settings::required(&path)?;
        Ok(Self { path, map })
    }

    pub(crate) fn invalid(&self, detail: impl Into<String>) -> EngineError {
        invalid(&self.path, detail)
    }

    fn optional(&self, names: &[&str]) -> Option<usize> {
        let number = names
            .iter()
            .find_map(|name| self.map.get(*name)?.as_u64())?;
        usize::try_from(number).ok()
    }

    fn number(&self, names: &[&str]) -> Result<usize, EngineError> {
        match self.optional(names) {
            Some(0) => Err(self.invalid(format!("{} is 0", names[0]))),
            Some(number) => Ok(number),
            None => Err(self.invalid(format!("it has no number {}", names[0]))),
        }
    }

    fn layers(&self, layers: usize) -> Result<usize, EngineError> {
        match layers {
            0..=1000 => Ok(layers),
            _ => Err(self.invalid(format!("num_hidden_layers is {layers}"))),
        }
    }

    fn float(&self, name: &str) -> Option<f64> {
        self.map.get(name)?.as_f64()
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.map.get(name)?.as_str()
    }

    fn flag(&self, name: &str) -> bool {
        self.map.get(name) == Some(&Value::Bool(true))
    }

    fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.map.get(name)?.as_object()
    }

    fn family(&self) -> Option<Family> {
        Family::parse(self.text("model_type")?)
    }

    /// Returns the length of a token's vector.
    pub(crate) fn hidden(&self) -> Result<usize, EngineError> {
        self.number(&["hidden_size", "dim", "n_embd"])
    }

    /// Returns the number of words that have a vector, if it is given.
    pub(crate) fn words(&self) -> Option<usize> {
        self.optional(&["vocab_size"])
    }

    fn positions(&self) -> Option<usize> {
        let names = match self.family() {
            // longer texts need other rotations than the ones that the model has learnt
            Some(Family::NomicBert) => [
                "max_trained_positions",
                "max_position_embeddings",
                "n_positions",
            ],
            _ => ["max_position_embeddings", "n_positions", "n_ctx"],
        };
        self.optional(&names)
    }

    /// Returns the position of the first token.
    pub(crate) fn first_position(&self) -> usize {
        match self.family() {
            Some(Family::Roberta) => {
                let padding = self.optional(&["pad_token_id"]).unwrap_or(1);
                padding.saturating_add(1)
            }
            Some(Family::Mpnet) => 2,
            _ => 0,
        }
    }

    /// Returns the number of tokens that have a position, if it is limited.
    pub(crate) fn most_tokens(&self) -> Option<usize> {
        let positions = self.positions()?;
        Some(positions.saturating_sub(self.first_position()))
    }

    fn epsilon(&self, family: Family) -> f32 {
        let (names, fallback) = match family {
            Family::DistilBert => (["", ""], 1e-12),
            Family::NomicBert => (["layer_norm_epsilon", "layer_norm_eps"], 1e-12),
            Family::ModernBert => (["norm_eps", "layer_norm_eps"], 1e-5),
            _ => (["layer_norm_eps", ""], 1e-12),
        };
        let given = names.iter().find_map(|name| self.float(name));
        given.unwrap_or(fallback) as f32
    }

    fn purpose(&self) -> Result<Purpose, EngineError> {
        let architectures = self.map.get("architectures").and_then(Value::as_array);
        let is_classifier = architectures.is_some_and(|names| {
            let mut names = names.iter().filter_map(Value::as_str);
            names.any(|name| name.ends_with("ForSequenceClassification"))
        });
        if !is_classifier {
            return Ok(Purpose::Embedding);
        }
        let named = self.object("id2label").map(Map::len);
        match named.or(self.optional(&["num_labels"])).unwrap_or(2) {
            1 => Ok(Purpose::Score),
            labels => unsupported(format!(
                "a model that classifies by {labels} labels cannot be converted"
            )),
        }
    }
}

#[cfg(test)]
mod tests;
