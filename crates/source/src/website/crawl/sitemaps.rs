//! The sitemaps of a site, as the crawl reads them, and what they and feeds name.

use std::collections::{HashSet, VecDeque};

use rag_definition::source::Languages;
use rag_protocol::ingest::Failure;
use reqwest::StatusCode;
use url::Url;

use super::{Crawl, MAX_ADDRESSES};
use crate::{
    fetch_failure,
    fetcher::{self, FetchRequest},
    website::{
        address::normalized,
        language::{is_of, tag_of},
        list::{self, Limits, ListedPage, PageList},
        site::RobotsRules,
    },
};

pub(super) const LIMITS: Limits = Limits {
    bytes: 50 << 20,
    addresses: MAX_ADDRESSES,
};
const MAX_SITEMAPS: usize = 50;

impl Crawl<'_> {
    /// Queues the pages of the site's sitemaps.
    pub(super) fn read_sitemaps(&mut self, start: &Url) {
        let mut declared: VecDeque<Url> = match self.robots.get(&start.origin()) {
            Some(RobotsRules::Robot(robot)) => robot
                .sitemaps
                .iter()
                .filter_map(|text| start.join(text).ok())
                .collect(),
            _ => VecDeque::new(),
        };
        let is_guess = declared.is_empty();
        if is_guess {
            declared.extend(start.join("/sitemap.xml").ok());
        }
        let mut read = HashSet::new();
        while let Some(address) = declared.pop_front() {
            let is_new = self.seen.insert(address.as_str().into());
            if read.len() >= MAX_SITEMAPS || !self.has(&address) || !is_new {
                continue;
            }
            read.insert(address.clone());
            match self.read_list(&address) {
                Ok(list) => declared.extend(self.queue_listed(&address, list, 1)),
                // many servers return a page for any address
                Err(ListError::NoList(_)) if is_guess && read.len() == 1 => {}
                Err(error) => self.fail_list(error),
            }
        }
    }

    /// Queues the pages of a list, and returns the addresses of further ones.
    pub(super) fn queue_listed(&mut self, base: &Url, list: PageList, depth: u32) -> Vec<Url> {
        for page in list.pages {
            let Ok(url) = base.join(&page.address) else {
                continue;
            };
            let url = normalized(url);
            if let Languages::Only(wanted) = &self.website.spec.languages {
                let variants = page.variants.iter();
                let is_wanted = |tag: &str| {
                    tag_of(tag).is_some_and(|tag| wanted.iter().any(|it| is_of(&tag, it)))
                };
                let wanted = variants.filter(|(tag, _)| is_wanted(tag));
                let addresses: Vec<Url> = wanted
                    .filter_map(|(_, address)| base.join(address).ok())
                    .collect();
                addresses
                    .into_iter()
                    .for_each(|url| self.enqueue(url, depth));
            }
            self.enqueue(url.clone(), depth);
            self.note_listed(&url, page);
        }
        let lists = list.lists.iter();
        lists.filter_map(|list| base.join(list).ok()).collect()
    }

    /// Keeps what a list says of a page: the latest dates.
    fn note_listed(&mut self, url: &Url, page: ListedPage) {
        if page.modified.is_none() && page.published.is_none() || self.listed.len() >= MAX_ADDRESSES
        {
            return;
        }
        let known = self.listed.entry(url.as_str().into()).or_default();
        let latest = |date: &Option<list::Date>| date.as_ref().map(|date| date.latest);
        if latest(&page.modified) > latest(&known.modified) {
            known.modified = page.modified;
        }
        if latest(&page.published) > latest(&known.published) {
            known.published = page.published;
        }
    }

    pub(super) fn read_list(&mut self, address: &Url) -> Result<PageList, ListError> {
        let failure = |message: String| fetch_failure(address.as_str(), message, None);
        let resource = self
            .request(&FetchRequest {
                url: address,
                known: None,
                max_bytes: LIMITS.bytes,
                accepts: &|_| true,
            })
            .map_err(|problem| ListError::Failed(problem.failure(address.as_str())))?;
        match resource.status {
            StatusCode::OK => list::read(&resource.bytes, LIMITS)
                .map_err(|message| ListError::NoList(failure(message))),
            status if status.is_client_error() => Err(ListError::Gone),
            status => Err(ListError::Failed(failure(fetcher::answered(status)))),
        }
    }

    pub(super) fn fail_list(&mut self, error: ListError) {
        match error {
            ListError::NoList(failure) | ListError::Failed(failure) => {
                self.listing.failures.push(failure);
                self.listing.complete = false;
            }
            ListError::Gone => {}
        }
    }
}

/// Why a sitemap or a page of a feed could not be read.
pub(super) enum ListError {
    Gone,
    NoList(Failure),
    Failed(Failure),
}
