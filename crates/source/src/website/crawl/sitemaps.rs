//! The sitemaps of a site, as the crawl reads them.

use std::collections::{HashSet, VecDeque};

use rag_protocol::ingest::Failure;
use reqwest::StatusCode;
use url::Url;

use super::{Crawl, MAX_ADDRESSES};
use crate::{
    fetch_failure,
    fetcher::{self, FetchRequest},
    website::{
        site::RobotsRules,
        sitemap::{self, Sitemap},
    },
};

const MAX_SITEMAP_BYTES: u64 = 50 << 20;
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
            let belongs = self.site.as_ref().is_some_and(|site| site.has(&address));
            if read.len() >= MAX_SITEMAPS || !belongs || !read.insert(address.clone()) {
                continue;
            }
            match self.read_sitemap(&address) {
                Ok(sitemap) => {
                    let links = |texts: Vec<String>| {
                        texts
                            .into_iter()
                            .filter_map(|text| address.join(&text).ok())
                    };
                    declared.extend(links(sitemap.sitemaps));
                    links(sitemap.pages).for_each(|page| self.enqueue(page, 1));
                }
                // many servers return a page for any address
                Err(SitemapError::NoSitemap(_)) if is_guess && read.len() == 1 => {}
                Err(SitemapError::NoSitemap(failure) | SitemapError::Failed(failure)) => {
                    self.listing.failures.push(failure);
                    self.listing.complete = false;
                }
                Err(SitemapError::Gone) => {}
            }
        }
    }

    fn read_sitemap(&mut self, address: &Url) -> Result<Sitemap, SitemapError> {
        self.pause(address);
        let request = FetchRequest {
            url: address,
            known: None,
            max_bytes: MAX_SITEMAP_BYTES,
            accepts: &|_| true,
        };
        let failure = |message: String| fetch_failure(address.as_str(), message, None);
        let resource = fetcher::fetch(&self.website.client, &request)
            .map_err(|problem| SitemapError::Failed(problem.failure(address.as_str())))?;
        match resource.status {
            StatusCode::OK => sitemap::read(&resource.bytes, MAX_SITEMAP_BYTES, MAX_ADDRESSES)
                .map_err(|message| SitemapError::NoSitemap(failure(message))),
            status if status.is_client_error() => Err(SitemapError::Gone),
            status => Err(SitemapError::Failed(failure(fetcher::answered(status)))),
        }
    }
}

/// Why a sitemap could not be read.
enum SitemapError {
    Gone,
    NoSitemap(Failure),
    Failed(Failure),
}
