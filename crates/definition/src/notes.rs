//! Metadata of manifests that is kept with an object.

use serde_json::{Map, Value};

/// Notes on an object. Nothing in the database depends on them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    pub display_name: Option<String>,
    /// Values are strings.
    pub labels: Map<String, Value>,
    /// Values are strings.
    pub annotations: Map<String, Value>,
}
