//! `metadata.json`: what a bundle is of.

use std::collections::BTreeMap;

use rag_definition::collection::CollectionDefinition;
use serde::{Deserialize, Serialize};

use crate::{BundleError, BundleErrorKind, BundleFile, FORMAT, FORMAT_VERSION, FileSum};

/// The maximum size of the file in bytes.
pub const MAX_METADATA: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The version of the extension that wrote the bundle.
    pub rag_version: String,
    pub rag_name: String,
    /// Documents that are indexed.
    pub document_count: u64,
    /// Documents that could not be indexed.
    pub error_count: u64,
    pub chunk_count: u64,
    pub embedding_dimension: Option<u32>,
    pub index_type: String,
    pub created_at: String,
    pub updated_at: String,
    pub exported_at: String,
    pub file_sizes: FileSizes,
    pub dataset_info: DatasetInfo,
    /// None until the first document is stored.
    pub model: Option<ModelEntry>,
    pub settings: Settings,
    /// Size and hash of each other file, by its name.
    pub files: BTreeMap<String, FileSum>,
}

/// Sizes of files in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSizes {
    pub corpus_jsonl: u64,
    pub chunks_jsonl: u64,
    pub embeddings_npy: u64,
    pub knowledge_jsonl: u64,
    pub digests_jsonl: u64,
    pub sources_yaml: u64,
}

/// Where the documents come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetInfo {
    /// The external id of the collection, or its name.
    pub dataset_name: String,
    pub subset: Option<String>,
    /// The names of the sources in `sources.yaml`.
    pub sources: Vec<String>,
}

/// More tokens than any model reads.
const MAX_TOKENS: u32 = 1 << 30;

/// The model of the embeddings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    pub name: String,
    pub fingerprint: String,
    pub identity: String,
    pub dimensions: u32,
    pub baseline: f32,
    /// None: the model is on another server.
    pub precision: Option<String>,
    pub max_tokens: u32,
}

/// The settings of a collection, and what its ids are made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(flatten)]
    pub definition: CollectionDefinition,
    /// What ids of documents are made from, if the collection was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids_from: Option<String>,
    /// What ids of documents of its renamed sources are made from, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source_ids_from: BTreeMap<String, String>,
}

/// What every version of the format has.
#[derive(Deserialize)]
struct Versions {
    format: Option<String>,
    format_version: Option<u64>,
    rag_version: Option<String>,
}

/// Returns true if a text can be the name of a model: words with the characters of a file's name,
/// with slashes between them. It is shown, and never a path.
fn is_name(text: &str) -> bool {
    const MAX_BYTES: usize = 255;
    let is_word = |word: &str| {
        !word.is_empty()
            && !word.starts_with('.')
            && word
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '@' | ' '))
    };
    text.len() <= MAX_BYTES && text.split('/').all(is_word)
}

/// Returns true if a version is newer than another one, as numbers with dots between them.
fn is_newer(version: &str, than: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let parts = text.split('.');
        parts.map(|part| part.parse().unwrap_or(u64::MAX)).collect()
    };
    numbers(version) > numbers(than)
}

impl Metadata {
    /// Reads the file. `rag_version` is the version of the extension. A bundle of an older version
    /// has the same format if `format_version` is the same.
    ///
    /// # Errors
    /// It is not the metadata of a bundle of this version or an older one.
    pub fn read(bytes: &[u8], rag_version: &str) -> Result<Self, BundleError> {
        let invalid = |why: String| BundleError::invalid(BundleFile::Metadata, why);
        let versions: Versions =
            serde_json::from_slice(bytes).map_err(|e| invalid(format!("{e}.")))?;
        if versions.format.as_deref() != Some(FORMAT) {
            return Err(invalid(format!("The key \"format\" is not \"{FORMAT}\".")));
        }
        let other = |what: &str, theirs: String, ours: String| {
            BundleError::new(
                BundleErrorKind::OtherVersion,
                format!("bundle has {what} {theirs}, and this server reads {ours}"),
            )
        };
        let found = versions.format_version.unwrap_or(0);
        if found != u64::from(FORMAT_VERSION) {
            let (theirs, ours) = (found.to_string(), FORMAT_VERSION.to_string());
            return Err(other("format version", theirs, ours));
        }
        let found = versions.rag_version.unwrap_or_default();
        if found.is_empty() || is_newer(&found, rag_version) {
            let theirs: String = found.chars().filter(|c| !c.is_control()).take(40).collect();
            return Err(other("version of rag", theirs, rag_version.into()));
        }
        let metadata: Self = serde_json::from_slice(bytes).map_err(|e| invalid(format!("{e}.")))?;
        metadata.check().map_err(invalid)?;
        Ok(metadata)
    }

    fn check(&self) -> Result<(), String> {
        for file in BundleFile::ALL {
            if file != BundleFile::Metadata && !self.files.contains_key(file.name()) {
                return Err(format!("The key \"files\" has no \"{}\".", file.name()));
            }
        }
        if self.files.len() != BundleFile::ALL.len() - 1 {
            return Err("The key \"files\" has a file that no bundle has.".into());
        }
        let dimensions = self.model.as_ref().map(|model| model.dimensions);
        if self.embedding_dimension != dimensions {
            return Err("\"embedding_dimension\" is not that of the model.".into());
        }
        if self.chunk_count > 0 && self.model.is_none() {
            return Err("There are chunks, but no model.".into());
        }
        if self
            .model
            .as_ref()
            .is_some_and(|model| !(0.0..=1.0).contains(&model.baseline))
        {
            return Err("\"baseline\" of the model is not between 0 and 1.".into());
        }
        if self
            .model
            .as_ref()
            .is_some_and(|model| !(1..=MAX_TOKENS).contains(&model.max_tokens))
        {
            return Err(format!(
                "\"max_tokens\" of the model is not between 1 and {MAX_TOKENS}."
            ));
        }
        if let Some(model) = &self.model
            && !is_name(&model.name)
        {
            return Err("\"name\" of the model is not the name of a model.".into());
        }
        let is_hash = |text: &str| text.len() >= 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if let Some(model) = &self.model
            && !(is_hash(&model.fingerprint) && is_hash(&model.identity))
        {
            return Err("A hash of the model is not hexadecimal.".into());
        }
        let texts = serde_json::to_value(self).map_err(|e| e.to_string())?;
        if contains_nul(&texts) {
            Err("A text contains the character U+0000.".into())
        } else {
            Ok(())
        }
    }

    /// Returns size and hash of a file.
    pub fn sum(&self, file: BundleFile) -> FileSum {
        self.files.get(file.name()).cloned().unwrap_or(FileSum {
            bytes: 0,
            sha256: String::new(),
        })
    }

    /// Returns the size of all files in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.files
            .values()
            .fold(0, |total, file| total.saturating_add(file.bytes))
    }

    /// Records size and hash of a file.
    pub fn set_sum(&mut self, file: BundleFile, sum: FileSum) {
        let sizes = &mut self.file_sizes;
        match file {
            BundleFile::Metadata => return,
            BundleFile::Sources => sizes.sources_yaml = sum.bytes,
            BundleFile::Knowledge => sizes.knowledge_jsonl = sum.bytes,
            BundleFile::Digests => sizes.digests_jsonl = sum.bytes,
            BundleFile::Corpus => sizes.corpus_jsonl = sum.bytes,
            BundleFile::Chunks => sizes.chunks_jsonl = sum.bytes,
            BundleFile::Embeddings => sizes.embeddings_npy = sum.bytes,
        }
        self.files.insert(file.name().to_string(), sum);
    }

    /// Returns the bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

fn contains_nul(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(contains_nul),
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| key.contains('\0') || contains_nul(value)),
        _ => false,
    }
}
