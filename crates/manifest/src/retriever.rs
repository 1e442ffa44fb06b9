//! `kind: Retriever`: settings of storage and search for collections.

use rag_definition::{Fields, retriever::RetrieverDefinition};
use serde_json::{Value, json};

use crate::Metadata;

/// Settings of storage and search, as the proposal of the Retriever describes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Retriever {
    pub metadata: Metadata,
    pub definition: RetrieverDefinition,
}

impl Retriever {
    /// Returns `None` if there are problems.
    pub(crate) fn read(document: &Fields<'_>, metadata: Option<Metadata>) -> Option<Self> {
        let spec = document.required_object("spec", &RetrieverDefinition::FIELDS)?;
        let definition = RetrieverDefinition::read(&spec);
        Some(Self {
            metadata: metadata?,
            definition,
        })
    }

    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": "agent.wecode.io/v1",
            "kind": "Retriever",
            "metadata": self.metadata.to_json(),
            "spec": self.definition.to_json(),
        })
    }
}
