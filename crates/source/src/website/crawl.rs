//! The crawl of a site.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs, thread,
    time::Duration,
};

use rag_protocol::{EngineError, ErrorKind, ingest::Failure, skipped::SkippedFiles};
use reqwest::StatusCode;
use serde_json::Map;
use texting_robots::Robot;
use url::{Origin, Url};

use super::{
    CrawledPage, Website, normalized,
    page::Page,
    site::{RobotsRules, Site, path},
    sitemap, unwritable,
};
use crate::{
    FetchedContent, Listing, Locator, SourceItem, fetch_failure,
    fetcher::{self, FetchError, FetchRequest, Resource, Validator},
    http::HttpResponse,
    static_files,
};

/// A longer `Crawl-delay` of a robots.txt is reduced to this.
pub const MAX_CRAWL_DELAY: Duration = Duration::from_secs(10);
const MAX_ROBOTS_BYTES: u64 = 2 << 20;
const MAX_SITEMAP_BYTES: u64 = 50 << 20;
const MAX_SITEMAPS: usize = 50;
/// Maximum number of addresses that a crawl remembers.
const MAX_ADDRESSES: usize = 500_000;
/// Maximum size of all pages that a crawl keeps on disk.
const MAX_BYTES: u64 = 4 << 30;
/// The name of this crawler in robots.txt.
const AGENT: &str = "rag";
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
    /// Known after the first page has been fetched.
    site: Option<Site>,
    robots: HashMap<Origin, RobotsRules>,
    queue: VecDeque<(Url, u32)>,
    /// Addresses that are or were in the queue, and those of pages after redirects.
    seen: HashSet<String>,
    /// The uris of the documents.
    uris: HashSet<String>,
    pages: Vec<CrawledPage>,
    bytes: u64,
    requests: u64,
    listing: Listing,
}

impl<'a> Crawl<'a> {
    pub fn new(website: &'a Website) -> Self {
        Self {
            website,
            site: None,
            robots: HashMap::new(),
            queue: VecDeque::new(),
            seen: HashSet::new(),
            uris: HashSet::new(),
            pages: vec![],
            bytes: 0,
            requests: 0,
            listing: Listing {
                items: vec![],
                failures: vec![],
                complete: true,
                skipped: SkippedFiles::default(),
                commit: None,
            },
        }
    }

    /// Crawls the site. Returns its pages, unsorted, with their contents.
    pub fn run(mut self) -> Result<(Listing, Vec<CrawledPage>), EngineError> {
        self.visit_all()?;
        Ok((self.listing, self.pages))
    }

    fn visit_all(&mut self) -> Result<(), EngineError> {
        let start = self.website.start.clone();
        let rules = self
            .load_rules(&start)
            .map_err(|problem| problem.error(&robots_url(&start)))?;
        if !rules.allow(&start) {
            return Err(forbidden(&start));
        }
        self.robots.insert(start.origin(), rules);
        self.seen.insert(start.as_str().into());
        let first = self
            .get(&start, 0)
            .map_err(|problem| problem.error(&start))?;
        let unusable = match first.status {
            StatusCode::OK if first.is_accepted => None,
            // all pages that were found from it would be removed
            StatusCode::OK => Some(format!("its type is \"{}\"", first.essence())),
            status => Some(fetcher::answered(status)),
        };
        if let Some(reason) = unusable {
            let message = format!("could not fetch the first page, {start}: {reason}");
            return Err(EngineError::new(ErrorKind::SourceUnavailable, message));
        }
        let site = Site::of(&first.url, self.website.spec.same_site);
        let (found, is_new) = (
            first.url.clone(),
            !self.robots.contains_key(&first.url.origin()),
        );
        if is_new {
            let rules = self
                .load_rules(&found)
                .map_err(|problem| problem.error(&robots_url(&found)))?;
            self.robots.insert(found.origin(), rules);
        }
        if !self
            .robots
            .get(&found.origin())
            .is_some_and(|rules| rules.allow(&found))
        {
            return Err(forbidden(&found));
        }
        self.site = Some(site);
        self.take(first, 0)?;
        if self.website.spec.sitemap && self.website.spec.depth > 0 {
            self.read_sitemaps(&found);
        }
        // bounds the time spent on a site whose pages cannot be fetched
        let most_requests = 4 * u64::from(self.website.spec.max_pages) + 100;
        while let Some((url, depth)) = self.queue.pop_front() {
            if self.listing.items.len() >= self.website.spec.max_pages as usize
                || self.requests >= most_requests
            {
                break;
            }
            if self.bytes >= MAX_BYTES {
                let message = format!("the pages before it exceed the limit of {MAX_BYTES} bytes");
                self.listing.failures.push(fetch_failure(
                    url.as_str(),
                    message,
                    Some("Lower \"maxPages\"."),
                ));
                self.listing.complete = false;
                break;
            }
            self.visit(&url, depth)?;
        }
        Ok(())
    }

    fn visit(&mut self, url: &Url, depth: u32) -> Result<(), EngineError> {
        // it was reached through a redirect or a canonical link
        if self.uris.contains(url.as_str()) {
            return Ok(());
        }
        if !self.allows(url) {
            self.listing.skipped.others += 1;
            return Ok(());
        }
        match self.get(url, depth) {
            Ok(resource) => self.take(resource, depth),
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

    /// Returns true if links of a page at this depth are not followed.
    fn is_leaf(&self, depth: u32) -> bool {
        depth >= self.website.spec.depth
    }

    /// Returns true if robots.txt allows a page to be fetched.
    fn allows(&mut self, url: &Url) -> bool {
        let origin = url.origin();
        if !self.robots.contains_key(&origin) {
            let rules = self.load_rules(url).unwrap_or_else(|problem| {
                self.listing
                    .failures
                    .push(problem.failure(robots_url(url).as_str()));
                self.listing.complete = false;
                RobotsRules::Unreachable
            });
            self.robots.insert(origin.clone(), rules);
        }
        self.robots
            .get(&origin)
            .is_some_and(|rules| rules.allow(url))
    }

    fn load_rules(&mut self, url: &Url) -> Result<RobotsRules, FetchError> {
        let address = robots_url(url);
        self.pause(url);
        let request = FetchRequest {
            url: &address,
            known: None,
            max_bytes: MAX_ROBOTS_BYTES,
            accepts: &|_| true,
        };
        let resource = fetcher::fetch(&self.website.client, &request)?;
        Ok(match resource.status {
            // a malformed robots.txt is ignored
            StatusCode::OK => Robot::new(AGENT, &resource.bytes)
                .map_or(RobotsRules::None, |robot| {
                    RobotsRules::Robot(Box::new(robot))
                }),
            _ => RobotsRules::None,
        })
    }

    /// Sleeps between two requests.
    fn pause(&mut self, url: &Url) {
        let asked = match self.robots.get(&url.origin()) {
            Some(RobotsRules::Robot(robot)) => robot
                .delay
                .filter(|delay| delay.is_finite() && *delay > 0.0),
            _ => None,
        };
        let asked = asked.map_or(Duration::ZERO, |delay| {
            Duration::from_secs_f32(delay.min(MAX_CRAWL_DELAY.as_secs_f32()))
        });
        if self.requests > 0 {
            thread::sleep(asked.max(Duration::from_millis(self.website.spec.delay_ms)));
        }
        self.requests += 1;
    }

    fn get(&mut self, url: &Url, depth: u32) -> Result<Resource, FetchError> {
        if self.website.client.rate_limited_for(url).is_none() {
            self.pause(url);
        }
        let known = self
            .website
            .known
            .get(url.as_str())
            .filter(|_| self.is_leaf(depth) && depth > 0);
        let known = known.and_then(|validator| Validator::parse(validator));
        let site = self.site.as_ref();
        let wants = |response: &HttpResponse| {
            let essence = fetcher::essence(response.header("content-type"));
            site.is_none_or(|site| site.has(&response.url)) && DOCUMENTS.contains(&essence.as_str())
        };
        let request = FetchRequest {
            url,
            known: known.as_ref(),
            max_bytes: self.website.max_bytes,
            accepts: &wants,
        };
        let mut resource = fetcher::fetch(&self.website.client, &request)?;
        if resource.status == StatusCode::NOT_MODIFIED && known.is_none() {
            // the request had no conditions
            resource.status = StatusCode::BAD_GATEWAY;
        }
        Ok(resource)
    }

    /// Handles a response: as a document, for its links, or not at all.
    fn take(&mut self, resource: Resource, depth: u32) -> Result<(), EngineError> {
        let url = normalized(resource.url.clone());
        self.seen.insert(url.as_str().into());
        let is_second_way = self.uris.contains(url.as_str());
        let belongs = self.site.as_ref().is_some_and(|site| site.has(&url)) && self.allows(&url);
        match resource.status {
            _ if is_second_way || !belongs => self.listing.skipped.others += 1,
            StatusCode::NOT_MODIFIED => {
                let validator = self.website.known.get(url.as_str()).cloned();
                self.add(
                    &url,
                    CrawledPage {
                        file: None,
                        content: FetchedContent {
                            validator,
                            ..FetchedContent::default()
                        },
                    },
                    0,
                );
            }
            StatusCode::OK if resource.is_accepted => return self.take_page(resource, &url, depth),
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND | StatusCode::GONE => {
                self.listing.skipped.others += 1;
            }
            status => self.fail(
                fetch_failure(url.as_str(), fetcher::answered(status), None),
                depth,
            ),
        }
        Ok(())
    }

    fn take_page(&mut self, resource: Resource, url: &Url, depth: u32) -> Result<(), EngineError> {
        let is_html = matches!(
            resource.essence().as_str(),
            "text/html" | "application/xhtml+xml"
        );
        let page = if is_html {
            Page::read(&resource.bytes, url, &resource.robots)
        } else {
            Page::of_headers(&resource.robots)
        };
        if !self.is_leaf(depth) && !page.nofollow {
            for link in page.links {
                self.enqueue(link, depth + 1);
            }
        }
        let canonical = page.canonical.map(normalized).filter(|canonical| {
            self.site.as_ref().is_some_and(|site| site.has(canonical))
                && self.website.filter.selects(&path(canonical))
        });
        let uri = match canonical {
            Some(canonical) if self.allows(&canonical) => canonical,
            _ => url.clone(),
        };
        if page.noindex
            || !self.website.filter.selects(&path(&uri))
            || self.uris.contains(uri.as_str())
        {
            self.listing.skipped.others += 1;
            return Ok(());
        }
        self.seen.insert(uri.as_str().into());
        let file = self.website.folder.join(self.pages.len().to_string());
        fs::write(&file, &resource.bytes).map_err(|error| unwritable(&file, &error))?;
        let mut metadata = Map::new();
        if let Some(time) = resource.last_modified {
            metadata.insert("last_modified".into(), time.into());
        }
        let size = resource.bytes.len() as u64;
        let (validator, media_type) = (resource.validator.text(), resource.media_type);
        self.add(
            &uri,
            CrawledPage {
                file: Some(file),
                content: FetchedContent {
                    bytes: vec![],
                    validator,
                    media_type,
                    metadata,
                },
            },
            size,
        );
        Ok(())
    }

    fn add(&mut self, uri: &Url, page: CrawledPage, size: u64) {
        self.uris.insert(uri.as_str().into());
        self.bytes += size;
        self.listing.items.push(SourceItem {
            uri: uri.as_str().into(),
            name: static_files::name(uri),
            size,
            validator: page.content.validator.clone(),
            locator: Locator::Number(self.pages.len()),
        });
        self.pages.push(page);
    }

    fn enqueue(&mut self, url: Url, depth: u32) {
        let url = normalized(url);
        if self.site.as_ref().is_some_and(|site| site.has(&url))
            && self.website.filter.selects(&path(&url))
            && self.seen.len() < MAX_ADDRESSES
            && self.seen.insert(url.as_str().into())
        {
            self.queue.push_back((url, depth));
        }
    }

    /// Queues the pages of the site's sitemaps.
    fn read_sitemaps(&mut self, start: &Url) {
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

    fn read_sitemap(&mut self, address: &Url) -> Result<sitemap::Sitemap, SitemapError> {
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

fn robots_url(url: &Url) -> Url {
    let mut robots = url.clone();
    robots.set_path("/robots.txt");
    robots.set_query(None);
    robots
}

fn forbidden(url: &Url) -> EngineError {
    EngineError::new(
        ErrorKind::SourceUnavailable,
        format!("robots.txt does not allow fetching {url}"),
    )
    .hint(format!(
        "The owner of the site can allow it for the user agent \"{AGENT}\"."
    ))
}
