//! The job given to `rag-engine ingest` on its standard input, and the events it streams on its
//! standard output.
//!
//! One [`Job`] goes in; [`Event`]s come out: one `Started`, any number of `Document`, `Unchanged`
//! and `Failed`, then `Finished` or `Fatal`. A stream that ends without either of the two means
//! that the engine died.

use std::{collections::HashMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{EngineError, spec::SourceSpec};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub source: SourceSpec,
    /// By uri, the documents that are stored and were split as `splitting` says. One whose
    /// validator or whose bytes are the same is reported as `Unchanged` and neither extracted nor
    /// sent.
    pub known: HashMap<String, Known>,
    pub splitting: Splitting,
    /// Folder of the model whose `tokenizer.json` counts the tokens.
    pub model_dir: PathBuf,
    /// A folder of this job's own; the engine may write only here and in `clones`.
    pub work_dir: PathBuf,
    /// Where clones of git repositories are kept between runs.
    pub clones: Clones,
    /// What the source's server asks for.
    pub credentials: Option<Credentials>,
    pub network: Network,
    pub limits: Limits,
}

/// What is stored of a document, as far as it tells whether it has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// BLAKE3 hex of the bytes.
    pub raw_hash: String,
    /// What the source said of the version that is stored (see [`Document::validator`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validator: Option<String>,
}

/// Bare clones that outlive a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clones {
    /// Absolute, or relative to the working directory; shared by all jobs of the cluster.
    pub dir: PathBuf,
    /// Bytes that all clones may take together; those used longest ago are removed first.
    pub max_bytes: u64,
    /// Most bytes of one clone. A fetch that needs more ends with an error.
    pub max_clone_bytes: u64,
    /// The source that uses the job's clone, as `rag_clones::User` writes it; `None`: nobody is to
    /// find the clone again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The user of a token that is shown to a git server: what GitHub asks for, and as good as any for
/// GitLab, Gitea, Forgejo and Azure DevOps.
pub const TOKEN_USER: &str = "x-access-token";

/// What is shown to the server that a source names, and to no other.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// With it `secret` is a password (Basic); without, a token (Bearer; git: password of
    /// [`TOKEN_USER`]).
    pub username: Option<String>,
    pub secret: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Where the job may connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Hosts, addresses and address ranges (`wiki.local`, `*.corp.example`, `10.1.2.3`,
    /// `192.168.0.0/16`, each with `:port` if only that port is meant) that may be connected to
    /// although they are not public.
    pub allowed_private_hosts: Vec<String>,
    /// `http://host:port` of the proxy that everything goes through; none is taken from the
    /// environment.
    pub proxy: Option<String>,
}

/// What bounds one job. Exceeding a per-document limit fails that document; the engine's process
/// limits bound the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Largest file that is read, in bytes.
    pub max_file_bytes: u64,
    /// Address space of the process, in bytes (RLIMIT_AS); `None` leaves it as inherited.
    pub memory_bytes: Option<u64>,
    /// Processor time of the process, in seconds (RLIMIT_CPU).
    pub cpu_seconds: Option<u64>,
    /// Largest file the process may write, in bytes (RLIMIT_FSIZE).
    pub file_size_bytes: Option<u64>,
    /// Wall-clock time of the whole job, in seconds.
    pub wall_seconds: Option<u64>,
}

/// How texts are cut into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Splitting {
    /// Most of a chunk, in units.
    pub chunk_size: usize,
    /// What neighbouring chunks share, at most, in units; less than `chunk_size`.
    pub chunk_overlap: usize,
    #[serde(default)]
    pub unit: Unit,
}

/// What the size of a chunk is counted in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Unicode scalar values.
    #[default]
    Characters,
    /// The model's tokens, without the special ones.
    Tokens,
}

impl Unit {
    pub const ALL: [Self; 2] = [Self::Characters, Self::Tokens];

    pub fn name(self) -> &'static str {
        match self {
            Self::Characters => "characters",
            Self::Tokens => "tokens",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }
}

impl Splitting {
    /// Names everything that decides where a text is cut, and how it was extracted: a document is
    /// processed again when it changes. `model_fingerprint` stands for the tokenizer and its limit.
    pub fn fingerprint(&self, model_fingerprint: &str) -> String {
        let unit = match self.unit {
            Unit::Characters => "",
            Unit::Tokens => " tokens",
        };
        format!(
            "recursive v4 {}/{}{unit} {model_fingerprint}",
            self.chunk_size, self.chunk_overlap
        )
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The listing is complete: this many documents will be reported.
    Started {
        documents: u64,
        commit: Option<String>,
    },
    /// A new or changed document; the payload is its extracted text, UTF-8, without NUL characters.
    Document(Box<Document>),
    /// A known document is the same as before; `validator` is given where it is another than the
    /// known one.
    Unchanged {
        uri: String,
        validator: Option<String>,
    },
    /// The source no longer has a document. A feed that does not report everything says so, and one
    /// that found a listed file to be no document: it is empty, or binary.
    Removed { uri: String },
    /// One document could not be had; what is stored of it stays as it is.
    Failed(Failure),
    /// Where the time has gone, just before [`Event::Finished`]: milliseconds of listing and
    /// reading the source, and those of extracting and splitting, summed over threads.
    Worked { fetch_ms: u64, extract_ms: u64 },
    /// All was reported. `complete` is false where a part of the source could not be listed, so
    /// that a document that was not reported is not known to be gone. `skipped` counts files that
    /// are no documents (images, archives).
    Finished {
        complete: bool,
        bytes_fetched: u64,
        skipped: u64,
    },
    /// The job as a whole cannot be done.
    Fatal { error: EngineError },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Where it came from: `file:///srv/docs/keys.md`, `https://host/repo.git#docs/keys.md`.
    pub uri: String,
    /// BLAKE3 hex of the bytes as they were fetched.
    pub raw_hash: String,
    /// Bytes as fetched.
    pub bytes: u64,
    /// What the source says of this version, so that an unchanged one need not be fetched again:
    /// size and time of a file, the id of a blob, ETag and Last-Modified of a response. Only the
    /// source that made it understands it.
    pub validator: Option<String>,
    pub content: Content,
}

/// What is in a document, extracted and split. The text itself travels as the message's payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub document_type: DocumentType,
    pub title: Title,
    /// Front matter and what else the extractor found; never has a key of another meaning
    /// elsewhere.
    pub metadata: Map<String, Value>,
    /// SHA-256 hex of the text.
    pub content_hash: String,
    pub chunks: Vec<Chunk>,
    /// What was lost on the way from the bytes to the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// The key of a document's metadata with what its links lead to. There may be many, so chunks do
/// not have it unless somebody asks for it.
pub const LINK_TARGETS: &str = "link_targets";

/// Something that was lost or may have been misread in a document that was indexed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub stage: Stage,
    /// One sentence, lower case, no final stop.
    pub message: String,
}

/// What a document is called, and whether it says so itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    pub text: String,
    /// Taken from the document (front matter, heading, HTML or PDF title) rather than from its
    /// file's name. Only such a title is embedded with the chunks: a renamed file keeps its
    /// embeddings.
    pub own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentType {
    Markdown,
    Text,
    Html,
    Pdf,
    Code,
    Csv,
    Tsv,
    Json,
    /// A JSON value a line.
    Jsonl,
    Docx,
}

impl DocumentType {
    pub const ALL: [Self; 10] = [
        Self::Markdown,
        Self::Text,
        Self::Html,
        Self::Pdf,
        Self::Code,
        Self::Csv,
        Self::Tsv,
        Self::Json,
        Self::Jsonl,
        Self::Docx,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Text => "text",
            Self::Html => "html",
            Self::Pdf => "pdf",
            Self::Code => "code",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Docx => "docx",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}

/// One piece of a document's text: `text[byte_start..byte_start + byte_len]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Position of the first character, counted in characters from 0: `substr(text, start_index +
    /// 1, length)`.
    pub start_index: usize,
    pub byte_start: usize,
    pub byte_len: usize,
    /// Lines of the file that the first and the last character are on, from 1: with front matter,
    /// where the text is as written; else lines of the text.
    pub start_line: u32,
    pub end_line: u32,
    /// Page that the first character is on, from 1, where the document has pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The headings that the first character is under, outermost first; of source code the
    /// functions and types that it is in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heading_path: Vec<String>,
    /// What the model is told beside the title and the chunk: of source code the file and the
    /// innermost of these.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub context: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub uri: String,
    pub stage: Stage,
    pub message: String,
    pub hint: Option<String>,
    /// The source's server asks to be left alone for a while; nothing is wrong with the document.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub throttled: bool,
    /// Of what is `throttled`: for how long, where the server says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

impl Failure {
    pub fn new(
        uri: impl Into<String>,
        stage: Stage,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        let (uri, message) = (uri.into(), message.into());
        Self {
            uri,
            stage,
            message,
            hint,
            throttled: false,
            retry_after_seconds: None,
        }
    }

    /// The same failure, for the reason that the server asks to be left alone.
    #[must_use]
    pub fn throttled(self, retry_after_seconds: Option<u64>) -> Self {
        Self {
            throttled: true,
            retry_after_seconds,
            ..self
        }
    }
}

/// Where in the pipeline a document failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Fetch,
    Decode,
    Extract,
    Split,
    Embed,
    Store,
}

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Decode => "decode",
            Self::Extract => "extract",
            Self::Split => "split",
            Self::Embed => "embed",
            Self::Store => "store",
        }
    }
}

/// The text that the model is given for a chunk: the document's own title, what the chunk is a part
/// of, a blank line, the chunk.
///
/// The splitter leaves room for what is before the chunk (see `rag-document`), so that nothing is
/// cut off.
pub fn embedded_text(title: &Title, context: &str, chunk: &str) -> String {
    match (title.own, context) {
        (false, "") => chunk.to_string(),
        (false, context) => format!("{context}\n\n{chunk}"),
        (true, "") => format!("{}\n\n{chunk}", title.text),
        (true, context) => format!("{}\n{context}\n\n{chunk}", title.text),
    }
}
