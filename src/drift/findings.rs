//! What a check of a source has found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum number of documents that the condition lists.
const MAX_IN_MESSAGE: usize = 3;

/// How stored documents differ from what runs have indexed. The names are those of
/// `rag_internal.drifted_documents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftKind {
    Missing,
    Changed,
    LostChunks,
    Unexpected,
}

impl DriftKind {
    const ALL: [Self; 4] = [
        Self::Missing,
        Self::Changed,
        Self::LostChunks,
        Self::Unexpected,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Changed => "changed",
            Self::LostChunks => "lost_chunks",
            Self::Unexpected => "unexpected",
        }
    }

    /// Returns what a number of documents is followed by.
    fn words(self) -> &'static str {
        match self {
            Self::LostChunks => "with lost chunks",
            other => other.name(),
        }
    }
}

/// The drifted documents of a kind.
#[derive(Debug, Clone, Deserialize)]
pub struct DriftedDocuments {
    count: i64,
    /// The first of them.
    named: Vec<DriftedDocument>,
}

/// A drifted document, as `rag_check_drift` lists it.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(untagged)]
enum DriftedDocument {
    Uri(String),
    Changed {
        uri: String,
        what: Vec<String>,
    },
    LostChunks {
        uri: String,
        stored: i64,
        indexed: i64,
    },
}

impl DriftedDocument {
    fn uri(&self) -> &str {
        match self {
            Self::Uri(uri) | Self::Changed { uri, .. } | Self::LostChunks { uri, .. } => uri,
        }
    }
}

/// The numbers of chunks here and at the server of the collection, if they differ.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ServerDifference {
    pub chunks: i64,
    pub server_chunks: i64,
}

/// What a check found.
#[derive(Debug, Clone)]
pub struct DriftFindings {
    /// Number of documents that there should be, or `None` if no run has completed yet.
    pub expected: Option<i64>,
    pub actual: i64,
    pub documents: BTreeMap<DriftKind, DriftedDocuments>,
    pub server: Option<ServerDifference>,
}

impl DriftFindings {
    /// Returns the findings of a source without a completed run.
    pub fn without_run(actual: i64) -> Self {
        Self {
            expected: None,
            actual,
            documents: BTreeMap::new(),
            server: None,
        }
    }

    pub fn has_drifted(&self) -> bool {
        self.expected
            .is_some_and(|expected| expected != self.actual || self.has_differences())
    }

    /// Returns true if stored documents differ from what was indexed, or the server of the
    /// collection from what is stored, whatever the number of documents.
    pub fn has_differences(&self) -> bool {
        !self.documents.is_empty() || self.server.is_some()
    }

    /// Returns what `rag_check_drift` shows.
    pub fn detail(&self) -> Value {
        if self.expected.is_none() {
            return json!({"note": "no run of the source has completed yet"});
        }
        let (mut detail, mut counts) = (Map::new(), Map::new());
        for kind in DriftKind::ALL {
            let found = self.documents.get(&kind);
            let named = found.map_or_else(|| json!([]), |found| json!(found.named));
            detail.insert(kind.name().into(), named);
            counts.insert(
                kind.name().into(),
                json!(found.map_or(0, |found| found.count)),
            );
        }
        detail.insert("counts".into(), Value::Object(counts));
        if let Some(server) = self.server {
            detail.insert("server".into(), json!(server));
        }
        Value::Object(detail)
    }

    /// Returns the findings in one sentence, with the first documents.
    pub fn message(&self) -> String {
        let mut parts: Vec<String> = self
            .documents
            .iter()
            .map(|(kind, found)| {
                let documents = if found.count == 1 {
                    "document"
                } else {
                    "documents"
                };
                format!("{} {documents} {}", found.count, kind.words())
            })
            .collect();
        if let Some(server) = self.server {
            parts.push(format!(
                "the server has {} chunks instead of {}",
                server.server_chunks, server.chunks
            ));
        }
        if parts.is_empty() {
            parts.push(format!(
                "{} documents are stored and {} were indexed",
                self.actual,
                self.expected.unwrap_or(0)
            ));
        }
        let named = self.documents.values().flat_map(|found| &found.named);
        let uris: Vec<&str> = named
            .map(DriftedDocument::uri)
            .take(MAX_IN_MESSAGE)
            .collect();
        let total: i64 = self.documents.values().map(|found| found.count).sum();
        let more = total - uris.len() as i64;
        match (uris.is_empty(), more) {
            (true, _) => parts.join(", "),
            (false, 0) => format!("{}: {}", parts.join(", "), uris.join(", ")),
            (false, more) => format!("{}: {} and {more} more", parts.join(", "), uris.join(", ")),
        }
    }
}
