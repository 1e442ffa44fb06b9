//! The field `metadata`: what the object is called, and what people note on it.

use rag_protocol::name::{DEFAULT_NAMESPACE, Form, QualifiedName, split};
use serde_json::{Map, Value, json};

use crate::object::{Object, hint_to_quote, type_of};

/// Most of it is what Kubernetes adds, and is ignored.
const FIELDS: [&str; 16] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "displayName",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "finalizers",
    "ownerReferences",
];

/// What a manifest says of its object beside the `spec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// `name`, or `namespace/name` in another namespace than `default`.
    pub name: String,
    pub notes: Notes,
}

/// What people note on an object. Nothing in the database depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    pub display_name: Option<String>,
    /// Texts by their keys.
    pub labels: Map<String, Value>,
    /// Texts by their keys.
    pub annotations: Map<String, Value>,
}

impl Metadata {
    /// Returns `None` where there are problems.
    pub(crate) fn read(document: &Object<'_>) -> Option<Self> {
        document.has("metadata", Some("Write metadata: {name: ...}."));
        let metadata = document.object("metadata", &FIELDS)?;
        let name = metadata.name("name", Form::Subdomain);
        let namespace = match metadata.get("namespace") {
            Some(_) => metadata.name("namespace", Form::Namespace),
            None => Some(DEFAULT_NAMESPACE.to_owned()),
        };
        let notes = Notes {
            display_name: metadata.text("displayName").map(ToOwned::to_owned),
            labels: texts(&metadata, "labels"),
            annotations: texts(&metadata, "annotations"),
        };
        Some(Self {
            name: QualifiedName::new(&namespace?, &name?).ok()?.to_string(),
            notes,
        })
    }

    /// The namespace of the object.
    pub fn namespace(&self) -> &str {
        split(&self.name).0
    }

    pub fn to_json(&self) -> Value {
        let (namespace, name) = split(&self.name);
        let mut metadata = json!({"name": name, "namespace": namespace});
        let Notes {
            display_name,
            labels,
            annotations,
        } = &self.notes;
        if let Some(display_name) = display_name {
            metadata["displayName"] = display_name.as_str().into();
        }
        for (key, map) in [("labels", labels), ("annotations", annotations)] {
            if !map.is_empty() {
                metadata[key] = Value::Object(map.clone());
            }
        }
        metadata
    }
}

/// A mapping of texts to texts. `null` values count as absent.
fn texts(metadata: &Object<'_>, key: &str) -> Map<String, Value> {
    let mut map = metadata.any_object(key, None).cloned().unwrap_or_default();
    map.retain(|_, value| !value.is_null());
    for (name, value) in map.iter().filter(|(_, value)| !value.is_string()) {
        let problem = format!("must be a text, not {}", type_of(value));
        metadata.problem(&format!("{key}.{name}"), problem, hint_to_quote(value));
    }
    map
}
