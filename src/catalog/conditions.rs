//! Conditions of a source, as Kubernetes writes them: what `rag.sources.conditions` shows.
//!
//! A change says the new status of one condition; `rag.merge_conditions` puts it in the place of
//! the old one and notes when the status last changed.

use serde_json::{Value, json};

/// Types of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// What the definition names (owner, collection, secret, table) is there.
    ResourceReady,
    /// It is synced by itself.
    Scheduled,
    /// A run is under way.
    Indexing,
    /// The last run completed.
    Completed,
    /// The last run failed, or left documents out.
    Error,
    /// What is stored is not what was indexed.
    DriftDetected,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::ResourceReady => "ResourceReady",
            Self::Scheduled => "AutoIndexerScheduled",
            Self::Indexing => "AutoIndexerIndexing",
            Self::Completed => "AutoIndexerCompleted",
            Self::Error => "AutoIndexerError",
            Self::DriftDetected => "AutoIndexerDriftDetected",
        }
    }
}

/// Changes of a source's conditions, all observed at one generation of its definition.
#[derive(Debug, Clone)]
pub struct Changes {
    generation: i64,
    list: Vec<Value>,
}

impl Changes {
    pub fn at(generation: i64) -> Self {
        Self {
            generation,
            list: vec![],
        }
    }

    /// `reason` is one word in CamelCase, `message` a sentence for people. `None` is the status
    /// Unknown.
    #[must_use]
    pub fn set(
        mut self,
        type_: Type,
        status: Option<bool>,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        let status = match status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        self.list.push(json!({
            "type": type_.name(),
            "status": status,
            "reason": reason,
            "message": message.into(),
            "observedGeneration": self.generation,
        }));
        self
    }

    /// For `rag.merge_conditions`.
    pub fn to_json(&self) -> pgrx::JsonB {
        pgrx::JsonB(Value::Array(self.list.clone()))
    }
}
