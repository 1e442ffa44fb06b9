//! How texts are split into chunks.

use serde::{Deserialize, Serialize};

use crate::FieldProblem;

/// The sizes of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Splitting {
    /// Maximum size of a chunk, in units.
    pub chunk_size: usize,
    /// Maximum overlap of neighbouring chunks, in units. Less than `chunk_size`.
    pub chunk_overlap: usize,
    #[serde(default)]
    pub unit: Unit,
}

/// The unit of chunk sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Unicode scalar values.
    #[default]
    Characters,
    /// The model's tokens, without the special ones.
    Tokens,
}

impl Unit {
    pub const ALL: [Self; 2] = [Self::Characters, Self::Tokens];

    pub fn name(self) -> &'static str {
        match self {
            Self::Characters => "characters",
            Self::Tokens => "tokens",
        }
    }

    /// # Errors
    /// There is no such unit.
    pub fn parse(name: &str) -> Result<Self, FieldProblem> {
        let found = Self::ALL.into_iter().find(|unit| unit.name() == name);
        found.ok_or_else(|| {
            let valid = Self::ALL.map(Self::name).join(", ");
            FieldProblem::new("chunk_unit", format!("unknown chunk_unit \"{name}\""))
                .hint(format!("Valid units are {valid}."))
        })
    }
}

impl Splitting {
    /// Returns the fingerprint of the settings that determine the chunks of a document. A document
    /// is processed again when it changes. `model_fingerprint` covers the tokenizer and its limit.
    pub fn fingerprint(&self, model_fingerprint: &str) -> String {
        let unit = match self.unit {
            Unit::Characters => "",
            Unit::Tokens => " tokens",
        };
        format!(
            "recursive v5 {}/{}{unit} {model_fingerprint}",
            self.chunk_size, self.chunk_overlap
        )
    }
}
