//! Conditions of a source, as Kubernetes writes them: what `rag.sources.conditions` shows.
//!
//! A change gives the new status of one condition. `rag_internal.merge_conditions` replaces the
//! old one and stores when the status last changed.

use serde_json::{Value, json};

/// The types of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionType {
    /// Everything that the definition names exists: owner, collection, secret, table.
    ResourceReady,
    /// The source is synced automatically.
    Scheduled,
    /// A run is in progress.
    Indexing,
    /// The last run completed.
    Completed,
    /// The last run failed, or could not index some documents.
    Error,
    /// The stored documents differ from what was indexed.
    DriftDetected,
}

impl ConditionType {
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
pub struct ConditionChanges {
    generation: i64,
    list: Vec<Value>,
}

impl ConditionChanges {
    pub fn at(generation: i64) -> Self {
        Self {
            generation,
            list: vec![],
        }
    }

    /// Sets a condition. `reason` is one word in CamelCase, `message` is for people, and `None` is
    /// the status Unknown.
    #[must_use]
    pub fn set(
        mut self,
        type_: ConditionType,
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

    /// Returns the changes as the argument of `rag_internal.merge_conditions`.
    pub fn to_json(&self) -> pgrx::JsonB {
        pgrx::JsonB(Value::Array(self.list.clone()))
    }
}
