//! The job that `rag-engine ingest` reads from its standard input, and the events that it writes to
//! its standard output.
//!
//! The engine reads one [`Job`]. It writes any number of `Listing` events, one `Started`, any
//! number of `Document`, `Unchanged`, `Removed` and `Failed`, then `Finished` or `Fatal`. If the
//! job has several sources, all of that follows for the next one. A stream that ends before means
//! that the engine died.

use std::{borrow::Cow, collections::HashMap, path::PathBuf};

use rag_definition::{DocumentType, source::SourceSpec};
pub use rag_definition::{Splitting, Unit};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{EngineError, embed::TokenRule, skipped::SkippedFiles};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub source: SourceSpec,
    /// Sources that are read after it, one after the other, whatever becomes of those before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<SourceSpec>,
    /// The stored documents that were split by the same `splitting`, by uri. A document with the
    /// same validator or the same bytes is reported as `Unchanged` and not sent.
    pub known: HashMap<String, KnownVersion>,
    pub splitting: Splitting,
    /// How the tokens of chunks are counted.
    pub tokens: TokenRule,
    /// A folder of this job. The engine may write only here and in `clones`.
    pub work_dir: PathBuf,
    /// Clones of git repositories that are kept between runs.
    pub clones: Clones,
    /// For the source's server.
    pub credentials: Option<Credentials>,
    pub network: Network,
    pub limits: Limits,
}

/// The stored version of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownVersion {
    /// BLAKE3 hex of the bytes.
    pub raw_hash: String,
    /// See [`Document::validator`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validator: Option<String>,
}

/// The bare clones of git repositories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clones {
    /// Absolute, or relative to the working directory. Shared by all jobs of the cluster.
    pub dir: PathBuf,
    /// Maximum size of all clones together. The least recently used ones are removed first.
    pub max_bytes: u64,
    /// Maximum size of one clone. A fetch that needs more fails.
    pub max_clone_bytes: u64,
    /// The source that uses the clone, in the form of `rag_clones::User`. `None`: the clone is not
    /// kept for a source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The user name that is sent with a token to a git server. GitHub requires it; GitLab, Gitea,
/// Forgejo and Azure DevOps accept any.
pub const TOKEN_USER: &str = "x-access-token";

/// Credentials that are sent only to the server that a source names.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// If set, `secret` is a password (Basic). Otherwise it is a token (Bearer; for git, the
    /// password of [`TOKEN_USER`]). For git over ssh it is a private key, and no name is set.
    pub username: Option<String>,
    pub secret: String,
    /// Of the private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Which servers the job may connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Hosts, addresses and networks that are allowed although they are not public: `wiki.local`,
    /// `*.corp.example`, `10.1.2.3`, `192.168.0.0/16`, each with an optional `:port`.
    pub allowed_private_hosts: Vec<String>,
    /// `http://host:port` of the proxy for all requests. Proxies of the environment are ignored.
    pub proxy: Option<String>,
    /// Seconds to wait for the next bytes of a server; `None`: the default of the client.
    #[serde(default)]
    pub silence_seconds: Option<u64>,
}

/// Limits of one job. A document that exceeds a limit fails; limits of the process apply to the
/// rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum size of a file that is read, in bytes.
    pub max_file_bytes: u64,
    /// Address space of the process, in bytes (RLIMIT_AS); `None`: inherited.
    pub memory_bytes: Option<u64>,
    /// CPU time of the process, in seconds (RLIMIT_CPU).
    pub cpu_seconds: Option<u64>,
    /// Maximum size of a file that the process writes, in bytes (RLIMIT_FSIZE).
    pub file_size_bytes: Option<u64>,
    /// Wall-clock time of the whole job, in seconds.
    pub wall_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The source is being listed, which takes long for a website: the numbers of documents found,
    /// of addresses that wait and of those that are no documents, and what is being read.
    Listing {
        found: u64,
        waiting: u64,
        skipped: u64,
        uri: String,
    },
    /// The source has been listed; `documents` is the number of documents that will be reported.
    Started {
        documents: u64,
        commit: Option<String>,
    },
    /// A new or changed document. The payload is its extracted text in UTF-8, without NUL
    /// characters.
    Document(Box<Document>),
    /// A stored document is current; with the new `validator` if it differs from the stored one.
    Unchanged {
        uri: String,
        validator: Option<String>,
    },
    /// The source no longer has a document. Sent by a feed that reports only changes, and for a
    /// listed file that is not a document: it is empty or binary, or has no text. A warning says
    /// why, if its name suggests otherwise.
    Removed {
        uri: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<Warning>,
    },
    /// A document could not be read. Its stored version is kept.
    Failed(Failure),
    /// An archive, mailbox or message could not be read completely. Stored documents that it held
    /// are kept.
    Kept { container: String },
    /// Sent just before [`Event::Finished`]: the time for listing and reading the source, and for
    /// extracting and splitting, in milliseconds summed over threads.
    Worked { fetch_ms: u64, extract_ms: u64 },
    /// Everything was reported. `complete` is false if a part of the source could not be listed:
    /// then documents that were not reported may still exist.
    Finished {
        complete: bool,
        bytes_fetched: u64,
        skipped: SkippedFiles,
    },
    /// The source could not be read.
    Fatal { error: EngineError },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The address of the document: `file:///srv/docs/keys.md`,
    /// `https://host/repo.git#docs/keys.md`.
    pub uri: String,
    /// BLAKE3 hex of the fetched bytes, and of other addresses of the document if it has any.
    pub raw_hash: String,
    /// Number of fetched bytes.
    pub bytes: u64,
    /// Identifies this version, so that it is not fetched again: size and times of a file, the id
    /// of a blob, ETag and Last-Modified of a response. Only its reader interprets it.
    pub validator: Option<String>,
    pub content: Content,
}

/// The content of a document, extracted and split. The text itself is the payload of the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub document_type: DocumentType,
    pub title: Title,
    /// Front matter and other metadata of the extractor. A key has the same meaning everywhere.
    pub metadata: Map<String, Value>,
    /// SHA-256 hex of the text.
    pub content_hash: String,
    /// Places in the text, in order, that are not derived from the text itself. The chunks have
    /// theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<NamedPlace>,
    pub chunks: Vec<Chunk>,
    /// Content that was lost between the bytes and the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// The metadata key with the targets of a document's links. There may be many, so chunks have it
/// only on request.
pub const LINK_TARGETS: &str = "link_targets";

/// A place in a text that an address can name, such as a heading with an id. Stored as a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(usize, String)", into = "(usize, String)")]
pub struct NamedPlace {
    /// The first character of its line, counted from 0.
    pub start_index: usize,
    /// What follows `#` in an address, before it is encoded.
    pub name: String,
}

impl From<(usize, String)> for NamedPlace {
    fn from((start_index, name): (usize, String)) -> Self {
        Self { start_index, name }
    }
}

impl From<NamedPlace> for (usize, String) {
    fn from(place: NamedPlace) -> Self {
        (place.start_index, place.name)
    }
}

/// Content of an indexed document that was lost or may have been misread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub stage: Stage,
    /// One sentence in lower case without a full stop.
    pub message: String,
}

/// The title of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    pub text: String,
    /// True if the title comes from the document (front matter, heading, HTML or PDF title), false
    /// if from the name of its file. Only a title from the document is embedded with the chunks, so
    /// a renamed file keeps its embeddings.
    pub own: bool,
}

/// One piece of a document's text: `text[byte_start..byte_start + byte_len]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Position of the first character, counted in characters from 0: `substr(text, start_index +
    /// 1, length)`.
    pub start_index: usize,
    pub byte_start: usize,
    pub byte_len: usize,
    /// Lines of the first and last character, from 1. Lines of the file if the text is the file as
    /// written, front matter included; otherwise lines of the text.
    pub start_line: u32,
    pub end_line: u32,
    /// The place that the first character belongs to, if an address can name one: the id of its
    /// section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// Page of the first character, from 1, if the document has pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The headings above the first character, outermost first. For source code, the functions and
    /// types around it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heading_path: Vec<String>,
    /// Given to the model with the title and the piece. For source code: the file and the innermost
    /// functions and types. For a piece that begins among the rows of a table: the names of its
    /// columns.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub context: String,
    /// The first lines of the table that the piece continues, each with its line end. They are the
    /// beginning of the chunk's content.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub table_head: String,
}

impl Chunk {
    /// Returns the piece of the text, without the head of its table. `None` if it is not within the
    /// text, or cuts a character.
    pub fn piece<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.get(self.byte_start..self.byte_start.checked_add(self.byte_len)?)
    }

    /// Returns the content of the chunk: the head of its table, if any, and its piece of the text.
    pub fn content<'a>(&self, piece: &'a str) -> Cow<'a, str> {
        match self.table_head.as_str() {
            "" => piece.into(),
            head => format!("{head}{piece}").into(),
        }
    }

    /// Returns the length of the head of the table, in characters.
    pub fn head_length(&self) -> usize {
        self.table_head.chars().count()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub uri: String,
    pub stage: Stage,
    pub message: String,
    pub hint: Option<String>,
    #[serde(default)]
    pub cause: FailureCause,
}

/// What callers must be able to tell apart. Everything else is in the message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    #[default]
    Other,
    /// The document has no text.
    NoContent,
    /// The server limits the rate of requests; nothing is wrong with the document.
    Throttled {
        /// How long the server asks to wait, if it says so.
        retry_after_seconds: Option<u64>,
    },
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
            cause: FailureCause::Other,
        }
    }

    #[must_use]
    pub fn with_cause(self, cause: FailureCause) -> Self {
        Self { cause, ..self }
    }

    pub fn is_throttled(&self) -> bool {
        matches!(self.cause, FailureCause::Throttled { .. })
    }
}

/// The stage of the pipeline at which a document failed.
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

impl Title {
    /// The number of characters that are embedded with each chunk, and shown in citations.
    pub const SHOWN_CHARS: usize = 200;

    /// Returns what is embedded with each chunk. It must leave room for the chunk.
    pub fn embedded(&self) -> &str {
        let end = self.text.char_indices().nth(Self::SHOWN_CHARS);
        end.map_or(&*self.text, |(end, _)| self.text[..end].trim_end())
    }
}

/// Returns the text that is embedded for a chunk: the document's own title, the context, a blank
/// line and the chunk.
///
/// The splitter leaves room for the title and the context (see `rag-document`), so that nothing is
/// truncated.
pub fn embedded_text(title: &Title, context: &str, chunk: &str) -> String {
    let text = title.embedded();
    match (title.own, context) {
        (false, "") => chunk.to_string(),
        (false, context) => format!("{context}\n\n{chunk}"),
        (true, "") => format!("{text}\n\n{chunk}"),
        (true, context) => format!("{text}\n{context}\n\n{chunk}"),
    }
}
