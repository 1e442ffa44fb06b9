//! Names of collections, sources, retrievers, models and secrets.

use std::fmt;

use pgrx::PgSqlErrorCode;
use rag_definition::name::{NameForm, QualifiedName, QualifiedNameError};
use sha2::{Digest, Sha256};

use crate::error::Error;

/// The name of a collection, or the qualified name of a source, retriever, model or secret, in
/// its canonical form: see [`rag_definition::name`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

/// The maximum length of [`Name::short`]. With a prefix of 7 bytes it fits an identifier.
const MAX_SHORT: usize = 56;
/// The numbers of characters of the name and of its hash in a shortened [`Name::short`].
const SHORT_START: usize = 32;
const SHORT_HASH: usize = 16;

impl Name {
    /// # Errors
    /// `text` is not the name of a collection.
    pub fn collection(text: &str) -> Result<Self, Error> {
        match NameForm::Collection.check(text) {
            Ok(()) => Ok(Self(text.to_string())),
            Err(_) => Err(invalid("collection", text, NameForm::Collection)),
        }
    }

    /// # Errors
    /// `text` is not the name of a source.
    pub fn source(text: &str) -> Result<Self, Error> {
        Self::qualified("source", text)
    }

    /// # Errors
    /// `text` is not the name of a retriever.
    pub fn retriever(text: &str) -> Result<Self, Error> {
        Self::qualified("retriever", text)
    }

    /// # Errors
    /// `text` is not the name of a model.
    pub fn model(text: &str) -> Result<Self, Error> {
        Self::qualified("model", text)
    }

    /// # Errors
    /// `text` is not the name of a secret.
    pub fn secret(text: &str) -> Result<Self, Error> {
        Self::qualified("secret", text)
    }

    fn qualified(what: &str, text: &str) -> Result<Self, Error> {
        match QualifiedName::parse(text) {
            Ok(name) => Ok(Self(name.to_string())),
            Err(QualifiedNameError {
                part: NameForm::Namespace,
                ..
            }) => {
                let namespace = text.split('/').next().unwrap_or(text);
                Err(invalid_text(
                    &format!("namespace of a {what}"),
                    namespace,
                    NameForm::Namespace,
                ))
            }
            Err(QualifiedNameError { part, .. }) => Err(invalid(what, text, part)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a unique text of at most 56 bytes for identifiers and file names. It is the name
    /// itself if that is short and has no `/`. Otherwise it is the start of the name, a `~`, which
    /// no name contains, and a hash.
    pub fn short(&self) -> String {
        if self.0.len() <= MAX_SHORT && !self.0.contains('/') {
            return self.0.clone();
        }
        let start: String = self.0.replace('/', ".").chars().take(SHORT_START).collect();
        let hash = hex::encode(Sha256::digest(&self.0));
        format!("{start}~{}", &hash[..SHORT_HASH])
    }
}

/// Returns the canonical form of a name: `docs` for `default/docs`.
pub fn canonical(text: &str) -> &str {
    text.strip_prefix("default/").unwrap_or(text)
}

fn invalid(what: &str, text: &str, form: NameForm) -> Error {
    invalid_text(&format!("name of a {what}"), text, form)
}

fn invalid_text(what: &str, text: &str, form: NameForm) -> Error {
    let shown: String = text.chars().take(80).collect();
    let (pattern, max) = (form.pattern(), form.max_length());
    Error::new(
        PgSqlErrorCode::ERRCODE_INVALID_NAME,
        format!("invalid {what}: \"{shown}\""),
    )
    .detail(format!(
        "It must match {pattern} and have at most {max} characters."
    ))
    .hint(form.hint())
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
