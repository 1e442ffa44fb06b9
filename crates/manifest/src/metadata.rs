//! The field `metadata`: the name of an object, and notes on it.

use rag_definition::{
    Fields, Notes,
    fields::{hint_to_quote, wrong_type},
    name::{DEFAULT_NAMESPACE, NameForm, QualifiedName, split},
};
use serde_json::{Map, Value, json};

/// Most of these are added by Kubernetes, and are ignored.
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

/// The metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// `name` in the namespace `default`, otherwise `namespace/name`.
    pub name: String,
    pub notes: Notes,
}

impl Metadata {
    /// Returns `None` if there are problems.
    pub(crate) fn read(document: &Fields<'_>) -> Option<Self> {
        document.has("metadata", Some("Write metadata: {name: ...}."));
        let metadata = document.object("metadata", &FIELDS)?;
        let name = metadata.name("name", NameForm::Subdomain);
        let namespace = match metadata.get("namespace") {
            Some(_) => metadata.name("namespace", NameForm::Namespace),
            None => Some(DEFAULT_NAMESPACE.to_owned()),
        };
        let notes = Notes {
            display_name: metadata.text("displayName").map(ToOwned::to_owned),
            labels: string_map(&metadata, "labels"),
            annotations: string_map(&metadata, "annotations"),
        };
        Some(Self {
            name: QualifiedName::new(&namespace?, &name?).ok()?.to_string(),
            notes,
        })
    }

    /// Returns the namespace of the object.
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

/// Reads a mapping of strings to strings. `null` values count as absent.
fn string_map(metadata: &Fields<'_>, key: &str) -> Map<String, Value> {
    let mut map = metadata.any_object(key).cloned().unwrap_or_default();
    map.retain(|_, value| !value.is_null());
    for (name, value) in map.iter().filter(|(_, value)| !value.is_string()) {
        let (name, problem) = (format!("{key}.{name}"), wrong_type("a string", value));
        match hint_to_quote(value) {
            Some(hint) => metadata.problem_with(name, problem, hint),
            None => metadata.problem(name, problem),
        }
    }
    map
}
