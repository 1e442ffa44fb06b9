//! The pages of a website.
//!
//! ```text
//! list:   robots.txt ─▶ start page ─▶ links, sitemap ─▶ queue ─▶ page ─▶ robots, type, noindex, canonical ─▶ file in work_dir
//!                                                        ▲        │
//!                                                        └─ links ┘   breadth first, to `depth` and `maxPages`
//! fetch:  file in work_dir ─▶ bytes
//! ```
//!
//! A page's links are only known once it has been fetched, so listing a site is crawling it. What
//! is fetched waits on disk: the memory needed is that of one page and the addresses of the others.
//!
//! * **uri**: where a page was found after redirects, or the address of its `<link rel=canonical>`
//!   if that belongs to the site; without what is after `#`. Each uri is one document, whichever
//!   way it was reached.
//! * **manners**: robots.txt of each host is obeyed for the agent `rag` (none: everything is
//!   allowed; unreachable: nothing is), with its `Crawl-delay` up to [`MAX_CRAWL_DELAY`]; so are
//!   `noindex` and `nofollow` of pages and headers, and `rel=nofollow` of links. One request at a
//!   time, `delay` apart.
//! * **documents**: HTML, plain text, Markdown and PDF, by `Content-Type`. Everything else is
//!   skipped unread.
//! * **trouble**: a page that is gone (404, 410) is no longer a part of the site. One that fails
//!   otherwise is a failure; if it could have had links, or a sitemap or robots.txt fails, the
//!   listing is not complete, and documents that it does not have are not known to be gone. A
//!   listing that `depth` or `maxPages` ends is complete.
//! * **unchanged**: pages that no link is followed from are asked for with the conditions of the
//!   stored version (304). Others are fetched, and compared by their bytes.

mod page;
mod sitemap;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use percent_encoding::percent_decode_str;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Job, Known},
    spec::{PathFilter, SameSite, WebsiteSpec},
};
use reqwest::StatusCode;
use serde_json::Map;
use texting_robots::Robot;
use url::{Origin, Url};

use self::page::Page;
use crate::{
    Content, Fetched, Item, Listing, Locator, Source, fetch_failure,
    fetcher::{self, Problem, Resource, Validator, Wish},
    filter::Filter,
    http::{Client, Response},
    static_files,
};

/// Longest `Crawl-delay` of a robots.txt that is obeyed; a longer one is cut.
const MAX_CRAWL_DELAY: Duration = Duration::from_secs(10);
/// Most bytes of a robots.txt, and of a sitemap.
const MAX_ROBOTS_BYTES: u64 = 2 << 20;
const MAX_SITEMAP_BYTES: u64 = 50 << 20;
/// Most sitemaps of a site.
const MAX_SITEMAPS: usize = 50;
/// Most addresses that are remembered.
const MAX_ADDRESSES: usize = 500_000;
/// Most bytes that a crawl keeps on disk.
const MAX_BYTES: u64 = 4 << 30;
/// What robots.txt calls us.
const AGENT: &str = "rag";
const DOCUMENTS: [&str; 6] = [
    "text/html",
    "application/xhtml+xml",
    "text/plain",
    "text/markdown",
    "text/x-markdown",
    "application/pdf",
];

pub struct Website {
    client: Client,
    start: Url,
    spec: WebsiteSpec,
    filter: Filter,
    /// By uri, the versions that are stored.
    known: HashMap<String, String>,
    most: u64,
    /// Where pages wait.
    folder: PathBuf,
    pages: Vec<Waiting>,
}

/// A page that waits to be fetched.
struct Waiting {
    /// `None` where the stored version is the present one.
    file: Option<PathBuf>,
    content: Content,
}

impl Website {
    pub fn open(spec: &WebsiteSpec, job: &Job) -> Result<Self, EngineError> {
        let start = Url::parse(&spec.url)
            .map_err(|_| EngineError::new(ErrorKind::InvalidRequest, "spec.url is not a URL"))?;
        let start = normalized(start);
        let client = Client::new(
            &job.network,
            job.credentials
                .as_ref()
                .map(|credentials| (credentials, &start)),
        )?;
        let known = job
            .known
            .iter()
            .filter_map(|(uri, known)| Some((uri.clone(), known.validator.clone()?)))
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
            start,
            spec: spec.clone(),
            filter: filter(&spec.filter)?,
            known,
            most: job.limits.max_file_bytes,
            folder,
            pages: vec![],
        })
    }
}

impl Source for Website {
    fn list(&mut self) -> Result<Listing, EngineError> {
        self.pages.clear();
        let mut crawl = Crawl {
            website: self,
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
                skipped: 0,
                commit: None,
            },
        };
        crawl.run()?;
        let (mut listing, pages) = (crawl.listing, crawl.pages);
        self.pages = pages;
        listing.items.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
        listing.failures.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
        Ok(listing)
    }

    fn fetch(&mut self, item: &Item, _known: Option<&Known>) -> Result<Fetched, Failure> {
        let waiting = match item.locator {
            Locator::Page(number) => self.pages.get_mut(number),
            _ => None,
        };
        let Some(waiting) = waiting else {
            return Err(fetch_failure(&item.uri, "not an item of this source", None));
        };
        let Some(file) = &waiting.file else {
            return Ok(Fetched::Unchanged {
                validator: item.validator.clone(),
            });
        };
        let bytes = fs::read(file).map_err(|error| {
            fetch_failure(
                &item.uri,
                format!("the fetched page cannot be read: {error}"),
                None,
            )
        })?;
        // the folder goes with the run if this fails
        let _ = fs::remove_file(file);
        Ok(Fetched::Content(Content {
            bytes,
            ..std::mem::take(&mut waiting.content)
        }))
    }

    fn gives_media_types(&self) -> bool {
        true
    }

    fn fetches_when_listing(&self) -> bool {
        true
    }
}

/// Which addresses belong to the site.
struct Site {
    host: String,
    /// Only for hosts that are not named by the default ports.
    port: Option<u16>,
    below: bool,
}

impl Site {
    fn of(url: &Url, same_site: SameSite) -> Self {
        let host = url.host_str().unwrap_or_default();
        let below = same_site == SameSite::Domain && url.domain().is_some();
        let host = if below {
            host.strip_prefix("www.").unwrap_or(host)
        } else {
            host
        };
        Self {
            host: host.into(),
            port: url.port(),
            below,
        }
    }

    fn has(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let is_below = || {
            host.strip_suffix(self.host.as_str())
                .is_some_and(|rest| rest.ends_with('.'))
        };
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.port() == self.port
            && (host == self.host || (self.below && is_below()))
    }
}

/// What the robots.txt of a host says.
enum Rules {
    None,
    Robot(Box<Robot>),
    Unreachable,
}

impl Rules {
    fn allow(&self, url: &Url) -> bool {
        match self {
            Self::None => true,
            Self::Robot(robot) => robot.allowed(url.as_str()),
            Self::Unreachable => false,
        }
    }
}

struct Crawl<'a> {
    website: &'a Website,
    /// Known once the first page has been found.
    site: Option<Site>,
    robots: HashMap<Origin, Rules>,
    queue: VecDeque<(Url, u32)>,
    /// Addresses that are or were in the queue, or that a page was found at.
    seen: HashSet<String>,
    /// Of the documents.
    uris: HashSet<String>,
    pages: Vec<Waiting>,
    bytes: u64,
    requests: u64,
    listing: Listing,
}

impl Crawl<'_> {
    fn run(&mut self) -> Result<(), EngineError> {
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
            StatusCode::OK if first.wanted => None,
            // everything would be gone that was found from it
            StatusCode::OK => Some(format!("it is of the type \"{}\"", first.essence())),
            status => Some(fetcher::answered(status)),
        };
        if let Some(reason) = unusable {
            let message = format!("the first page, {start}, cannot be had: {reason}");
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
        // a site of dead ends is left after a while
        let most_requests = 4 * u64::from(self.website.spec.max_pages) + 100;
        while let Some((url, depth)) = self.queue.pop_front() {
            if self.listing.items.len() >= self.website.spec.max_pages as usize
                || self.requests >= most_requests
            {
                break;
            }
            if self.bytes >= MAX_BYTES {
                let message =
                    format!("the pages before it have more than the limit of {MAX_BYTES} bytes");
                self.listing.failures.push(fetch_failure(
                    url.as_str(),
                    message,
                    Some("Crawl less with \"maxPages\"."),
                ));
                self.listing.complete = false;
                break;
            }
            self.visit(&url, depth)?;
        }
        Ok(())
    }

    fn visit(&mut self, url: &Url, depth: u32) -> Result<(), EngineError> {
        // a redirect or another page's canonical link has led there already
        if self.uris.contains(url.as_str()) {
            return Ok(());
        }
        if !self.allows(url) {
            self.listing.skipped += 1;
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

    /// Whether links of a page so far from the first one are not followed.
    fn is_leaf(&self, depth: u32) -> bool {
        depth >= self.website.spec.depth
    }

    /// Whether robots.txt lets a page be fetched.
    fn allows(&mut self, url: &Url) -> bool {
        let origin = url.origin();
        if !self.robots.contains_key(&origin) {
            let rules = self.load_rules(url).unwrap_or_else(|problem| {
                self.listing
                    .failures
                    .push(problem.failure(robots_url(url).as_str()));
                self.listing.complete = false;
                Rules::Unreachable
            });
            self.robots.insert(origin.clone(), rules);
        }
        self.robots
            .get(&origin)
            .is_some_and(|rules| rules.allow(url))
    }

    fn load_rules(&mut self, url: &Url) -> Result<Rules, Problem> {
        let address = robots_url(url);
        self.pause(url);
        let wish = Wish {
            url: &address,
            known: None,
            most: MAX_ROBOTS_BYTES,
            wants: &|_| true,
        };
        let resource = fetcher::get(&self.website.client, &wish)?;
        Ok(match resource.status {
            // one that cannot be understood says nothing
            StatusCode::OK => Robot::new(AGENT, &resource.bytes)
                .map_or(Rules::None, |robot| Rules::Robot(Box::new(robot))),
            _ => Rules::None,
        })
    }

    /// Leaves the server in peace for a moment.
    fn pause(&mut self, url: &Url) {
        let asked = match self.robots.get(&url.origin()) {
            Some(Rules::Robot(robot)) => robot
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

    fn get(&mut self, url: &Url, depth: u32) -> Result<Resource, Problem> {
        if self.website.client.is_left_alone(url).is_none() {
            self.pause(url);
        }
        let known = self
            .website
            .known
            .get(url.as_str())
            .filter(|_| self.is_leaf(depth) && depth > 0);
        let known = known.and_then(|validator| Validator::parse(validator));
        let site = self.site.as_ref();
        let wants = |response: &Response| {
            let essence = fetcher::essence(response.header("content-type"));
            site.is_none_or(|site| site.has(&response.url)) && DOCUMENTS.contains(&essence.as_str())
        };
        let wish = Wish {
            url,
            known: known.as_ref(),
            most: self.website.most,
            wants: &wants,
        };
        let mut resource = fetcher::get(&self.website.client, &wish)?;
        if resource.status == StatusCode::NOT_MODIFIED && known.is_none() {
            // nothing was asked that this could be the answer to
            resource.status = StatusCode::BAD_GATEWAY;
        }
        Ok(resource)
    }

    /// Takes what was found: as a document, for its links, or not at all.
    fn take(&mut self, resource: Resource, depth: u32) -> Result<(), EngineError> {
        let url = normalized(resource.url.clone());
        self.seen.insert(url.as_str().into());
        let is_second_way = self.uris.contains(url.as_str());
        let belongs = self.site.as_ref().is_some_and(|site| site.has(&url)) && self.allows(&url);
        match resource.status {
            _ if is_second_way || !belongs => self.listing.skipped += 1,
            StatusCode::NOT_MODIFIED => {
                let validator = self.website.known.get(url.as_str()).cloned();
                self.add(
                    &url,
                    Waiting {
                        file: None,
                        content: Content {
                            validator,
                            ..Content::default()
                        },
                    },
                    0,
                );
            }
            StatusCode::OK if resource.wanted => return self.take_page(resource, &url, depth),
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND | StatusCode::GONE => {
                self.listing.skipped += 1;
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
            self.listing.skipped += 1;
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
            Waiting {
                file: Some(file),
                content: Content {
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

    fn add(&mut self, uri: &Url, waiting: Waiting, size: u64) {
        self.uris.insert(uri.as_str().into());
        self.bytes += size;
        self.listing.items.push(Item {
            uri: uri.as_str().into(),
            name: static_files::name(uri),
            size,
            validator: waiting.content.validator.clone(),
            locator: Locator::Page(self.pages.len()),
        });
        self.pages.push(waiting);
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
            Some(Rules::Robot(robot)) => robot
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
                // many servers answer any address with a page
                Err(Missing::NoSitemap(_)) if is_guess && read.len() == 1 => {}
                Err(Missing::NoSitemap(failure) | Missing::Failed(failure)) => {
                    self.listing.failures.push(failure);
                    self.listing.complete = false;
                }
                Err(Missing::Gone) => {}
            }
        }
    }

    fn read_sitemap(&mut self, address: &Url) -> Result<sitemap::Sitemap, Missing> {
        self.pause(address);
        let wish = Wish {
            url: address,
            known: None,
            most: MAX_SITEMAP_BYTES,
            wants: &|_| true,
        };
        let failure = |message: String| fetch_failure(address.as_str(), message, None);
        let resource = fetcher::get(&self.website.client, &wish)
            .map_err(|problem| Missing::Failed(problem.failure(address.as_str())))?;
        match resource.status {
            StatusCode::OK => sitemap::read(&resource.bytes, MAX_SITEMAP_BYTES, MAX_ADDRESSES)
                .map_err(|message| Missing::NoSitemap(failure(message))),
            status if status.is_client_error() => Err(Missing::Gone),
            status => Err(Missing::Failed(failure(fetcher::answered(status)))),
        }
    }
}

/// Why there is no sitemap.
enum Missing {
    Gone,
    NoSitemap(Failure),
    Failed(Failure),
}

/// The patterns of `include` and `exclude` are those of a folder's paths.
fn filter(spec: &PathFilter) -> Result<Filter, EngineError> {
    Filter::new(spec).map_err(|mut error| {
        error.message = error
            .message
            .replacen("spec.paths", "spec.include", 1)
            .replacen("spec.excludePaths", "spec.exclude", 1);
        error
    })
}

/// The path that patterns are matched with: decoded, and for a folder that of its page.
fn path(url: &Url) -> PathBuf {
    let path = percent_decode_str(url.path())
        .decode_utf8_lossy()
        .into_owned();
    let path = path.trim_start_matches('/');
    if path.is_empty() || path.ends_with('/') {
        Path::new(path).join("index.html")
    } else {
        path.into()
    }
}

fn normalized(mut url: Url) -> Url {
    url.set_fragment(None);
    if url.query() == Some("") {
        url.set_query(None);
    }
    url
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
        format!("robots.txt does not allow {url} to be fetched"),
    )
    .hint(format!(
        "The site's owner can allow it for the agent \"{AGENT}\"."
    ))
}

fn unwritable(path: &Path, error: &io::Error) -> EngineError {
    EngineError::new(
        ErrorKind::Io,
        format!("cannot write \"{}\"", path.display()),
    )
    .detail(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_a_host_or_a_domain() {
        let has = |start: &str, same_site, url: &str| {
            Site::of(&Url::parse(start).unwrap(), same_site).has(&Url::parse(url).unwrap())
        };
        for (url, of_host, of_domain) in [
            ("https://www.example.org/a", true, true),
            ("http://www.example.org/a", true, true),
            ("https://example.org/", false, true),
            ("https://docs.example.org/", false, true),
            ("https://a.b.example.org/", false, true),
            ("https://badexample.org/", false, false),
            ("https://example.org.evil.example/", false, false),
            ("https://org/", false, false),
            ("https://www.example.org:8443/", false, false),
            ("https://me@www.example.org/", false, false),
            ("ftp://www.example.org/", false, false),
        ] {
            assert_eq!(
                has("https://www.example.org/", SameSite::Host, url),
                of_host,
                "{url}"
            );
            assert_eq!(
                has("https://www.example.org/", SameSite::Domain, url),
                of_domain,
                "{url}"
            );
        }
        assert!(!has(
            "http://10.0.0.1/",
            SameSite::Domain,
            "http://1.10.0.0.1.example/"
        ));
    }

    #[test]
    fn paths_are_matched_decoded_and_folders_as_their_index() {
        for (url, expected) in [
            ("https://a.example", "index.html"),
            ("https://a.example/docs/?x=1", "docs/index.html"),
            (
                "https://a.example//docs/%C3%BCber%20uns.html#top",
                "docs/über uns.html",
            ),
        ] {
            assert_eq!(path(&Url::parse(url).unwrap()), Path::new(expected));
        }
    }
}
