//! The objects of a bucket, whatever service it belongs to.
//!
//! ```text
//! S3Spec ─open─▶ Objects { storage: S3 }
//!                   │ list:  storage.list_page() ─▶ keys, sizes, ETags ─▶ Filter ─▶ items
//!                   │ fetch: storage.url(key)
//!                   ▼
//!            ObjectClient ─▶ Access::authorize (object_store) ─▶ HttpClient (guard, limits, proxy)
//!                                 │
//!                                 └─ of the machine: its metadata service, through an HttpClient
//!                                    that connects to nothing else
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `access.rs` | credentials, and signatures of requests |
//! | `client.rs` | requests with retries |
//! | `metadata.rs` | requests for the tokens of a machine |
//! | `refusal.rs` | answers that are refusals, and what they mean |
//! | `xml.rs` | lists and errors in XML |
//!
//! All requests block, and `rag-engine ingest` needs no runtime: the futures of object_store, which
//! gets tokens of cloud services, are polled in the thread that needs the token.
//!
//! A listing has pages of a thousand keys. A page is dropped when its keys have been filtered, so
//! the memory of a listing is that of the selected keys. Their number and size are limited: a
//! server may send pages without end.
//!
//! The validator of an object is the ETag of the listing, also for an object that has changed
//! before it is fetched: the next listing then has another ETag. An object without one is fetched
//! in each run.

pub mod access;
pub mod client;
mod metadata;
pub mod refusal;
pub mod xml;

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rag_definition::source::{ObjectSelection, PathFilter};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Job, KnownVersion},
    skipped::SkippedFiles,
};
use reqwest::header::HeaderMap;
use serde_json::Map;
use url::Url;

use self::{
    access::Access,
    client::{ObjectClient, ObjectError},
    refusal::Explain,
};
use crate::{
    ConcurrentFetch, ENCODED, FetchOutcome, FetchedContent, Listing, Locator, SourceItem,
    SourceReader, fetch_failure,
    fetcher::Validator,
    filter::{Filter, Verdict},
    http::HttpClient,
    too_large,
};

/// Maximum number of keys that a listing may have, selected or not.
const MAX_LISTED: usize = 20_000_000;
/// Maximum number of objects that are selected.
const MAX_SELECTED: usize = 1_000_000;
/// Maximum number of bytes of their addresses and names.
const MAX_SELECTED_BYTES: usize = 256 << 20;
/// Maximum number of pages in a row without a key.
const MAX_EMPTY_PAGES: usize = 1000;
/// Maximum size of a page of a list: a thousand keys of a kilobyte, each byte as three, with much
/// else.
pub const MAX_PAGE: u64 = 16 << 20;
/// The number of keys that a page is to have, which no service exceeds.
pub const PAGE_KEYS: &str = "1000";
/// The maximum length of an ETag that is kept.
const MAX_ETAG: usize = 256;
/// The maximum length of what the request for the next page has.
const MAX_TOKEN: usize = 16 << 10;
/// All characters but those that signatures expect as they are (RFC 3986, 2.3).
pub const STRICT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const STRICT_BUT_SLASHES: &AsciiSet = &STRICT.remove(b'/');

/// An object as a listing has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedObject {
    pub key: String,
    pub size: u64,
    pub etag: Option<String>,
    /// The id of its version, if the listing has versions.
    pub version: Option<String>,
}

/// A part of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ObjectPage {
    pub objects: Vec<ListedObject>,
    /// What the request for the next page has, if there is one.
    pub next: Option<String>,
}

/// A bucket, and who requests its objects.
pub struct Bucket {
    pub client: ObjectClient,
    /// What messages call it: `bucket "docs"`.
    pub name: String,
    /// The address that the uris of its objects begin with: `s3://docs/`.
    pub root: String,
    /// The URL that requests are sent to.
    pub url: Url,
}

impl Bucket {
    /// # Errors
    /// The URL is not one, or credentials would be sent unencrypted.
    pub fn open(
        job: &Job,
        (name, root): (String, String),
        url: &str,
        access: Access,
        explain: Explain,
    ) -> Result<Self, EngineError> {
        let url = Url::parse(url).map_err(|_| {
            EngineError::new(ErrorKind::InvalidRequest, "the endpoint is not a URL")
        })?;
        let http = HttpClient::new(&job.network, None)?;
        Ok(Self {
            client: ObjectClient::new(http, access, &url, explain)?,
            name,
            root,
            url,
        })
    }
}

/// A bucket of one service: how its requests are written, and its answers are read.
pub trait ObjectStorage: Send + Sync {
    /// The header of an answer that has the id of the object's version.
    const VERSION_HEADER: &'static str;

    fn bucket(&self) -> &Bucket;

    /// Lists the keys that begin with a prefix; `page` is [`ObjectPage::next`].
    ///
    /// # Errors
    /// There is no complete answer.
    fn list_page(&self, prefix: &str, page: Option<&str>) -> Result<ObjectPage, ObjectError>;

    /// Returns the URL that an object is fetched from, or `None` if no URL leads to its key.
    fn url(&self, key: &str, version: Option<&str>) -> Option<Url>;
}

/// Reads the selected objects of a bucket.
pub struct Objects<S> {
    storage: S,
    selection: ObjectSelection,
    filter: Filter,
    max_bytes: u64,
}

impl<S: ObjectStorage> Objects<S> {
    /// # Errors
    /// A pattern is invalid.
    pub fn open(storage: S, selection: &ObjectSelection, job: &Job) -> Result<Self, EngineError> {
        Ok(Self {
            storage,
            filter: Filter::new(&selection.filter, PathFilter::KEYS)?,
            selection: selection.clone(),
            max_bytes: job.limits.max_file_bytes,
        })
    }

    /// Adds an object to the listing if it is selected.
    fn add(&self, object: ListedObject, listing: &mut Listing) {
        // consoles create empty objects in place of folders
        if object.key.ends_with('/') && object.size == 0 {
            return;
        }
        match self
            .filter
            .wants_below(&path(self.selection.path_of(&object.key)))
        {
            Verdict::Unwanted => {}
            Verdict::Secret => listing.skipped.keys += 1,
            Verdict::Wanted => listing.items.push(self.item(object)),
        }
    }

    fn item(&self, object: ListedObject) -> SourceItem {
        let ListedObject {
            key,
            size,
            etag,
            version,
        } = object;
        let root = &self.storage.bucket().root;
        let mut uri = format!("{root}{}", utf8_percent_encode(&key, ENCODED));
        if let Some(version) = &version {
            uri += &format!("?versionId={}", utf8_percent_encode(version, STRICT));
        }
        let validator = Validator {
            etag: etag.filter(|etag| !etag.is_empty() && etag.len() <= MAX_ETAG),
            last_modified: None,
        };
        SourceItem {
            uri,
            name: key,
            size,
            validator: validator.text(),
            locator: version.map_or(Locator::Uri, Locator::Version),
        }
    }

    fn too_much(&self, what: String) -> EngineError {
        let name = &self.storage.bucket().name;
        EngineError::new(
            ErrorKind::LimitExceeded,
            format!("could not list {name}: it has {what}"),
        )
        .hint("Select a part of it with \"prefix\", and create several sources.")
    }

    fn endless(&self) -> EngineError {
        let name = &self.storage.bucket().name;
        let message = format!("could not list {name}: the pages of the list have no end");
        EngineError::new(ErrorKind::InvalidAnswer, message)
    }
}

impl<S: ObjectStorage> SourceReader for Objects<S> {
    fn list(&mut self) -> Result<Listing, EngineError> {
        let mut listing = Listing {
            items: vec![],
            failures: vec![],
            complete: true,
            skipped: SkippedFiles::default(),
            commit: None,
        };
        let (prefix, bucket) = (&*self.selection.prefix, self.storage.bucket());
        let (mut page, mut listed, mut empty, mut bytes) = (None, 0, 0, 0);
        loop {
            let ObjectPage { objects, next } = self
                .storage
                .list_page(prefix, page.as_deref())
                .map_err(|error| error.of_list(bucket))?;
            listed += objects.len();
            empty = if objects.is_empty() { empty + 1 } else { 0 };
            let before = listing.items.len();
            for object in objects {
                if !object.key.starts_with(prefix) {
                    let name = &bucket.name;
                    let message = format!("could not list {name}: the list has other keys");
                    let detail = format!("A key does not begin with \"{prefix}\".");
                    return Err(EngineError::new(ErrorKind::InvalidAnswer, message).detail(detail));
                }
                self.add(object, &mut listing);
            }
            let added = &listing.items[before..];
            bytes += added
                .iter()
                .map(|item| item.uri.len() + item.name.len())
                .sum::<usize>();
            if listed > MAX_LISTED {
                return Err(self.too_much(format!("more than {MAX_LISTED} objects")));
            }
            if listing.items.len() > MAX_SELECTED {
                return Err(self.too_much(format!("more than {MAX_SELECTED} selected objects")));
            }
            if bytes > MAX_SELECTED_BYTES {
                let mib = MAX_SELECTED_BYTES >> 20;
                return Err(self.too_much(format!("keys of more than {mib} MB")));
            }
            match &next {
                None => break,
                Some(token) if token.len() > MAX_TOKEN => {
                    let why = "the token for the next page is too long".into();
                    let error = ObjectError::Invalid(why);
                    return Err(error.of_list(bucket));
                }
                Some(_) => {}
            }
            if next == page || empty > MAX_EMPTY_PAGES {
                return Err(self.endless());
            }
            page = next;
        }
        listing.items.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
        // an object that changes meanwhile may be on two pages
        listing.items.dedup_by(|a, b| a.uri == b.uri);
        Ok(listing)
    }

    fn fetch(
        &mut self,
        item: &SourceItem,
        known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure> {
        ConcurrentFetch::fetch(self, item, known)
    }

    fn concurrent(&self) -> Option<&dyn ConcurrentFetch> {
        Some(self)
    }
}

impl<S: ObjectStorage> ConcurrentFetch for Objects<S> {
    fn fetch(
        &self,
        item: &SourceItem,
        _known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure> {
        let version = match &item.locator {
            Locator::Version(version) => Some(version.as_str()),
            _ => None,
        };
        if item.size > self.max_bytes {
            return Err(too_large(&item.uri, item.size, self.max_bytes));
        }
        let Some(url) = self.storage.url(&item.name, version) else {
            return Err(fetch_failure(
                &item.uri,
                "the key has a part \".\" or \"..\", which URLs cannot have",
                Some("Rename the object, or leave it out with \"excludePaths\"."),
            ));
        };
        let client = &self.storage.bucket().client;
        let answer = client
            .get(&url, self.max_bytes)
            .map_err(|error| error.of_object(&item.uri))?;
        let mut metadata = Map::new();
        let version = text(&answer.headers, S::VERSION_HEADER);
        // S3 calls that of an object without versions so
        if let Some(version) = version.filter(|version| *version != "null") {
            metadata.insert("version_id".into(), version.into());
        }
        metadata.insert("path".into(), item.name.as_str().into());
        if let Some(time) = text(&answer.headers, "last-modified") {
            metadata.insert("last_modified".into(), time.into());
        }
        Ok(FetchOutcome::Content(FetchedContent {
            bytes: answer.bytes,
            validator: item.validator.clone(),
            media_type: None,
            metadata,
        }))
    }

    fn server(&self, _item: &SourceItem) -> String {
        self.storage.bucket().url.origin().ascii_serialization()
    }
}

/// Returns the value of a header if it is text.
pub fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the path that patterns are compared with: a key without the parts that no path has.
fn path(key: &str) -> PathBuf {
    let parts = key.split('/');
    parts
        .filter(|part| !matches!(*part, "" | "." | ".."))
        .map(Path::new)
        .collect()
}

/// Returns a URL with a key below it, or `None` if URLs cannot have the key's parts.
pub fn url_below(base: &Url, key: &str) -> Option<Url> {
    let path = format!(
        "{}/{}",
        base.path().trim_end_matches('/'),
        utf8_percent_encode(key, STRICT_BUT_SLASHES)
    );
    let mut url = base.clone();
    url.set_path(&path);
    (url.path() == path).then_some(url)
}

/// Returns a URL with a query, written as signatures expect it.
pub fn with_query(mut url: Url, pairs: &[(&str, &str)]) -> Url {
    let pairs = pairs.iter().map(|(name, value)| {
        let value = utf8_percent_encode(value, STRICT);
        format!("{name}={value}")
    });
    url.set_query(Some(&pairs.collect::<Vec<_>>().join("&")));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_exactly_its_key_or_there_is_none() {
        let base = Url::parse("https://s3.example/docs").unwrap();
        for (key, path) in [
            ("a b+c.md", Some("/docs/a%20b%2Bc.md")),
            ("a//b/", Some("/docs/a//b/")),
            ("/a", Some("/docs//a")),
            ("%2e%2e/a?b#c\\d", Some("/docs/%252e%252e/a%3Fb%23c%5Cd")),
            ("ü\n.md", Some("/docs/%C3%BC%0A.md")),
            ("...", Some("/docs/...")),
            ("../a", None),
            ("a/./b", None),
            ("a/..", None),
        ] {
            let url = url_below(&base, key);
            assert_eq!(url.as_ref().map(Url::path), path, "{key}");
        }
    }

    #[test]
    fn patterns_see_a_path_without_empty_parts() {
        for (key, expected) in [
            ("/a//b.md", "a/b.md"),
            ("../../etc/./x", "etc/x"),
            ("a", "a"),
        ] {
            assert_eq!(path(key), Path::new(expected));
        }
    }
}
