//! Requests of a crawl: what robots.txt allows, one at a time, with pauses.

use std::{
    thread,
    time::{Duration, Instant},
};

use rag_protocol::{EngineError, ErrorKind};
use reqwest::StatusCode;
use texting_robots::Robot;
use url::Url;

use super::{Crawl, DOCUMENTS, first::may_be_first};
use crate::{
    fetcher::{self, FetchError, FetchRequest, Resource, Validator},
    http::HttpResponse,
    website::{found::PageVersion, site::RobotsRules},
};

/// The longest pause between two requests that a server can ask for. A longer `Crawl-delay` of a
/// robots.txt is reduced to it.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// The pause after a server has limited the rate of requests for the first time.
const FIRST_SLOWER_DELAY: Duration = Duration::from_millis(200);
const MAX_ROBOTS_BYTES: u64 = 2 << 20;
/// The name of this crawler in robots.txt.
const AGENT: &str = "rag";

impl Crawl<'_> {
    /// Returns an error if robots.txt does not allow a page to be fetched.
    pub(super) fn demand(&mut self, url: &Url) -> Result<(), EngineError> {
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

    /// Returns true if robots.txt allows a page to be fetched.
    pub(super) fn allows(&mut self, url: &Url) -> bool {
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
        let resource = self.request(&FetchRequest {
            url: &address,
            known: None,
            max_bytes: MAX_ROBOTS_BYTES,
            accepts: &|_| true,
        })?;
        Ok(match resource.status {
            // a malformed robots.txt is ignored
            StatusCode::OK => Robot::new(AGENT, &resource.bytes)
                .map_or(RobotsRules::None, |robot| {
                    RobotsRules::Robot(Box::new(robot))
                }),
            _ => RobotsRules::None,
        })
    }

    /// Sends a request after a pause.
    pub(super) fn request(&mut self, request: &FetchRequest<'_>) -> Result<Resource, FetchError> {
        let client = &self.website.client;
        let origin = request.url.origin();
        // such a request is refused before it is sent
        if client.rate_limited_for(request.url).is_none() {
            if let Some(answered) = self.answered.get(&origin) {
                thread::sleep(self.pause(request.url).saturating_sub(answered.elapsed()));
            }
            self.requests += 1;
        }
        let fetched = fetcher::fetch(client, request);
        self.answered.insert(origin, Instant::now());
        fetched
    }

    /// Returns the time between two requests to a host.
    fn pause(&self, url: &Url) -> Duration {
        let asked = match self.robots.get(&url.origin()) {
            Some(RobotsRules::Robot(robot)) => robot
                .delay
                .filter(|delay| delay.is_finite() && *delay > 0.0),
            _ => None,
        };
        let asked = asked.map_or(Duration::ZERO, |delay| {
            Duration::from_secs_f32(delay.min(MAX_DELAY.as_secs_f32()))
        });
        let pause = asked.max(Duration::from_millis(self.website.spec.delay_ms));
        match self.website.client.times_throttled(url) {
            0 => pause,
            times => {
                let slower = pause.max(FIRST_SLOWER_DELAY / 2) * 2_u32.pow(times.min(10));
                slower.min(MAX_DELAY.max(pause))
            }
        }
    }

    pub(super) fn get_first(&mut self, url: &Url) -> Result<Resource, FetchError> {
        let wants = |response: &HttpResponse| {
            may_be_first(&fetcher::essence(response.header("content-type")))
        };
        self.request(&FetchRequest {
            url,
            known: None,
            max_bytes: self.website.max_bytes,
            accepts: &wants,
        })
    }

    /// Fetches a page. If its links are not followed, the version that is stored is not sent again.
    pub(super) fn get(&mut self, url: &Url, depth: u32) -> Result<Resource, FetchError> {
        let stored = self.website.known.get(url.as_str());
        let known = stored.filter(|_| self.is_leaf(depth));
        self.get_page(url, known.and_then(PageVersion::conditions))
    }

    /// Fetches a page, whatever is stored. Returns `None` if that fails.
    pub(super) fn get_again(&mut self, url: &Url) -> Option<Resource> {
        self.get_page(url, None).ok()
    }

    fn get_page(&mut self, url: &Url, known: Option<&Validator>) -> Result<Resource, FetchError> {
        let website = self.website;
        let sites = std::mem::take(&mut self.sites);
        let wants = |response: &HttpResponse| {
            let essence = fetcher::essence(response.header("content-type"));
            sites.iter().any(|site| site.has(&response.url))
                && DOCUMENTS.contains(&essence.as_str())
        };
        let fetched = self.request(&FetchRequest {
            url,
            known,
            max_bytes: website.max_bytes,
            accepts: &wants,
        });
        self.sites = sites;
        let mut resource = fetched?;
        if resource.status == StatusCode::NOT_MODIFIED && known.is_none() {
            // the request had no conditions
            resource.status = StatusCode::BAD_GATEWAY;
        }
        Ok(resource)
    }
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
