//! The crawl of a site.
//!
//! | file | what it has |
//! |---|---|
//! | [`first`] | the pages that a crawl begins with, and what a feed names |
//! | [`requests`] | robots.txt, pauses, requests |
//! | [`sitemaps`] | the sitemaps of the site |
//! | [`unchanged`] | pages that are not fetched, because the sitemap says that they are the same |
//! | [`documents`] | pages that become documents |
//! | [`variants`] | pages in several languages |

mod documents;
mod first;
mod requests;
mod sitemaps;
mod unchanged;
mod variants;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Instant,
};

use rag_protocol::{
    EngineError,
    ingest::Failure,
    skipped::{SkippedFiles, SkippedPage},
};
use reqwest::StatusCode;
use url::{Origin, Url};

use self::{unchanged::LastChanges, variants::Variants};
use super::{
    Website,
    address::normalized,
    found::{FoundPage, FoundPages},
    list::ListedPage,
    page::Page,
    site::{RobotsRules, Site, path},
    text::TextHash,
};
use crate::{
    Listing, ListingProgress, fetch_failure,
    fetcher::{self, FetchError, Resource},
    http::{HttpError, MAX_REDIRECTS},
};

/// Maximum number of addresses that a crawl remembers.
const MAX_ADDRESSES: usize = 500_000;
/// Maximum size of all pages that a crawl keeps on disk.
const MAX_BYTES: u64 = 4 << 30;
const DOCUMENTS: [&str; 6] = [
    "text/html",
    "application/xhtml+xml",
    "text/plain",
    "text/markdown",
    "text/x-markdown",
    "application/pdf",
];

pub struct Crawl<'a> {
    website: &'a Website,
    progress: &'a mut dyn FnMut(ListingProgress<'_>),
    /// Known after the first pages have been fetched.
    sites: Vec<Site>,
    robots: HashMap<Origin, RobotsRules>,
    queue: VecDeque<(Url, u32)>,
    /// Addresses that are or were in the queue, and those of pages after redirects.
    seen: HashSet<String>,
    /// Links to other hosts, until all first pages are known.
    elsewhere: Option<Vec<(Url, u32)>>,
    /// What sitemaps and feeds say of pages.
    listed: HashMap<String, ListedPage>,
    variants: Variants,
    changes: LastChanges,
    found: FoundPages,
    /// A feed names pages for some time only, so stored ones are looked for.
    has_feed: bool,
    /// Number of files that were written.
    files: usize,
    requests: u64,
    /// When each host has answered last.
    answered: HashMap<Origin, Instant>,
    listing: Listing,
}

impl<'a> Crawl<'a> {
    pub fn new(website: &'a Website, progress: &'a mut dyn FnMut(ListingProgress<'_>)) -> Self {
        Self {
            website,
            progress,
            sites: vec![],
            robots: HashMap::new(),
            queue: VecDeque::new(),
            seen: HashSet::new(),
            elsewhere: Some(vec![]),
            listed: HashMap::new(),
            variants: Variants::default(),
            changes: LastChanges::now(),
            found: FoundPages::default(),
            has_feed: false,
            files: 0,
            requests: 0,
            answered: HashMap::new(),
            listing: Listing {
                items: vec![],
                failures: vec![],
                complete: true,
                skipped: SkippedFiles::default(),
                commit: None,
            },
        }
    }

    /// Crawls the site. Returns its pages, unsorted, and the listing without items.
    pub fn run(mut self) -> Result<(Listing, Vec<FoundPage>), EngineError> {
        self.visit_first()?;
        self.changes.judge(&self.listed, &self.website.known);
        self.visit_queue()?;
        if self.has_feed || self.changes.has_unread_links {
            self.queue_stored();
            self.visit_queue()?;
        }
        self.skip_pages(SkippedPage::Unvisited, self.queue.len() as u64);
        let found = std::mem::take(&mut self.found);
        let mut pages = found.finish(&self.website.known, &mut self.listing);
        for page in &mut pages {
            self.renew(page)?;
        }
        Ok((self.listing, pages))
    }

    fn visit_queue(&mut self) -> Result<(), EngineError> {
        // bounds the time spent on a site whose pages cannot be fetched
        let most_requests = 4 * u64::from(self.website.spec.max_pages) + 100;
        while let Some((url, depth)) = self.queue.pop_front() {
            let is_full = self.found.len() >= self.website.spec.max_pages as usize;
            if is_full || self.requests >= most_requests {
                self.queue.push_front((url, depth));
                break;
            }
            if self.found.bytes >= MAX_BYTES {
                let message = format!("the pages before it exceed the limit of {MAX_BYTES} bytes");
                self.listing.failures.push(fetch_failure(
                    url.as_str(),
                    message,
                    Some("Lower \"maxPages\"."),
                ));
                self.listing.complete = false;
                break;
            }
            (self.progress)(ListingProgress {
                found: self.found.len() as u64,
                waiting: self.queue.len() as u64,
                skipped: self.listing.skipped.total(),
                uri: url.as_str(),
            });
            self.visit(&url, depth, 0)?;
        }
        Ok(())
    }

    /// Queues the stored documents that nothing has led to, the latest entries of feeds first.
    fn queue_stored(&mut self) {
        let mut stored: Vec<_> = self
            .website
            .known
            .iter()
            .filter_map(|(uri, version)| Some((version, Url::parse(uri).ok()?)))
            .collect();
        stored.sort_unstable_by(|(a, a_url), (b, b_url)| {
            b.entry.cmp(&a.entry).then_with(|| a_url.cmp(b_url))
        });
        let leaf = self.website.spec.depth();
        for (version, url) in stored {
            self.enqueue(url, version.depth.unwrap_or(leaf).min(leaf));
        }
    }

    /// Visits a page after a number of redirects that pages themselves declared.
    fn visit(&mut self, url: &Url, depth: u32, redirects: usize) -> Result<(), EngineError> {
        // it was reached through a redirect or a canonical link, or as another page's alias
        if self.found.has(url) {
            return Ok(());
        }
        if self.variants.is_unwanted(url) {
            self.skip_page(SkippedPage::OtherLanguage);
            return Ok(());
        }
        if !self.allows(url) {
            self.skip_page(SkippedPage::Forbidden);
            return Ok(());
        }
        if self.is_unchanged(url, depth) {
            self.keep_stored(url.clone(), depth);
            return Ok(());
        }
        match self.get(url, depth) {
            Ok(resource) => self.take(resource, depth, redirects),
            Err(problem) => {
                self.fail(problem.failure(url.as_str()), depth);
                Ok(())
            }
        }
    }

    fn fail(&mut self, failure: Failure, depth: u32) {
        self.listing.failures.push(failure);
        self.listing.complete &= self.is_leaf(depth);
    }

    fn skip_page(&mut self, why: SkippedPage) {
        self.skip_pages(why, 1);
    }

    fn skip_pages(&mut self, why: SkippedPage, number: u64) {
        self.listing.skipped.add_page(why, number);
    }

    /// Returns true if links of a page at this depth are not followed.
    fn is_leaf(&self, depth: u32) -> bool {
        depth >= self.website.spec.depth()
    }

    /// Returns true if an address belongs to the site.
    fn has(&self, url: &Url) -> bool {
        self.sites.iter().any(|site| site.has(url))
    }

    /// Handles a response: as a document, for its links, or not at all.
    fn take(
        &mut self,
        resource: Resource,
        depth: u32,
        redirects: usize,
    ) -> Result<(), EngineError> {
        let url = normalized(resource.url.clone());
        self.seen.insert(url.as_str().into());
        let has_other_address = self.found.has(&url);
        match resource.status {
            _ if has_other_address => self.skip_page(SkippedPage::OtherAddress),
            _ if !self.has(&url) => self.skip_page(SkippedPage::OtherSite),
            _ if !self.allows(&url) => self.skip_page(SkippedPage::Forbidden),
            StatusCode::NOT_MODIFIED => self.confirm_stored(url, depth),
            StatusCode::OK if resource.is_accepted => {
                let page = page(&resource);
                return match page.refresh {
                    Some(target) => self.redirect(&url, &normalized(target), depth, redirects),
                    None => self.take_page(resource, page, &url, depth, redirects),
                };
            }
            StatusCode::OK => self.skip_page(SkippedPage::OtherType),
            StatusCode::NO_CONTENT | StatusCode::NOT_FOUND | StatusCode::GONE => {
                self.skip_page(SkippedPage::Missing);
            }
            status => self.fail(
                fetch_failure(url.as_str(), fetcher::answered(status), None),
                depth,
            ),
        }
        Ok(())
    }

    /// Goes where a page sends its readers.
    fn redirect(
        &mut self,
        from: &Url,
        target: &Url,
        depth: u32,
        redirects: usize,
    ) -> Result<(), EngineError> {
        if redirects == MAX_REDIRECTS {
            let problem = FetchError::Http(HttpError::TooManyRedirects);
            self.fail(problem.failure(from.as_str()), depth);
            return Ok(());
        }
        if !self.has(target) {
            self.skip_page(SkippedPage::OtherSite);
        } else if self.found.has(target) {
            self.skip_page(SkippedPage::OtherAddress);
        } else {
            return self.visit(target, depth, redirects + 1);
        }
        Ok(())
    }

    fn enqueue(&mut self, url: Url, depth: u32) {
        let url = normalized(url);
        if !self.has(&url) {
            let waiting = self.elsewhere.iter_mut();
            for links in waiting.filter(|links| links.len() < MAX_ADDRESSES) {
                links.push((url.clone(), depth));
            }
            return;
        }
        if self.website.filter.selects(&path(&url))
            && self.seen.len() < MAX_ADDRESSES
            && self.seen.insert(url.as_str().into())
        {
            self.queue.push_back((url, depth));
        }
    }
}

/// Reads what a page tells crawlers.
fn page(resource: &Resource) -> Page {
    let media_type = resource.essence();
    if matches!(media_type.as_str(), "text/html" | "application/xhtml+xml") {
        return Page::read(&resource.bytes, &resource.url, &resource.robots);
    }
    let mut page = Page::of_headers(&resource.robots);
    page.text = Some(TextHash::of_file(&media_type, &resource.bytes));
    page
}
