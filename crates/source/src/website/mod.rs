//! The pages of a website.
//!
//! ```text
//! list:   robots.txt ─▶ first pages ─▶ links, sitemap ─▶ queue ─▶ page ─▶ robots, type, refresh,
//!                       or feeds           or entries      ▲        │     noindex, canonical, text
//!                                                          └─ links ┘     ─▶ file on disk
//!                                                 breadth first, to `depth` and `maxPages`
//! fetch:  file on disk ─▶ bytes
//! ```
//!
//! The links of a page are known only after it has been fetched, so listing a site means crawling
//! it. Fetched pages are kept on disk: memory holds one page and the addresses of the others.
//!
//! * **uri**: the URL of the page after redirects, or of its `<link rel=canonical>` if that belongs
//!   to the site, without the fragment and without parameters that count visits ([`address`]). Each
//!   uri is one document, however it was reached.
//! * **redirects**: those of the server, and those that a page declares by a refresh ([`refresh`]).
//! * **equal text**: pages with the same text are one document with aliases ([`found`]).
//! * **robots**: the robots.txt of each host is obeyed for the agent `rag`, with its `Crawl-delay`
//!   up to 10 s. Without a robots.txt everything is allowed; if it is
//!   unavailable, nothing is. `noindex` and `nofollow` of pages and headers and `rel=nofollow` of
//!   links are obeyed too. Requests are sent one at a time, those to a host `delay` apart.
//! * **documents**: HTML, plain text, Markdown and PDF, by `Content-Type`. Bodies of other types
//!   are not read.
//! * **errors**: a page that is gone (404, 410) no longer belongs to the site. Other errors are
//!   failures of the page. If it could have had links, or a sitemap or robots.txt fails, the
//!   listing is incomplete: missing documents may still exist. A listing that `depth` or `maxPages`
//!   ends is complete.
//! * **unchanged pages**: pages that a sitemap says are unchanged are not requested. Pages whose
//!   links are not followed are requested with the validator of the stored version (304). Others
//!   are fetched, and compared by their bytes.
//! * **languages**: of the variants of a page, the one in the language of the first page.

mod address;
mod crawl;
mod found;
mod language;
mod list;
mod page;
mod refresh;
mod site;
mod text;

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use rag_definition::source::WebsiteSpec;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Job, KnownVersion},
};
use url::Url;

use self::{
    address::normalized,
    crawl::Crawl,
    found::{FoundPage, PageVersion},
};
use crate::{
    ALIAS_URIS, FetchOutcome, FetchedContent, Listing, ListingProgress, Locator, OpenReader,
    SourceItem, SourceReader, fetch_failure, fetcher::Validator, filter::Filter, http::HttpClient,
    static_files,
};

/// Maximum number of other addresses that a document notes. The others are counted only.
const MAX_ALIASES: usize = 20;

struct Website {
    client: HttpClient,
    /// The first pages, at least one.
    starts: Vec<Url>,
    spec: WebsiteSpec,
    filter: Filter,
    /// The stored versions, by uri.
    known: HashMap<String, PageVersion>,
    max_bytes: u64,
    /// Holds the pages until they are fetched.
    folder: PathBuf,
    /// Sorted by uri.
    pages: Vec<FoundPage>,
}

impl OpenReader for WebsiteSpec {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        Ok(Box::new(Website::open(self, job)?))
    }
}

impl Website {
    fn open(spec: &WebsiteSpec, job: &Job) -> Result<Self, EngineError> {
        let invalid = || EngineError::new(ErrorKind::InvalidRequest, "spec.url is not a URL");
        let starts = spec.urls.iter().map(|url| Url::parse(url).map(normalized));
        let starts = starts
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| invalid())?;
        let first = starts.first().ok_or_else(invalid)?;
        let client = HttpClient::new(
            &job.network,
            job.credentials
                .as_ref()
                .map(|credentials| (credentials, first)),
        )?;
        let known = job
            .known
            .iter()
            .map(|(uri, known)| {
                let version = PageVersion::parse(known.validator.as_deref());
                (uri.clone(), version)
            })
            .collect();
        let folder = job.work_dir.join("pages");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unwritable(&folder, &error));
            }
            _ => {}
        }
        fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
        Ok(Self {
            client,
            starts,
            spec: spec.clone(),
            filter: Filter::new(&spec.filter, WebsiteSpec::FILTER_KEYS)?,
            known,
            max_bytes: job.limits.max_file_bytes,
            folder,
            pages: vec![],
        })
    }
}

impl SourceReader for Website {
    fn list(&mut self) -> Result<Listing, EngineError> {
        self.list_with(&mut |_| {})
    }

    fn list_with(
        &mut self,
        progress: &mut dyn FnMut(ListingProgress<'_>),
    ) -> Result<Listing, EngineError> {
        self.pages.clear();
        let (mut listing, mut pages) = Crawl::new(self, progress).run()?;
        pages.sort_unstable_by(|a, b| a.uri.as_str().cmp(b.uri.as_str()));
        listing.items = pages.iter().enumerate().map(item).collect();
        self.pages = pages;
        listing.failures.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
        Ok(listing)
    }

    fn fetch(
        &mut self,
        item: &SourceItem,
        _known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure> {
        let page = match item.locator {
            Locator::Number(number) => self.pages.get_mut(number),
            _ => None,
        };
        let Some(page) = page else {
            return Err(fetch_failure(&item.uri, "not an item of this source", None));
        };
        let Some(file) = &page.file else {
            return Ok(FetchOutcome::Unchanged {
                validator: item.validator.clone(),
            });
        };
        let bytes = fs::read(file).map_err(|error| {
            fetch_failure(
                &item.uri,
                format!("could not read the crawled page: {error}"),
                None,
            )
        })?;
        // if this fails, the file is removed with the folder at the end of the run
        let _ = fs::remove_file(file);
        let mut metadata = std::mem::take(&mut page.metadata);
        if !page.aliases.is_empty() {
            let aliases = page.aliases.iter().take(MAX_ALIASES).map(Url::as_str);
            metadata.insert(ALIAS_URIS.into(), aliases.collect());
        }
        Ok(FetchOutcome::Content(FetchedContent {
            bytes,
            validator: page.version.text(),
            media_type: page.media_type.take(),
            metadata,
        }))
    }

    fn gives_media_types(&self) -> bool {
        true
    }

    fn fetches_when_listing(&self) -> bool {
        true
    }
}

/// Returns the item of a page with its number.
fn item((number, page): (usize, &FoundPage)) -> SourceItem {
    // the text alone is not all of a page
    let tells_versions = page.file.is_none() || page.version.response != Validator::default();
    SourceItem {
        uri: page.uri.as_str().into(),
        name: static_files::name(&page.uri),
        size: page.size,
        validator: page.version.text().filter(|_| tells_versions),
        locator: Locator::Number(number),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> EngineError {
    EngineError::new(
        ErrorKind::Io,
        format!("could not write \"{}\"", path.display()),
    )
    .detail(error.to_string())
}
