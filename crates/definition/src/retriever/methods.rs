//! `retrievalMethods`: the methods that a retriever enables, with their settings.

use serde::{Serialize, Serializer};

use super::{Fusion, MAX_TOP_K, RetrievalMode, Weights};
use crate::Fields;

/// The methods of a retriever. One that is not named is disabled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Methods {
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<Method>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keyword: Option<Method>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hybrid: Option<Hybrid>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Method {
    /// None: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    /// Its part in the score of mode `hybrid`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    default_weight: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<i32>,
    /// The minimum score of searches with this method alone.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    score_threshold: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Hybrid {
    /// None: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fusion: Option<Fusion>,
}

/// Writes a whole number without a point.
fn number<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        None => serializer.serialize_none(),
        Some(number) if number.fract() == 0.0 => serializer.serialize_i64(*number as i64),
        Some(number) => serializer.serialize_f64(*number),
    }
}

impl Method {
    const DEFAULT: Self = Self {
        enabled: None,
        default_weight: None,
        top_k: None,
        score_threshold: None,
    };

    fn read(methods: &Fields<'_>, name: &str) -> Option<Self> {
        const FIELDS: [&str; 4] = ["enabled", "defaultWeight", "topK", "scoreThreshold"];
        let method = methods.object(name, &FIELDS)?;
        let top_k = method.integer("topK", 1..=i64::from(MAX_TOP_K));
        Some(Self {
            enabled: method.boolean("enabled"),
            default_weight: method.fraction("defaultWeight"),
            top_k: top_k.and_then(|top_k| i32::try_from(top_k).ok()),
            score_threshold: method.fraction("scoreThreshold"),
        })
    }
}

impl Methods {
    /// The methods of a retriever that does not say which.
    pub const ALL: Self = Self {
        vector: Some(Method::DEFAULT),
        keyword: Some(Method::DEFAULT),
        hybrid: Some(Hybrid {
            enabled: None,
            fusion: None,
        }),
    };

    /// Reads the methods of a spec.
    pub(super) fn read(spec: &Fields<'_>) -> Option<Self> {
        const KEY: &str = "retrievalMethods";
        let methods = spec.object(KEY, &["vector", "keyword", "hybrid"])?;
        let hybrid = methods.object("hybrid", &["enabled", "fusion"]);
        let read = Self {
            vector: Method::read(&methods, "vector"),
            keyword: Method::read(&methods, "keyword"),
            hybrid: hybrid.map(|hybrid| {
                let names = Fusion::ALL.map(Fusion::name);
                let fusion = hybrid.word("fusion", &names, "a kind of fusion");
                Hybrid {
                    enabled: hybrid.boolean("enabled"),
                    fusion: fusion.and_then(Fusion::parse),
                }
            }),
        };
        let is_read = |name, is_read: bool| is_read || methods.get(name).is_none();
        if is_read("vector", read.vector.is_some()) && is_read("keyword", read.keyword.is_some()) {
            read.check(spec, &methods);
        }
        Some(read)
    }

    /// Checks the methods together.
    fn check(&self, spec: &Fields<'_>, methods: &Fields<'_>) {
        const KEY: &str = "retrievalMethods";
        let wants_hybrid = self.hybrid().is_some();
        if self.vector().is_none() && self.keyword().is_none() {
            let hint = "Write vector: {enabled: true}, or keyword: {enabled: true}, or both.";
            spec.problem_with(KEY, "must enable vector or keyword", hint);
        } else if wants_hybrid && !self.enables(RetrievalMode::Hybrid) {
            let problem = "needs vector and keyword, and one of them is not enabled";
            let hint = "Enable both, or write hybrid: {enabled: false}.";
            methods.problem_with("hybrid", problem, hint);
        } else if let Err(sum) = self.given_weights() {
            let problem = format!(
                "the values of defaultWeight must sum to 1, not {:.3}",
                sum.0
            );
            let hint = "Leave one of them out: it is then 1 minus the other.";
            spec.problem_with(KEY, problem, hint);
        }
    }

    fn vector(&self) -> Option<Method> {
        self.vector.filter(|method| method.enabled != Some(false))
    }

    fn keyword(&self) -> Option<Method> {
        self.keyword.filter(|method| method.enabled != Some(false))
    }

    fn hybrid(&self) -> Option<Hybrid> {
        self.hybrid.filter(|hybrid| hybrid.enabled != Some(false))
    }

    /// Mode `hybrid` needs both other methods.
    pub fn enables(&self, mode: RetrievalMode) -> bool {
        match mode {
            RetrievalMode::Vector => self.vector().is_some(),
            RetrievalMode::Keyword => self.keyword().is_some(),
            RetrievalMode::Hybrid => {
                self.hybrid().is_some() && self.vector().is_some() && self.keyword().is_some()
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
        self.keyword().is_some()
    }

    /// Returns the fusion of mode `hybrid`.
    pub fn fusion(&self) -> Fusion {
        let given = self.hybrid().and_then(|hybrid| hybrid.fusion);
        given.unwrap_or_default()
    }

    /// Returns the weights of mode `hybrid`, if the retriever has some.
    pub fn weights(&self) -> Option<Weights> {
        self.given_weights().ok().flatten()
    }

    fn given_weights(&self) -> Result<Option<Weights>, super::WeightSum> {
        let weight = |method: Option<Method>| method.and_then(|method| method.default_weight);
        Weights::new(weight(self.vector()), weight(self.keyword()))
    }

    /// Returns the number of results of a mode, the larger one of both methods for `hybrid`.
    pub fn top_k(&self, mode: RetrievalMode) -> Option<i32> {
        let top_k = |method: Option<Method>| method.and_then(|method| method.top_k);
        match mode {
            RetrievalMode::Vector => top_k(self.vector()),
            RetrievalMode::Keyword => top_k(self.keyword()),
            RetrievalMode::Hybrid => top_k(self.vector()).max(top_k(self.keyword())),
        }
    }

    /// Returns the minimum score of a mode. `hybrid` has none: its scores are others.
    pub fn threshold(&self, mode: RetrievalMode) -> Option<f64> {
        let method = match mode {
            RetrievalMode::Vector => self.vector(),
            RetrievalMode::Keyword => self.keyword(),
            RetrievalMode::Hybrid => None,
        };
        method.and_then(|method| method.score_threshold)
    }
}
