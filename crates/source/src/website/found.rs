//! The pages that a crawl has found. Pages with equal text are one document.
//!
//! One site often has the same page under `/a`, `/a/` and `/a/index.html`. The document has one of
//! these addresses as its uri, and the others are its aliases. The uri is, in this order, that of a
//! stored document, the one that a page calls its canonical address, the shortest one, the first
//! one by its bytes. So it stays the same from run to run.
//!
//! The hash of a page's text is stored with the validator of the document. A page that is not sent
//! again (304), or that fails, is recognized by it.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::PathBuf,
};

use rag_protocol::skipped::SkippedPage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::text::TextHash;
use crate::{Listing, fetcher::Validator};

/// The validator of a document of a website, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PageVersion {
    #[serde(flatten)]
    pub response: Validator,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextHash>,
    /// The hash of the aliases, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aliases: Option<String>,
    /// When the page was fetched last, in seconds since 1970, if a sitemap says when it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetched: Option<i64>,
    /// The page has changed although the sitemap said that it had not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_stale: bool,
    /// Number of links from a first page, if there are such times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The date of a feed's entry, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<i64>,
}

impl PageVersion {
    /// Reads the text that is stored with a document. Returns that of an unknown version for any
    /// other.
    pub fn parse(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    pub fn text(&self) -> Option<String> {
        if *self == Self::default() {
            None
        } else {
            serde_json::to_string(self).ok()
        }
    }

    /// Returns the conditions of a request for the page. Without the hash of its text a page that
    /// is not sent again could not be compared.
    pub fn conditions(&self) -> Option<&Validator> {
        let is_comparable = self.text.is_some() && self.response != Validator::default();
        is_comparable.then_some(&self.response)
    }
}

/// A page that becomes a document.
pub struct FoundPage {
    pub uri: Url,
    /// A document with this uri is stored.
    pub is_known: bool,
    /// The page itself names this address.
    pub is_canonical: bool,
    /// `None` if the stored version is current.
    pub file: Option<PathBuf>,
    /// In bytes.
    pub size: u64,
    pub version: PageVersion,
    pub media_type: Option<String>,
    pub metadata: Map<String, Value>,
    /// Other addresses of the page, without order.
    pub aliases: Vec<Url>,
}

impl FoundPage {
    /// The page of the lowest rank gives the uri.
    fn rank(&self) -> (bool, bool, usize, &str) {
        let uri = self.uri.as_str();
        (!self.is_known, !self.is_canonical, uri.len(), uri)
    }

    /// Orders the aliases and notes them in the version.
    fn settle(&mut self) {
        self.aliases
            .sort_unstable_by(|a, b| (a.as_str().len(), a).cmp(&(b.as_str().len(), b)));
        self.version.aliases = (!self.aliases.is_empty()).then(|| {
            let mut hasher = blake3::Hasher::new();
            for alias in &self.aliases {
                hasher.update(alias.as_str().as_bytes()).update(b"\n");
            }
            hasher.finalize().to_hex().to_string()
        });
    }

    fn remove_file(&self) {
        if let Some(file) = &self.file {
            // if this fails, the file is removed with the folder at the end of the run
            let _ = fs::remove_file(file);
        }
    }
}

/// The pages found so far.
#[derive(Default)]
pub struct FoundPages {
    pages: Vec<FoundPage>,
    by_text: HashMap<TextHash, usize>,
    /// The uris and aliases of all pages.
    addresses: HashSet<String>,
    /// Size of all files.
    pub bytes: u64,
}

impl FoundPages {
    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn has(&self, url: &Url) -> bool {
        self.addresses.contains(url.as_str())
    }

    /// Adds a page. Returns false if one with the same text was found before: both are one
    /// document.
    pub fn add(&mut self, mut page: FoundPage) -> bool {
        self.addresses.insert(page.uri.as_str().into());
        self.bytes += page.size;
        let text = page.version.text.clone();
        let Some(number) = text.as_ref().and_then(|text| self.by_text.get(text)) else {
            if let Some(text) = text {
                self.by_text.insert(text, self.pages.len());
            }
            self.pages.push(page);
            return true;
        };
        let held = &mut self.pages[*number];
        if page.rank() < held.rank() {
            std::mem::swap(held, &mut page);
        }
        held.aliases.append(&mut page.aliases);
        self.bytes -= page.size;
        page.remove_file();
        held.aliases.push(page.uri);
        false
    }

    /// Returns the pages with their aliases. Leaves out a page with the text of a stored document
    /// that this run keeps without having seen it: the page is an alias of it, or will be its
    /// successor once it is gone.
    pub fn finish(
        mut self,
        stored: &HashMap<String, PageVersion>,
        listing: &mut Listing,
    ) -> Vec<FoundPage> {
        let failed: HashSet<&str> = listing.failures.iter().map(|f| f.uri.as_str()).collect();
        let is_kept = |uri: &str| {
            !self.addresses.contains(uri) && (!listing.complete || failed.contains(uri))
        };
        let unseen: HashSet<&TextHash> = stored
            .iter()
            .filter(|(uri, _)| is_kept(uri))
            .filter_map(|(_, version)| version.text.as_ref())
            .collect();
        let before = self.pages.len();
        self.pages.retain(|page| {
            let stays = page.is_known
                || page
                    .version
                    .text
                    .as_ref()
                    .is_none_or(|text| !unseen.contains(text));
            if !stays {
                page.remove_file();
            }
            stays
        });
        let left_out = (before - self.pages.len()) as u64;
        listing
            .skipped
            .add_page(SkippedPage::OtherAddress, left_out);
        self.pages.iter_mut().for_each(FoundPage::settle);
        self.pages
    }
}
