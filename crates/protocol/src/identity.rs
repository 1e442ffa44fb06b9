//! Deterministic ids: the same input gives the same ids on every machine, forever.
//!
//! Every id is the first 128 bits of a BLAKE3 hash in key-derivation mode, whose context string
//! names what is derived, over its fields, each preceded by its length in bytes as a u64
//! (little-endian), so that no two field lists collide.
//!
//! | id | context | fields |
//! |---|---|---|
//! | document | `rag 2026 document_id v1` | collection, source (empty for `rag_add_document`, `knowledge <id>` for those of a knowledge item), uri |
//! | chunk | `rag 2026 chunk_id v1` | document_id, content_hash, chunking fingerprint, chunk_index |
//! | embedding key | `rag 2026 embedding_key v1` | model fingerprint, embedded text |
//!
//! The bits are a hash, not a random UUID: version and variant bits are left as they fall.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// Identifies a document: one uri of one source in one collection.
    DocumentId
);
id!(
    /// Identifies a piece of a document's text, for given settings of chunking.
    ChunkId
);
id!(
    /// Identifies an embedding: one text embedded by one model. Equal keys have equal vectors, so
    /// a vector is never computed twice.
    EmbeddingKey
);

/// Returns the fingerprint of a model whose texts have a prefix, from the one without.
pub fn prefixed_fingerprint(fingerprint: &str, passage_prefix: &str) -> String {
    match passage_prefix {
        "" => fingerprint.to_owned(),
        prefix => hash(
            "rag 2026 prefixed fingerprint v1",
            &[fingerprint.as_bytes(), prefix.as_bytes()],
        ),
    }
}

/// Returns the fingerprint of a model on another server: a hash of all that is asked of it.
pub fn remote_fingerprint(fields: &[&str]) -> String {
    let fields: Vec<&[u8]> = fields.iter().map(|field| field.as_bytes()).collect();
    hash("rag 2026 remote model v1", &fields)
}

impl DocumentId {
    /// `source` is `None` for documents of `rag_add_document`.
    pub fn derive(collection: &str, source: Option<&str>, uri: &str) -> Self {
        Self(derive(
            "rag 2026 document_id v1",
            &[
                collection.as_bytes(),
                source.unwrap_or("").as_bytes(),
                uri.as_bytes(),
            ],
        ))
    }
}

impl ChunkId {
    /// Returns the id for one that an application gives, which is no UUID.
    pub fn of_given(text: &str) -> Self {
        Self(derive("rag 2026 given chunk_id v1", &[text.as_bytes()]))
    }

    /// `content_hash`: SHA-256 hex of the document's extracted text; `chunking`: see
    /// [`crate::ingest::Splitting::fingerprint`].
    pub fn derive(
        document: DocumentId,
        content_hash: &str,
        chunking: &str,
        chunk_index: u32,
    ) -> Self {
        Self(derive(
            "rag 2026 chunk_id v1",
            &[
                document.0.as_bytes(),
                content_hash.as_bytes(),
                chunking.as_bytes(),
                &chunk_index.to_le_bytes(),
            ],
        ))
    }
}

impl EmbeddingKey {
    /// `model`: the fingerprint that `rag-engine` reports for a loaded model; `text`: the exact
    /// input of the model.
    pub fn derive(model: &str, text: &str) -> Self {
        Self(derive(
            "rag 2026 embedding_key v1",
            &[model.as_bytes(), text.as_bytes()],
        ))
    }
}

fn derive(context: &'static str, fields: &[&[u8]]) -> Uuid {
    let mut id = [0; 16];
    hasher(context, fields).finalize_xof().fill(&mut id);
    Uuid::from_bytes(id)
}

/// Returns the whole hash, in hex.
fn hash(context: &'static str, fields: &[&[u8]]) -> String {
    hasher(context, fields).finalize().to_hex().to_string()
}

fn hasher(context: &'static str, fields: &[&[u8]]) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for field in fields {
        hasher.update(&(field.len() as u64).to_le_bytes());
        hasher.update(field);
    }
    hasher
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_ids() {
        let document = DocumentId::derive("default", Some("handbook"), "file:///srv/docs/keys.md");
        let chunk = ChunkId::derive(document, &"0".repeat(64), "recursive v1 1000/200/256", 3);
        let key = EmbeddingKey::derive("model", "hello");
        assert_eq!(
            [document.to_string(), chunk.to_string(), key.to_string()],
            GOLDEN.map(String::from),
            "ids must never change: all stored documents would be indexed again"
        );
    }

    /// Computed once with this code and once with Python's `blake3` package.
    const GOLDEN: [&str; 3] = [
        "74f82316-b199-76bc-47a3-91f4d5633421",
        "52255c25-08e9-7768-fa61-23ce24039f79",
        "5dd99685-a69c-9860-55ec-ca3000e19fb0",
    ];

    proptest! {
        #[test]
        fn fields_do_not_run_into_each_other(a in ".{0,9}", b in ".{0,9}", c in ".{1,9}") {
            prop_assert_ne!(DocumentId::derive(&format!("{a}{c}"), Some(&b), ""), DocumentId::derive(&a, Some(&format!("{c}{b}")), ""));
        }
    }
}
