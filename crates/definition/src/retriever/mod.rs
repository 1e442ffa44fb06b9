//! Retrievers: settings of storage and search for collections.
//!
//! [`RetrieverDefinition`] is what a user writes. What is left out is `None` in it, and methods
//! return the defaults. Its JSON is read here alone, and written as it was read.

mod methods;
mod metric;
mod mode;
mod storage;
mod strategy;

use serde::Serialize;
use serde_json::Value;

pub use self::{
    methods::Methods,
    metric::Metric,
    mode::{Fusion, MAX_NEIGHBOURS, MAX_TOP_K, RetrievalMode, WeightSum, Weights},
    storage::{IndexOptions, Quantization, ServerKind, StorageDefinition, StorageType},
    strategy::{IndexStrategy, OWN_PARTITION},
};
use crate::{FieldProblem, Fields, Problems};

/// The settings of a retriever.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RetrieverDefinition {
    #[serde(rename = "storageConfig", skip_serializing_if = "Option::is_none")]
    storage: Option<StorageDefinition>,
    #[serde(rename = "retrievalMethods", skip_serializing_if = "Option::is_none")]
    methods: Option<Methods>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<Embedding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Embedding {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

impl RetrieverDefinition {
    /// The fields of a spec.
    pub const FIELDS: [&str; 4] = [
        "storageConfig",
        "retrievalMethods",
        "embedding",
        "description",
    ];

    /// Parses the spec of a retriever.
    ///
    /// # Errors
    /// Every problem, with the path of its field (`spec.storageConfig.type`).
    pub fn parse(spec: &Value) -> Result<Self, Vec<FieldProblem>> {
        let problems = Problems::default();
        let fields = Fields::of("spec", spec, &Self::FIELDS, &problems);
        let read = fields.map(|fields| Self::read(&fields));
        problems.into_result(read)
    }

    /// Reads the spec of a retriever.
    pub fn read(spec: &Fields<'_>) -> Self {
        let storage = spec.object("storageConfig", &storage::FIELDS);
        let embedding = spec.object("embedding", &["model"]);
        Self {
            storage: storage.map(|storage| StorageDefinition::read(&storage)),
            methods: Methods::read(spec),
            embedding: embedding.map(|embedding| Embedding {
                model: embedding.text("model").map(str::to_owned),
            }),
            description: spec.text("description").map(str::to_owned),
        }
    }

    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    pub fn storage(&self) -> &StorageDefinition {
        self.storage.as_ref().unwrap_or(&storage::DEFAULT)
    }

    pub fn methods(&self) -> Methods {
        self.methods.unwrap_or(Methods::ALL)
    }

    /// Returns the name of the embedding model.
    pub fn model(&self) -> Option<&str> {
        self.embedding.as_ref()?.model.as_deref()
    }
}
