//! The pages that a crawl begins with. One of them may be a feed or a sitemap: then the pages that
//! it names are in its place.

use std::collections::{HashSet, VecDeque};

use rag_protocol::{EngineError, ErrorKind};
use reqwest::StatusCode;
use url::Url;

use super::{Crawl, DOCUMENTS, page};
use crate::{
    fetcher::{self, FetchError, Resource},
    http::{HttpError, MAX_REDIRECTS},
    item_failure,
    website::{
        address::normalized,
        list::{self, PageList},
        site::Site,
    },
};

/// Media types of feeds and sitemaps.
const LISTS: [&str; 9] = [
    "application/rss+xml",
    "application/atom+xml",
    "application/rdf+xml",
    "application/feed+json",
    "application/json",
    "application/xml",
    "text/xml",
    "application/gzip",
    "application/x-gzip",
];
/// Maximum number of further pages of a feed or sitemap.
const MAX_LISTS: usize = 50;

impl Crawl<'_> {
    /// Visits the first pages, and queues what their sitemaps name.
    pub(super) fn visit_first(&mut self) -> Result<(), EngineError> {
        let mut first_error = None;
        for start in &self.website.starts {
            match self.fetch_first(start) {
                Ok(first) => self.begin_with(first)?,
                Err(error) if self.website.starts.len() == 1 => return Err(error),
                Err(error) => {
                    // all pages that were found from it would be removed
                    self.listing.complete = false;
                    self.listing
                        .failures
                        .push(item_failure(start.as_str(), error.clone()));
                    first_error.get_or_insert(error);
                }
            }
        }
        if let (Some(error), true) = (first_error, self.sites.is_empty()) {
            return Err(error);
        }
        for (url, depth) in self.elsewhere.take().unwrap_or_default() {
            self.enqueue(url, depth);
        }
        Ok(())
    }

    /// Begins with a page, or with those that a feed or sitemap names.
    fn begin_with(&mut self, first: Resource) -> Result<(), EngineError> {
        let (url, spec) = (first.url.clone(), &self.website.spec);
        self.add_site(&url);
        if let Some(list) = list_of(&first) {
            self.queue_entries(&url, list);
            return Ok(());
        }
        let (depth, reads_sitemaps) = (spec.depth(), spec.sitemap);
        let page = page(&first);
        self.variants.begin_with(&page, &normalized(url.clone()));
        self.take(first, 0, 0)?;
        if reads_sitemaps && depth > 0 {
            self.read_sitemaps(&url);
        }
        Ok(())
    }

    fn add_site(&mut self, url: &Url) {
        if !self.has(url) {
            self.sites.push(Site::of(url, self.website.spec.same_site));
        }
    }

    /// Queues what a feed or sitemap names, with its further pages.
    fn queue_entries(&mut self, address: &Url, first: PageList) {
        self.has_feed |= first.is_feed;
        // feeds are often on another host than their pages
        if let Some(home) = first.home.as_ref().and_then(|home| address.join(home).ok())
            && matches!(home.scheme(), "http" | "https")
        {
            self.add_site(&home);
        }
        let depth = self.website.spec.depth_of_entries();
        let mut read = HashSet::from([address.clone()]);
        let mut further: VecDeque<Url> = self.queue_listed(address, first, depth).into();
        while let Some(next) = further.pop_front() {
            if read.len() > MAX_LISTS || !self.has(&next) || !read.insert(next.clone()) {
                continue;
            }
            match self.read_list(&next) {
                Ok(list) => further.extend(self.queue_listed(&next, list, depth)),
                Err(error) => self.fail_list(error),
            }
        }
    }

    /// Fetches a first page, or the one that it redirects to. The site is where that one is.
    fn fetch_first(&mut self, start: &Url) -> Result<Resource, EngineError> {
        let mut address = start.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.demand(&address)?;
            self.seen.insert(address.as_str().into());
            let first = self
                .get_first(&address)
                .map_err(|problem| problem.error(&address))?;
            let unusable = match first.status {
                StatusCode::OK if first.is_accepted && is_usable(&first) => None,
                // all pages that were found from it would be removed
                StatusCode::OK => Some(format!("its type is \"{}\"", first.essence())),
                status => Some(fetcher::answered(status)),
            };
            if let Some(reason) = unusable {
                let message = format!("could not fetch the first page, {address}: {reason}");
                return Err(EngineError::new(ErrorKind::SourceUnavailable, message));
            }
            self.demand(&first.url)?;
            match page(&first).refresh {
                None => return Ok(first),
                Some(target) => address = normalized(target),
            }
        }
        Err(FetchError::Http(HttpError::TooManyRedirects).error(start))
    }
}

/// Returns true for a media type that a first page may have.
pub(super) fn may_be_first(essence: &str) -> bool {
    DOCUMENTS.contains(&essence) || LISTS.contains(&essence)
}

/// Returns true for a page, and for a feed or sitemap.
fn is_usable(first: &Resource) -> bool {
    DOCUMENTS.contains(&first.essence().as_str()) || list_of(first).is_some()
}

/// Returns what a response names if it is a feed or a sitemap. Servers send feeds as pages, too.
fn list_of(first: &Resource) -> Option<PageList> {
    let is_likely = LISTS.contains(&first.essence().as_str()) || list::is_likely(&first.bytes);
    is_likely.then(|| list::read(&first.bytes, super::sitemaps::LIMITS).ok())?
}
