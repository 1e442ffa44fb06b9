//! The crawl of a site.

mod sitemaps;

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
    Website,
    address::normalized,
    found::{FoundPage, FoundPages, PageVersion},
    page::Page,
    site::{RobotsRules, Site, path},
    text::TextHash,
    unwritable,
};
use crate::{
    Listing, fetch_failure,
    fetcher::{self, FetchError, FetchRequest, Resource},
    http::{HttpError, HttpResponse, MAX_REDIRECTS},
};

/// A longer `Crawl-delay` of a robots.txt is reduced to this.
pub const MAX_CRAWL_DELAY: Duration = Duration::from_secs(10);
const MAX_ROBOTS_BYTES: u64 = 2 << 20;
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
    found: FoundPages,
    /// Number of files that were written.
    files: usize,
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
            found: FoundPages::default(),
            files: 0,
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

    /// Crawls the site. Returns its pages, unsorted, and the listing without items.
    pub fn run(mut self) -> Result<(Listing, Vec<FoundPage>), EngineError> {
        self.visit_all()?;
        let found = std::mem::take(&mut self.found);
        let mut pages = found.finish(&self.website.known, &mut self.listing);
        for page in &mut pages {
            self.renew(page)?;
        }
        Ok((self.listing, pages))
    }

    fn visit_all(&mut self) -> Result<(), EngineError> {
        let first = self.fetch_first()?;
        let found = first.url.clone();
        self.site = Some(Site::of(&found, self.website.spec.same_site));
        self.take(first, 0, 0)?;
        if self.website.spec.sitemap && self.website.spec.depth > 0 {
            self.read_sitemaps(&found);
        }
        // bounds the time spent on a site whose pages cannot be fetched
        let most_requests = 4 * u64::from(self.website.spec.max_pages) + 100;
        while let Some((url, depth)) = self.queue.pop_front() {
            if self.found.len() >= self.website.spec.max_pages as usize
                || self.requests >= most_requests
            {
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
            self.visit(&url, depth, 0)?;
        }
        Ok(())
    }

    /// Fetches the first page, or the one that it redirects to. The site is where that one is.
    fn fetch_first(&mut self) -> Result<Resource, EngineError> {
        let mut address = self.website.start.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.demand(&address)?;
            self.seen.insert(address.as_str().into());
            let first = self
                .get(&address, 0)
                .map_err(|problem| problem.error(&address))?;
            let unusable = match first.status {
                StatusCode::OK if first.is_accepted => None,
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
        Err(FetchError::Http(HttpError::TooManyRedirects).error(&self.website.start))
    }

    /// Returns an error if robots.txt does not allow a page to be fetched.
    fn demand(&mut self, url: &Url) -> Result<(), EngineError> {
        let origin = url.origin();
        if !self.robots.contains_key(&origin) {
            let rules = self
                .load_rules(url)
                .map_err(|problem| problem.error(&robots_url(url)))?;
            self.robots.insert(origin.clone(), rules);
        }
        let is_allowed = self
            .robots
            .get(&origin)
            .is_some_and(|rules| rules.allow(url));
        if is_allowed {
            Ok(())
        } else {
            Err(forbidden(url))
        }
    }

    /// Visits a page after a number of redirects that pages themselves declared.
    fn visit(&mut self, url: &Url, depth: u32, redirects: usize) -> Result<(), EngineError> {
        // it was reached through a redirect or a canonical link, or as another page's alias
        if self.found.has(url) {
            return Ok(());
        }
        if !self.allows(url) {
            self.listing.skipped.others += 1;
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
            .filter(|_| self.is_leaf(depth) && depth > 0)
            .and_then(PageVersion::conditions);
        let site = self.site.as_ref();
        let wants = |response: &HttpResponse| {
            let essence = fetcher::essence(response.header("content-type"));
            site.is_none_or(|site| site.has(&response.url)) && DOCUMENTS.contains(&essence.as_str())
        };
        let request = FetchRequest {
            url,
            known,
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
    fn take(
        &mut self,
        resource: Resource,
        depth: u32,
        redirects: usize,
    ) -> Result<(), EngineError> {
        let url = normalized(resource.url.clone());
        self.seen.insert(url.as_str().into());
        let is_second_way = self.found.has(&url);
        let belongs = self.site.as_ref().is_some_and(|site| site.has(&url)) && self.allows(&url);
        match resource.status {
            _ if is_second_way || !belongs => self.listing.skipped.others += 1,
            StatusCode::NOT_MODIFIED => {
                let stored = self.website.known.get(url.as_str());
                self.add(FoundPage {
                    uri: url.clone(),
                    is_known: true,
                    is_canonical: false,
                    file: None,
                    size: 0,
                    version: stored.cloned().unwrap_or_default(),
                    media_type: None,
                    metadata: Map::new(),
                    aliases: vec![],
                });
            }
            StatusCode::OK if resource.is_accepted => {
                let page = page(&resource);
                return match page.refresh {
                    Some(target) => self.redirect(&url, &normalized(target), depth, redirects),
                    None => self.take_page(resource, page, &url, depth),
                };
            }
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
        let belongs = self.site.as_ref().is_some_and(|site| site.has(target));
        if !belongs || self.found.has(target) {
            self.listing.skipped.others += 1;
            return Ok(());
        }
        self.visit(target, depth, redirects + 1)
    }

    fn take_page(
        &mut self,
        resource: Resource,
        page: Page,
        url: &Url,
        depth: u32,
    ) -> Result<(), EngineError> {
        if !self.is_leaf(depth) && !page.nofollow {
            for link in page.links {
                self.enqueue(link, depth + 1);
            }
        }
        let canonical = page.canonical.map(normalized).filter(|canonical| {
            self.site.as_ref().is_some_and(|site| site.has(canonical))
                && self.website.filter.selects(&path(canonical))
        });
        let (uri, is_canonical) = match canonical {
            Some(canonical) if self.allows(&canonical) => (canonical, true),
            _ => (url.clone(), false),
        };
        if page.noindex || !self.website.filter.selects(&path(&uri)) || self.found.has(&uri) {
            self.listing.skipped.others += 1;
            return Ok(());
        }
        self.seen.insert(uri.as_str().into());
        let mut found = FoundPage {
            is_known: self.website.known.contains_key(uri.as_str()),
            uri,
            is_canonical,
            file: None,
            size: 0,
            version: PageVersion::default(),
            media_type: None,
            metadata: Map::new(),
            aliases: vec![],
        };
        self.keep(resource, page.text, &mut found)?;
        self.add(found);
        Ok(())
    }

    /// Keeps the content of a page on disk.
    fn keep(
        &mut self,
        resource: Resource,
        text: Option<TextHash>,
        page: &mut FoundPage,
    ) -> Result<(), EngineError> {
        let file = self.website.folder.join(self.files.to_string());
        fs::write(&file, &resource.bytes).map_err(|error| unwritable(&file, &error))?;
        self.files += 1;
        page.file = Some(file);
        page.size = resource.bytes.len() as u64;
        page.version.response = resource.validator;
        page.version.text = text;
        page.media_type = resource.media_type;
        if let Some(time) = resource.last_modified {
            page.metadata.insert("last_modified".into(), time.into());
        }
        Ok(())
    }

    fn add(&mut self, page: FoundPage) {
        if !self.found.add(page) {
            self.listing.skipped.others += 1;
        }
    }

    /// Fetches a page that was not sent again, if it has got other aliases: its metadata has them.
    /// If this fails, the next run tries again.
    fn renew(&mut self, page: &mut FoundPage) -> Result<(), EngineError> {
        let stored = self.website.known.get(page.uri.as_str());
        if page.file.is_some() || stored.is_some_and(|version| *version == page.version) {
            return Ok(());
        }
        let fetched = self.get(&page.uri, 0).ok().filter(|resource| {
            resource.is_accepted && normalized(resource.url.clone()) == page.uri
        });
        match fetched {
            Some(resource) => {
                let text = self::page(&resource).text;
                self.keep(resource, text, page)
            }
            None => {
                page.version = stored.cloned().unwrap_or_default();
                Ok(())
            }
        }
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
