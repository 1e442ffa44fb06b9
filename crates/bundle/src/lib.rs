//! Bundles: a collection as files, for another server or for other programs.
//!
//! | file | what it has |
//! |---|---|
//! | `metadata.json` | what the bundle is of, and size and SHA-256 of each other file: [`Metadata`] |
//! | `corpus.jsonl` | a [`Document`] a line, ordered by `document_id` |
//! | `chunks.jsonl` | a [`Chunk`] a line, ordered by `document_id`, `chunk_index`, `chunk_id` |
//! | `embeddings.npy` | the embeddings of the chunks in the same order: [`npy`] |
//! | `knowledge.jsonl` | a [`KnowledgeItem`] a line, ordered by `knowledge_id` |
//! | `digests.jsonl` | a [`Digest`] a line, ordered by `document_id`, for drift checks |
//! | `sources.yaml` | a manifest of the retriever and the sources |
//!
//! The order makes two bundles of the same collection equal, and lets a reader find duplicates and
//! chunks without a document while it reads. Everything is a stream: no file has to fit memory.
//!
//! A bundle is written and read through a [`folder`], or in blocks of bytes that a client moves
//! through COPY. A reader trusts nothing: lines have a maximum length, unknown keys are errors, and
//! sizes and hashes are compared with the metadata.

pub mod folder;
mod lines;
mod member;
mod metadata;
pub mod npy;
mod record;
mod sum;

pub use self::{
    lines::{LineReader, MAX_LINE},
    metadata::{DatasetInfo, FileSizes, MAX_METADATA, Metadata, ModelEntry, Settings},
    record::{Chunk, Digest, Document, KnowledgeItem, Record},
    sum::{FileSum, Summed, Summing},
};

/// The version of the format. Readers refuse any other.
pub const FORMAT_VERSION: u32 = 1;
/// What the key `format` of the metadata says.
pub const FORMAT: &str = "rag collection bundle";

/// A file of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BundleFile {
    Metadata,
    Sources,
    Knowledge,
    Digests,
    Corpus,
    Chunks,
    Embeddings,
}

impl BundleFile {
    pub const ALL: [Self; 7] = [
        Self::Metadata,
        Self::Sources,
        Self::Knowledge,
        Self::Digests,
        Self::Corpus,
        Self::Chunks,
        Self::Embeddings,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata.json",
            Self::Sources => "sources.yaml",
            Self::Knowledge => "knowledge.jsonl",
            Self::Digests => "digests.jsonl",
            Self::Corpus => "corpus.jsonl",
            Self::Chunks => "chunks.jsonl",
            Self::Embeddings => "embeddings.npy",
        }
    }
}

/// What is wrong with a bundle or its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleErrorKind {
    /// The content is damaged or is no bundle.
    Invalid,
    /// Another version of the format or of the extension wrote it.
    OtherVersion,
    NotFound,
    Exists,
    /// A symbolic link, a pipe, or a file where a folder belongs.
    WrongFileType,
    PermissionDenied,
    DiskFull,
    /// A path that is not absolute or has `..`.
    InvalidPath,
    /// A path outside of the allowed folders.
    NotAllowed,
    Io,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleError {
    pub kind: BundleErrorKind,
    pub message: String,
    pub detail: Option<String>,
}

impl BundleError {
    pub fn new(kind: BundleErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            detail: None,
        }
    }

    /// Returns the error for damaged content of a file.
    pub fn invalid(file: BundleFile, detail: impl Into<String>) -> Self {
        Self::new(
            BundleErrorKind::Invalid,
            format!("invalid file {} of the bundle", file.name()),
        )
        .detail(detail)
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Returns the error of an operation on a file or folder.
    pub fn io(what: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        // a reader has found damage
        if let Some(damage) = error.get_ref().and_then(|e| e.downcast_ref::<Self>()) {
            return damage.clone();
        }
        let kind = match error.kind() {
            ErrorKind::NotFound => BundleErrorKind::NotFound,
            ErrorKind::AlreadyExists => BundleErrorKind::Exists,
            ErrorKind::PermissionDenied => BundleErrorKind::PermissionDenied,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => BundleErrorKind::DiskFull,
            ErrorKind::NotADirectory | ErrorKind::IsADirectory => BundleErrorKind::WrongFileType,
            _ => match error.raw_os_error() {
                Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                    BundleErrorKind::WrongFileType
                }
                _ => BundleErrorKind::Io,
            },
        };
        Self::new(kind, format!("could not {what}")).detail(format!("{error}."))
    }
}

impl std::fmt::Display for BundleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BundleError {}
