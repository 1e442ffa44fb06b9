//! `website`: the pages of a site that can be reached from one of them.

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    KindSpec, PathFilter, RequiredRight, SourceKind, SourceSpec, WebAddress, common::path_filter,
    endpoint::CREDENTIALS_HINT,
};
use crate::{FieldProblem, Fields};

pub(super) const KIND: SourceKind = SourceKind {
    name: "website",
    manifest_type: "Website",
    comment: "the pages of a site",
    keys: &[
        "url", "depth", "maxPages", "include", "exclude", "sitemap", "delay", "sameSite",
    ],
    released_names: &[],
    parse: |fields| WebsiteSpec::parse(fields).map(SourceSpec::Website),
};

const MAX_DEPTH: i64 = 100;
const DEFAULT_DEPTH: i64 = 2;
const MAX_PAGES: i64 = 10_000;
const DEFAULT_PAGES: i64 = 100;
const MAX_DELAY_SECONDS: f64 = 60.0;
const DEFAULT_DELAY_MS: u64 = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebsiteSpec {
    /// The first page: an `http://` or `https://` URL without credentials in it.
    pub url: String,
    /// Maximum number of links from the first page; 0 is the first page alone.
    pub depth: u32,
    /// 1..=10000.
    pub max_pages: u32,
    /// Selects paths of the site.
    pub filter: PathFilter,
    /// Crawl the pages of the site's sitemap too, as if the first page linked to them.
    pub sitemap: bool,
    /// Time between two requests.
    pub delay_ms: u64,
    pub same_site: SameSite,
}

/// Which hosts belong to a website.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameSite {
    /// The host of the first page.
    #[default]
    Host,
    /// The host of the first page without a leading `www.`, and its subdomains.
    Domain,
}

impl WebsiteSpec {
    /// What the fields of `filter` are called in the spec.
    pub const FILTER_KEYS: [&'static str; 2] = ["include", "exclude"];

    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let url = fields.required_text("url").and_then(|url| {
            let read = fields.web_url("url", url, &url_hint(url), CREDENTIALS_HINT);
            read.map(|_| url.to_owned())
        });
        let count = |key, range, default| {
            let count = fields.integer(key, range).unwrap_or(default);
            u32::try_from(count).unwrap_or_default()
        };
        let depth = count("depth", 0..=MAX_DEPTH, DEFAULT_DEPTH);
        let max_pages = count("maxPages", 1..=MAX_PAGES, DEFAULT_PAGES);
        let filter = path_filter(fields, Self::FILTER_KEYS);
        let sitemap = fields.boolean("sitemap").unwrap_or(true);
        let delay = fields.number("delay", 0.0..=MAX_DELAY_SECONDS);
        let delay_ms = delay.map_or(DEFAULT_DELAY_MS, |delay| (delay * 1000.0).round() as u64);
        let same_site = match fields.word("sameSite", &["host", "domain"], "a kind of site") {
            Some("domain") => SameSite::Domain,
            _ => SameSite::Host,
        };
        Some(Self {
            url: url?,
            depth,
            max_pages,
            filter,
            sitemap,
            delay_ms,
            same_site,
        })
    }
}

/// Returns the hint for a text that is not a URL: the URL that it becomes with a scheme.
fn url_hint(given: &str) -> String {
    match Url::parse(&format!("https://{given}")) {
        Ok(url) if !given.contains(':') && url.host_str().is_some_and(|it| it.contains('.')) => {
            format!("Write {url}.")
        }
        _ => "Write https://host/path.".into(),
    }
}

impl KindSpec for WebsiteSpec {
    fn kind(&self) -> &'static SourceKind {
        &KIND
    }

    fn location_key(&self) -> String {
        "url".into()
    }

    fn required_right(&self) -> RequiredRight<'_> {
        RequiredRight::None
    }

    fn uses_network(&self) -> bool {
        true
    }

    fn credentials_server(&self) -> Result<Option<Url>, FieldProblem> {
        Ok(Url::parse(&self.url).ok())
    }

    fn web_addresses(&self) -> Vec<WebAddress<'_>> {
        vec![WebAddress {
            field: "spec.url".into(),
            url: (&self.url).into(),
        }]
    }

    fn path_filter(&self) -> Option<(&PathFilter, [&'static str; 2])> {
        Some((&self.filter, Self::FILTER_KEYS))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::SameSite;
    use crate::source::{SourceSpec, tests::refuses};

    #[test]
    fn a_website_is_bounded_by_default() {
        let Ok(SourceSpec::Website(spec)) =
            SourceSpec::parse("website", &json!({"url": "https://example.org"}))
        else {
            panic!("a valid spec")
        };
        assert_eq!(
            (spec.depth, spec.max_pages, spec.delay_ms, spec.same_site),
            (2, 100, 200, SameSite::Host)
        );
        let spec = json!({
            "url": "https://example.org",
            "delay": 1.5,
            "sameSite": "domain",
            "include": ["/docs/"],
        });
        let Ok(SourceSpec::Website(spec)) = SourceSpec::parse("website", &spec) else {
            panic!("a valid spec")
        };
        assert_eq!((spec.delay_ms, spec.same_site), (1500, SameSite::Domain));
        assert_eq!(spec.filter.paths, ["/docs/"]);
    }

    #[test]
    fn the_hint_for_a_host_is_its_url() {
        for (given, expected) in [
            ("www.example.org", "Write https://www.example.org/."),
            ("example.org/docs", "Write https://example.org/docs."),
            ("/srv/site", "Write https://host/path."),
            ("ftp://example.org", "Write https://host/path."),
            ("my site", "Write https://host/path."),
        ] {
            let problems = SourceSpec::parse("website", &json!({ "url": given })).unwrap_err();
            assert_eq!(problems[0].hint.as_deref(), Some(expected), "{given}");
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        refuses(
            "website",
            json!({"url": "example.org"}),
            "spec.url: is not a URL",
        );
        for (key, value, expected) in [
            (
                "depth",
                json!(-1),
                "spec.depth: must be an integer from 0 to 100, not -1",
            ),
            (
                "maxPages",
                json!(0),
                "spec.maxPages: must be an integer from 1 to 10000, not 0",
            ),
            (
                "delay",
                json!("1"),
                "spec.delay: must be a number from 0 to 60, not a string",
            ),
            (
                "sameSite",
                json!("world"),
                "spec.sameSite: \"world\" is not a kind of site",
            ),
            (
                "sitemap",
                json!(1),
                "spec.sitemap: must be a boolean, not a number",
            ),
        ] {
            let spec = json!({"url": "https://a.example", key: value});
            refuses("website", spec, expected);
        }
    }
}
