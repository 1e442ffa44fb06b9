//! `website`: the pages of a site that can be reached from one of them.

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    FieldProblem, Fields, KindSpec, PathFilter, RequiredRight, SourceKind, SourceSpec, WebAddress,
};

pub(super) const KIND: SourceKind = SourceKind {
    name: "website",
    manifest_type: "Website",
    comment: "the pages of a site",
    keys: &[
        "url", "depth", "maxPages", "include", "exclude", "sitemap", "delay", "sameSite",
    ],
    other_spellings: &[],
    released_names: &[],
    parse: |fields| WebsiteSpec::parse(fields).map(SourceSpec::Website),
};

/// Minimum, maximum and default.
const DEPTH: (u64, u64, u64) = (0, 100, 2);
const PAGES: (u64, u64, u64) = (1, 10_000, 100);
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

    fn parse(fields: &mut Fields<'_>) -> Option<Self> {
        let url = fields
            .required("url")
            .and_then(|url| fields.web_url("url", &url, &url_hint(&url)).map(|_| url));
        let depth = fields.integer("depth", DEPTH);
        let max_pages = fields.integer("maxPages", PAGES);
        let filter = fields.path_filter(Self::FILTER_KEYS);
        let sitemap = fields.boolean("sitemap", true);
        let delay_ms = fields.milliseconds("delay", MAX_DELAY_SECONDS, DEFAULT_DELAY_MS);
        let same_site = [("host", SameSite::Host), ("domain", SameSite::Domain)];
        let same_site = fields.choice("sameSite", same_site);
        Some(Self {
            url: url?,
            depth,
            max_pages,
            filter,
            sitemap,
            delay_ms,
            same_site: same_site.unwrap_or_default(),
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
            url: &self.url,
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
    use crate::spec::{SourceSpec, tests::refuses};

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
                "spec.depth: must be an integer from 0 to 100",
            ),
            (
                "maxPages",
                json!(0),
                "spec.maxPages: must be an integer from 1 to 10000",
            ),
            (
                "delay",
                json!("1"),
                "spec.delay: must be a number of seconds from 0 to 60",
            ),
            (
                "sameSite",
                json!("world"),
                "spec.sameSite: must be \"host\" or \"domain\", not \"world\"",
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
