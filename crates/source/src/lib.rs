//! Where documents come from: a source is listed, then its items are fetched one by one.
//!
//! ```text
//! SourceSpec ──open──▶ Source ──list──▶ Listing { items, failures, complete, skipped, commit }
//!                             ──fetch─▶ bytes of one item
//! ```
//!
//! | kind | items | uri |
//! |---|---|---|
//! | `folder` | the files below a folder of the server | `file:///srv/docs/keys.md` |
//! | `git` | the files of one commit, read from the object store: nothing is checked out | `https://host/repo.git#docs/keys.md` |
//! | `markdown` | one file of the server or the web | `file:///srv/docs/keys.md`, `https://host/keys.md` |
//! | `static` | a list of files of the server and the web | the same |
//! | `website` | the pages that can be reached from one | `https://host/guide/keys` |
//!
//! Items are sorted by the bytes of their paths, and paths in uris are percent-encoded, so names of
//! any encoding work and the same source gives the same list every time.
//!
//! What concerns the source as a whole (no such folder, branch or host) is an [`EngineError`]; what
//! concerns one file or directory is a [`Failure`] beside all that works. Where a directory cannot
//! be read, [`Listing::complete`] is false: a document that is not listed is then not known to be
//! gone.
//!
//! A listing does not look at types and sizes. The caller should leave out what is no document by
//! its name before fetching, so that a film beyond the size limit is no failure.

mod fetcher;
mod filter;
mod folder;
mod git;
pub mod guard;
pub mod http;
mod machine;
mod markdown;
mod root;
mod static_files;
mod website;

use std::path::PathBuf;

use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Job, Known, Stage},
    spec::{Endpoint, MarkdownSpec, SourceSpec},
};
use serde_json::{Map, Value};

/// One file that a source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Names the document, within its source and beyond.
    pub uri: String,
    /// The path within the source, for people: title and type are taken from it.
    pub name: String,
    /// In bytes, when it was listed; 0 where that is not known.
    pub size: u64,
    /// What the listing tells of the version, where that is enough to know it again.
    pub validator: Option<String>,
    locator: Locator,
}

/// What became of fetching an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Fetched {
    Content(Content),
    /// It is the known version; its validator now.
    Unchanged {
        validator: Option<String>,
    },
    /// It is no document, although its name looks like one.
    Skipped,
}

/// One item as it was fetched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content {
    pub bytes: Vec<u8>,
    /// See [`rag_protocol::ingest::Document::validator`].
    pub validator: Option<String>,
    /// `Content-Type` of the response, with its parameters.
    pub media_type: Option<String>,
    /// What the source knows of the document: repository, path, commit.
    pub metadata: Map<String, Value>,
}

/// How a source finds an item again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Locator {
    /// Relative to the source's root.
    Path(PathBuf),
    Blob(git2::Oid),
    /// At its uri.
    Web,
    /// The number of a page that was fetched for its links.
    Page(usize),
}

/// What a source has at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub items: Vec<Item>,
    /// Parts that could not be listed.
    pub failures: Vec<Failure>,
    /// Whether everything selected is in `items`.
    pub complete: bool,
    /// Selected entries that are no files: symbolic links that lead nowhere useful, devices,
    /// submodules.
    pub skipped: u64,
    /// The commit that was listed, full hex; `git` only.
    pub commit: Option<String>,
}

/// Something that documents are fetched from.
pub trait Source {
    /// Lists the source.
    ///
    /// # Errors
    /// Where nothing can be listed at all.
    fn list(&mut self) -> Result<Listing, EngineError>;

    /// One listed item; `known` is the version that is stored.
    ///
    /// # Errors
    /// Where it is gone, unreadable, no longer a plain file, or larger than `max_file_bytes` of the
    /// job's limits.
    fn fetch(&mut self, item: &Item, known: Option<&Known>) -> Result<Fetched, Failure>;

    /// Whether an item's type may turn out to be another than its name says, once it is fetched.
    fn gives_media_types(&self) -> bool {
        false
    }

    /// Whether the bytes of the items that have a size were fetched already when they were listed.
    fn fetches_when_listing(&self) -> bool {
        false
    }
}

/// Makes a source ready to be listed. `git` writes into the job's folders of clones and of work,
/// `website` keeps its pages in the latter until they are fetched; nothing else is written.
///
/// # Errors
/// Where the folder, file or repository cannot be had, or a path pattern cannot be understood.
pub fn open(job: &Job) -> Result<Box<dyn Source>, EngineError> {
    let most = job.limits.max_file_bytes;
    Ok(match &job.source {
        SourceSpec::Folder(spec) => Box::new(folder::Folder::open(spec, most)?),
        SourceSpec::Git(spec) => Box::new(git::Git::open(spec, job)?),
        SourceSpec::Markdown(MarkdownSpec {
            endpoint: Endpoint::File(path),
        }) => Box::new(markdown::Markdown::open(path, most)?),
        SourceSpec::Markdown(MarkdownSpec { endpoint }) => Box::new(
            static_files::StaticFiles::open(std::slice::from_ref(endpoint), job)?,
        ),
        SourceSpec::Static(spec) => {
            Box::new(static_files::StaticFiles::open(&spec.endpoints, job)?)
        }
        SourceSpec::Website(spec) => Box::new(website::Website::open(spec, job)?),
        SourceSpec::Table(_) => {
            return Err(EngineError::new(
                ErrorKind::Internal,
                "tables are read by the server, not by rag-engine",
            ));
        }
    })
}

fn fetch_failure(uri: &str, message: impl Into<String>, hint: Option<&str>) -> Failure {
    Failure::new(uri, Stage::Fetch, message, hint.map(Into::into))
}

/// The failure of one item for a reason that concerns more.
fn item_failure(uri: &str, error: EngineError) -> Failure {
    let failure = Failure::new(uri, Stage::Fetch, error.message, error.hint);
    if error.kind == ErrorKind::Throttled {
        failure.throttled(error.retry_after_seconds)
    } else {
        failure
    }
}

fn too_large(uri: &str, size: u64, most: u64) -> Failure {
    let hint = "Raise the limit on the size of files, or leave the file out with \"excludePaths\".";
    fetch_failure(
        uri,
        format!("the file has {size} bytes, more than the limit of {most} bytes"),
        Some(hint),
    )
}
