//! Readers of sources: a reader lists its source, then fetches the items one by one.
//!
//! ```text
//! SourceSpec ──open──▶ SourceReader ──list──▶ Listing { items, failures, complete, ... }
//!                                   ──fetch─▶ bytes of one item
//! ```
//!
//! | kind | items | uri |
//! |---|---|---|
//! | `folder` | the files below a folder of the server | `file:///srv/docs/keys.md` |
//! | `git` | the files of one commit, read from the object store: nothing is checked out | `https://host/repo.git#docs/keys.md` |
//! | `markdown` | one file of the server or the web | `file:///srv/docs/keys.md`, `https://host/keys.md` |
//! | `static` | a list of files of the server and the web | the same |
//! | `website` | the pages that can be reached from one | `https://host/guide/keys` |
//! | `s3` | the objects of a bucket | `s3://bucket/docs/keys.md` |
//! | `gcs` | the same | `gs://bucket/docs/keys.md` |
//! | `azblob` | the blobs of a container | `https://account.blob.core.windows.net/container/docs/keys.md` |
//!
//! Items are sorted by the bytes of their paths, and paths in uris are percent-encoded, so names of
//! any encoding work and the same source gives the same list every time.
//!
//! An error of the source as a whole (no such folder, branch or host) is an [`EngineError`]. An
//! error of one file or directory is a [`Failure`], and the rest is read. If a directory cannot be
//! read, [`Listing::complete`] is false: documents that are not listed may still exist.
//!
//! A listing ignores types and sizes. The caller should leave out files that are no documents by
//! their names before fetching, so that a film beyond the size limit is not a failure.
//!
//! The kinds come from the registry in `crates/definition/src/source/registry.rs`: its lines
//! declare the modules of the readers and the match in [`open`]. A reader implements
//! [`SourceReader`], and `OpenReader` for the spec of its kind.

mod fetcher;
mod filter;
pub mod guard;
pub mod http;
mod machine;
mod objects;
mod root;
mod tcp;

pub use crate::filter::{Filter, Verdict};

use std::path::PathBuf;

use percent_encoding::{AsciiSet, CONTROLS};
use rag_definition::{source::SourceSpec, source_kinds};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, FailureCause, Job, KnownVersion, Stage},
    skipped::SkippedFiles,
};
use serde_json::{Map, Value};

macro_rules! define_readers {
    ($($module:ident::$Spec:ident as $Kind:ident;)+) => {
        $(mod $module;)+

        fn open_reader(
            source: &SourceSpec,
            job: &Job,
        ) -> Result<Box<dyn SourceReader>, EngineError> {
            match source {
                $(SourceSpec::$Kind(spec) => spec.open(job),)+
            }
        }
    };
}

source_kinds!(define_readers);

/// The characters of a path or a key that are percent-encoded in a uri.
pub const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The metadata key with other addresses of a document. If it changes, the document does.
pub const ALIAS_URIS: &str = "alias_uris";

/// One file that a source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceItem {
    /// Identifies the document, within its source and beyond.
    pub uri: String,
    /// The path within the source, as text. Title and type are derived from it.
    pub name: String,
    /// In bytes, when it was listed; 0 if unknown.
    pub size: u64,
    /// Identifies the version, if the listing can tell it.
    pub validator: Option<String>,
    locator: Locator,
}

/// The result of fetching an item.
#[derive(Debug, Clone, PartialEq)]
pub enum FetchOutcome {
    Content(FetchedContent),
    /// The stored version is current; with its validator now.
    Unchanged {
        validator: Option<String>,
    },
    /// It is not a document, although its name suggests one.
    Skipped(SkippedFile),
}

/// What a fetched item is that is no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkippedFile {
    LfsPointer,
    /// It holds keys or passwords.
    Keys,
}

impl From<SkippedFile> for SkippedFiles {
    fn from(file: SkippedFile) -> Self {
        let mut files = Self::default();
        match file {
            SkippedFile::LfsPointer => files.lfs_pointers = 1,
            SkippedFile::Keys => files.keys = 1,
        }
        files
    }
}

/// An item that was fetched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FetchedContent {
    pub bytes: Vec<u8>,
    /// See [`rag_protocol::ingest::Document::validator`].
    pub validator: Option<String>,
    /// `Content-Type` of the response, with its parameters.
    pub media_type: Option<String>,
    /// Metadata from the source: repository, path, commit.
    pub metadata: Map<String, Value>,
}

/// How a reader finds an item again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Locator {
    /// By its uri.
    Uri,
    /// By a path relative to the root of the source.
    Path(PathBuf),
    /// By its number in a list of the reader.
    Number(usize),
    /// By the id of a git object.
    Blob(git2::Oid),
    /// By its name, which is a key, and the id of a version.
    Version(String),
}

/// The items of a source at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub items: Vec<SourceItem>,
    /// Parts that could not be listed.
    pub failures: Vec<Failure>,
    /// True if `items` has everything that is selected.
    pub complete: bool,
    /// Selected entries that are not read: devices, submodules, most symbolic links.
    pub skipped: SkippedFiles,
    /// The commit that was listed, full hex; `git` only.
    pub commit: Option<String>,
}

/// How far a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListingProgress<'a> {
    /// Number of documents that were found.
    pub found: u64,
    /// Number of addresses that wait to be visited.
    pub waiting: u64,
    /// Number of addresses that are no documents.
    pub skipped: u64,
    /// What is being read.
    pub uri: &'a str,
}

/// Reads a source. A job has one reader.
pub trait SourceReader {
    /// Lists the source.
    ///
    /// # Errors
    /// Nothing could be listed.
    fn list(&mut self) -> Result<Listing, EngineError>;

    /// Lists the source, and tells how far it is, if that may take long.
    ///
    /// # Errors
    /// See [`SourceReader::list`].
    fn list_with(
        &mut self,
        _progress: &mut dyn FnMut(ListingProgress<'_>),
    ) -> Result<Listing, EngineError> {
        self.list()
    }

    /// Fetches a listed item; `known` is the stored version.
    ///
    /// # Errors
    /// The item is gone, unreadable, no longer a regular file, or larger than `max_file_bytes` of
    /// the job's limits.
    fn fetch(
        &mut self,
        item: &SourceItem,
        known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure>;

    /// Returns the same reader for several threads, if a fetch may take long and does not depend on
    /// others.
    fn concurrent(&self) -> Option<&dyn ConcurrentFetch> {
        None
    }

    /// Returns true if the type of a fetched item may differ from what its name suggests.
    fn gives_media_types(&self) -> bool {
        false
    }

    /// Returns true if listing has fetched the bytes of the items that have a size.
    fn fetches_when_listing(&self) -> bool {
        false
    }
}

/// Fetches items by several threads at once.
pub trait ConcurrentFetch: Sync {
    /// Fetches an item, as [`SourceReader::fetch`] does.
    ///
    /// # Errors
    /// See [`SourceReader::fetch`].
    fn fetch(
        &self,
        item: &SourceItem,
        known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure>;

    /// Returns the server of an item, which gets few requests at a time.
    fn server(&self, item: &SourceItem) -> String;
}

/// Implemented for the spec of each kind, in the file of its reader.
trait OpenReader {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError>;
}

/// Opens the source of a job. `git` writes into the job's folders of clones and of work, `website`
/// keeps its pages in the latter until they are fetched. Other kinds write nothing.
///
/// # Errors
/// The folder, file or repository is unavailable, or a path pattern is invalid.
pub fn open(job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
    open_reader(&job.source, job)
}

/// Opens one of the sources of a job.
///
/// # Errors
/// See [`open`].
pub fn open_one(source: &SourceSpec, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
    open_reader(source, job)
}

fn fetch_failure(uri: &str, message: impl Into<String>, hint: Option<&str>) -> Failure {
    Failure::new(uri, Stage::Fetch, message, hint.map(Into::into))
}

/// Returns the failure of one item because of an error that concerns more than that item.
fn item_failure(uri: &str, error: EngineError) -> Failure {
    let failure = Failure::new(uri, Stage::Fetch, error.message, error.hint);
    if error.kind == ErrorKind::Throttled {
        failure.with_cause(FailureCause::Throttled {
            retry_after_seconds: error.retry_after_seconds,
        })
    } else {
        failure
    }
}

fn too_large(uri: &str, size: u64, max_bytes: u64) -> Failure {
    let hint = "Raise rag.max_file_size, or leave the file out with \"excludePaths\".";
    fetch_failure(
        uri,
        format!("the file has {size} bytes, more than the limit of {max_bytes} bytes"),
        Some(hint),
    )
}
