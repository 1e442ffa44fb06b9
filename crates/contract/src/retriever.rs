//! What a retriever says of the searches in its collections.

use serde_json::Value;

use crate::{MAX_TOP_K, RetrievalMode, Weights};

/// The weights of mode `hybrid` that a retriever without weights has.
pub const DEFAULT_WEIGHTS: Weights = Weights {
    vector: 0.7,
    keyword: 0.3,
};

/// How mode `hybrid` combines the two lists of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fusion {
    /// The weighted sum of both scores.
    #[default]
    Weighted,
    /// Reciprocal rank fusion: by the places in both lists.
    ReciprocalRank,
}

impl Fusion {
    pub const ALL: [Self; 2] = [Self::Weighted, Self::ReciprocalRank];

    pub fn name(self) -> &'static str {
        match self {
            Self::Weighted => "weighted",
            Self::ReciprocalRank => "rrf",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fusion| fusion.name() == name)
    }
}

/// The settings of a method that is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MethodSettings {
    /// Its part in the score of mode `hybrid`.
    pub weight: Option<f64>,
    pub top_k: Option<i32>,
    /// The minimum score of searches with this method alone.
    pub threshold: Option<f64>,
}

/// The methods that a retriever enables, with their settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetrieverSettings {
    pub vector: Option<MethodSettings>,
    pub keyword: Option<MethodSettings>,
    pub hybrid: Option<Fusion>,
}

impl RetrieverSettings {
    /// Reads a spec that was checked when it was stored. Without `retrievalMethods` all methods are
    /// enabled. With it, those that it names are, unless they have `"enabled": false`.
    pub fn of(spec: &Value) -> Self {
        let Some(methods) = spec.get("retrievalMethods").filter(|spec| spec.is_object()) else {
            return Self {
                vector: Some(MethodSettings::default()),
                keyword: Some(MethodSettings::default()),
                hybrid: Some(Fusion::default()),
            };
        };
        let enabled = |name: &str| {
            methods
                .get(name)
                .filter(|method| method.is_object() && method["enabled"] != Value::Bool(false))
        };
        Self {
            vector: enabled("vector").map(method),
            keyword: enabled("keyword").map(method),
            hybrid: enabled("hybrid").map(|hybrid| {
                hybrid["fusion"]
                    .as_str()
                    .and_then(Fusion::parse)
                    .unwrap_or_default()
            }),
        }
    }

    /// Mode `hybrid` needs both other methods.
    pub fn enables(&self, mode: RetrievalMode) -> bool {
        match mode {
            RetrievalMode::Vector => self.vector.is_some(),
            RetrievalMode::Keyword => self.keyword.is_some(),
            RetrievalMode::Hybrid => {
                self.hybrid.is_some() && self.vector.is_some() && self.keyword.is_some()
            }
        }
    }

    pub fn enabled_modes(&self) -> Vec<RetrievalMode> {
        let modes = RetrievalMode::ALL.into_iter();
        modes.filter(|mode| self.enables(*mode)).collect()
    }

    /// Returns the mode of a search that names none.
    pub fn default_mode(&self) -> RetrievalMode {
        [RetrievalMode::Hybrid, RetrievalMode::Vector]
            .into_iter()
            .find(|mode| self.enables(*mode))
            .unwrap_or(RetrievalMode::Keyword)
    }

    /// Returns true if collections need a keyword index.
    pub fn uses_keywords(&self) -> bool {
        self.keyword.is_some()
    }

    /// Returns the weights of mode `hybrid`.
    pub fn weights(&self) -> Weights {
        let weight = |method: Option<MethodSettings>| method.and_then(|method| method.weight);
        match (weight(self.vector), weight(self.keyword)) {
            (None, None) => DEFAULT_WEIGHTS,
            (Some(vector), None) => Weights {
                vector,
                keyword: 1.0 - vector,
            },
            (None, Some(keyword)) => Weights {
                vector: 1.0 - keyword,
                keyword,
            },
            (Some(vector), Some(keyword)) => Weights { vector, keyword },
        }
    }

    /// Returns the number of results of a mode, the larger one of both methods for `hybrid`.
    pub fn top_k(&self, mode: RetrievalMode) -> Option<i32> {
        let top_k = |method: Option<MethodSettings>| method.and_then(|method| method.top_k);
        match mode {
            RetrievalMode::Vector => top_k(self.vector),
            RetrievalMode::Keyword => top_k(self.keyword),
            RetrievalMode::Hybrid => top_k(self.vector).max(top_k(self.keyword)),
        }
    }

    /// Returns the minimum score of a mode. `hybrid` has none: its scores are others.
    pub fn threshold(&self, mode: RetrievalMode) -> Option<f64> {
        let method = match mode {
            RetrievalMode::Vector => self.vector,
            RetrievalMode::Keyword => self.keyword,
            RetrievalMode::Hybrid => None,
        };
        method.and_then(|method| method.threshold)
    }
}

fn method(settings: &Value) -> MethodSettings {
    let fraction = |key: &str| {
        settings[key]
            .as_f64()
            .filter(|value| (0.0..=1.0).contains(value))
    };
    MethodSettings {
        weight: fraction("defaultWeight"),
        top_k: settings["topK"]
            .as_i64()
            .and_then(|top_k| i32::try_from(top_k).ok())
            .filter(|top_k| (1..=MAX_TOP_K).contains(top_k)),
        threshold: fraction("scoreThreshold"),
    }
}
