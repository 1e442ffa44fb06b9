//! References to secrets.

use serde::Serialize;

use crate::{
    Fields,
    name::{NameForm, qualify},
};

/// A secret, or one of its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretRef {
    /// In the namespace of what names it. See [`SecretRef::within`].
    pub name: String,
    /// None: what the secret is used for says which value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl SecretRef {
    /// The fields of a reference.
    pub const FIELDS: [&str; 2] = ["name", "key"];

    /// Parses `secret` or `secret/key`.
    pub fn parse(text: &str) -> Self {
        match text.split_once('/') {
            Some((name, key)) => Self {
                name: name.to_owned(),
                key: Some(key.to_owned()),
            },
            None => Self {
                name: text.to_owned(),
                key: None,
            },
        }
    }

    /// Reads a reference from an object with [`SecretRef::FIELDS`].
    pub fn read(reference: &Fields<'_>) -> Option<Self> {
        let name = reference.name("name", NameForm::Subdomain);
        let key = match reference.get("key") {
            Some(_) => Some(reference.name("key", NameForm::SecretKey)?),
            None => None,
        };
        Some(Self { name: name?, key })
    }

    /// Returns the reference with the qualified name of the secret, which is in `namespace`.
    #[must_use]
    pub fn within(self, namespace: &str) -> Self {
        Self {
            name: qualify(namespace, &self.name),
            ..self
        }
    }
}
