//! `website`: the pages of a site that can be reached from some of them, or that a feed names.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    KindSpec, PathFilter, RequiredRight, SourceKind, SourceSpec, WebAddress, common::path_filter,
    endpoint::CREDENTIALS_HINT,
};
use crate::{FieldProblem, Fields, fields::shown};

pub(super) const KIND: SourceKind = SourceKind {
    name: "website",
    manifest_type: "Website",
    comment: "the pages of a site",
    keys: &[
        "url",
        "urls",
        "depth",
        "maxPages",
        "include",
        "exclude",
        "sitemap",
        "languages",
        "delay",
        "sameSite",
    ],
    released_names: &[],
    parse: |fields| WebsiteSpec::parse(fields).map(SourceSpec::Website),
};

const MAX_URLS: usize = 100;
const MAX_DEPTH: i64 = 100;
const DEFAULT_DEPTH: u32 = 2;
const MAX_PAGES: i64 = 10_000;
const DEFAULT_PAGES: u32 = 100;
const MAX_DELAY_SECONDS: f64 = 60.0;
const DEFAULT_DELAY_MS: u64 = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebsiteSpec {
    /// The first pages, or feeds of pages, at least one and none twice: `http://` or `https://`
    /// URLs without credentials in them.
    pub urls: Vec<String>,
    /// Maximum number of links from a first page; 0 is these pages alone. `None`: the default.
    pub depth: Option<u32>,
    /// 1..=10000.
    pub max_pages: u32,
    /// Selects paths of the site.
    pub filter: PathFilter,
    /// Crawl the pages of the site's sitemap too, as if the first page linked to them.
    pub sitemap: bool,
    pub languages: Languages,
    /// Time between two requests.
    pub delay_ms: u64,
    pub same_site: SameSite,
}

/// Which variants of a page in several languages are indexed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Languages {
    /// The one in the language of the first page. Pages without such a variant are indexed, too.
    #[default]
    OfFirstPage,
    All,
    /// Pages in these languages: tags such as `en` or `pt-br`, in small letters.
    Only(Vec<String>),
}

/// Which hosts belong to a website.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameSite {
    /// The hosts of the first pages.
    #[default]
    Host,
    /// The hosts of the first pages without a leading `www.`, and their subdomains.
    Domain,
}

impl WebsiteSpec {
    /// What the fields of `filter` are called in the spec.
    pub const FILTER_KEYS: [&'static str; 2] = ["include", "exclude"];

    /// Returns how many links away from a first page the last pages are.
    pub fn depth(&self) -> u32 {
        self.depth.unwrap_or(DEFAULT_DEPTH)
    }

    /// Returns how many links away from a first page those count that a feed or sitemap in its
    /// place names. Without a depth of its own, their links are not followed.
    pub fn depth_of_entries(&self) -> u32 {
        self.depth.map_or(DEFAULT_DEPTH, |depth| depth.min(1))
    }

    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let urls = read_urls(fields);
        let count = |key, range| u32::try_from(fields.integer(key, range)?).ok();
        let depth = count("depth", 0..=MAX_DEPTH);
        let max_pages = count("maxPages", 1..=MAX_PAGES).unwrap_or(DEFAULT_PAGES);
        let filter = path_filter(fields, Self::FILTER_KEYS);
        let sitemap = fields.boolean("sitemap").unwrap_or(true);
        let delay = fields.number("delay", 0.0..=MAX_DELAY_SECONDS);
        let delay_ms = delay.map_or(DEFAULT_DELAY_MS, |delay| (delay * 1000.0).round() as u64);
        let same_site = match fields.word("sameSite", &["host", "domain"], "a kind of site") {
            Some("domain") => SameSite::Domain,
            _ => SameSite::Host,
        };
        let languages = read_languages(fields);
        Some(Self {
            urls: urls?,
            depth,
            max_pages,
            filter,
            sitemap,
            languages,
            delay_ms,
            same_site,
        })
    }
}

/// Reads `url` or `urls`.
fn read_urls(fields: &Fields<'_>) -> Option<Vec<String>> {
    if fields.get("urls").is_none() {
        let url = fields.required_text("url")?;
        fields.web_url("url", url, &url_hint(url), CREDENTIALS_HINT)?;
        return Some(vec![url.to_owned()]);
    }
    if fields.get("url").is_some() {
        let hint = "Name all first pages in \"urls\".";
        fields.problem_with("url", "cannot be used together with urls", hint);
    }
    let texts = fields.texts("urls")?;
    if !(1..=MAX_URLS).contains(&texts.len()) {
        let problem = format!("must have 1 to {MAX_URLS} elements");
        fields.problem("urls", problem);
        return None;
    }
    let (mut seen, mut urls) = (HashSet::new(), vec![]);
    for (i, text) in texts.into_iter().enumerate() {
        let field = format!("urls[{i}]");
        let Some(url) = fields.web_url(&field, &text, &url_hint(&text), CREDENTIALS_HINT) else {
            continue;
        };
        if seen.insert(url) {
            urls.push(text);
        } else {
            fields.problem(field, "is a duplicate");
        }
    }
    Some(urls)
}

/// Reads `languages`.
fn read_languages(fields: &Fields<'_>) -> Languages {
    const KEY: &str = "languages";
    let Some(tags) = fields.texts(KEY) else {
        return Languages::OfFirstPage;
    };
    if tags == ["*"] {
        return Languages::All;
    }
    let is_tag = |tag: &str| {
        let first = tag.split('-').next().unwrap_or_default();
        let is_sign = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (2..=8).contains(&first.len())
            && first.bytes().all(|b| b.is_ascii_alphabetic())
            && tag.len() <= 35
            && tag.bytes().all(is_sign)
    };
    let tags: Vec<String> = tags
        .iter()
        .map(|tag| tag.trim().replace('_', "-"))
        .collect();
    if tags.is_empty() {
        fields.problem_with(KEY, "must name at least one language", LANGUAGES_HINT);
    }
    for (i, tag) in tags.iter().enumerate().filter(|(_, tag)| !is_tag(tag)) {
        let problem = format!("\"{}\" is not the tag of a language", shown(tag));
        fields.problem_with(format!("{KEY}[{i}]"), problem, LANGUAGES_HINT);
    }
    Languages::Only(tags.iter().map(|tag| tag.to_ascii_lowercase()).collect())
}

const LANGUAGES_HINT: &str = "Write tags such as [\"en\", \"pt-BR\"], or [\"*\"] for all.";

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
        match self.urls.len() {
            1 => "url".into(),
            _ => "urls".into(),
        }
    }

    fn required_right(&self) -> RequiredRight<'_> {
        RequiredRight::None
    }

    fn uses_network(&self) -> bool {
        true
    }

    fn credentials_server(&self) -> Result<Option<Url>, FieldProblem> {
        let mut servers = self.urls.iter().filter_map(|url| Url::parse(url).ok());
        let first = servers.next();
        let is_other = |url: Url| first.as_ref().is_some_and(|it| it.origin() != url.origin());
        if servers.any(is_other) {
            let problem =
                "credentials are for one server, but the first pages are on several servers";
            return Err(FieldProblem::new("credentials", problem)
                .hint("Create one source for each server."));
        }
        Ok(first)
    }

    fn web_addresses(&self) -> Vec<WebAddress<'_>> {
        let field = |i: usize| match self.urls.len() {
            1 => "spec.url".into(),
            _ => format!("spec.urls[{i}]"),
        };
        let urls = self.urls.iter().enumerate();
        urls.map(|(i, url)| WebAddress {
            field: field(i),
            url: url.into(),
        })
        .collect()
    }

    fn path_filter(&self) -> Option<(&PathFilter, [&'static str; 2])> {
        Some((&self.filter, Self::FILTER_KEYS))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Languages, SameSite};
    use crate::source::{SourceSpec, tests::refuses};

    #[test]
    fn a_website_is_bounded_by_default() {
        let Ok(SourceSpec::Website(spec)) =
            SourceSpec::parse("website", &json!({"url": "https://example.org"}))
        else {
            panic!("a valid spec")
        };
        assert_eq!(
            (spec.depth(), spec.max_pages, spec.delay_ms, spec.same_site),
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
    fn a_website_may_have_several_first_pages_and_languages() {
        let parse = |spec| match SourceSpec::parse("website", &spec) {
            Ok(SourceSpec::Website(spec)) => spec,
            other => panic!("{other:?}"),
        };
        let spec = parse(json!({
            "urls": ["https://a.example/docs/", "https://a.example/feed.xml"],
            "languages": ["en", "pt_BR"],
        }));
        assert_eq!(
            spec.urls,
            ["https://a.example/docs/", "https://a.example/feed.xml"]
        );
        let tags = ["en", "pt-br"].map(str::to_owned).to_vec();
        assert_eq!(spec.languages, Languages::Only(tags));
        let spec = parse(json!({"url": "https://a.example", "languages": ["*"]}));
        assert_eq!((spec.urls.len(), spec.languages), (1, Languages::All));
        for (spec, expected) in [
            (json!({}), "spec.url: is missing"),
            (
                json!({"urls": []}),
                "spec.urls: must have 1 to 100 elements",
            ),
            (
                json!({"urls": ["https://a.example", "https://a.example/"]}),
                "spec.urls[1]: is a duplicate",
            ),
            (json!({"urls": ["a.example"]}), "spec.urls[0]: is not a URL"),
            (
                json!({"url": "https://a.example", "urls": ["https://b.example"]}),
                "spec.url: cannot be used together with urls",
            ),
            (
                json!({"url": "https://a.example", "languages": ["english!"]}),
                "spec.languages[0]: \"english!\" is not the tag of a language",
            ),
            (
                json!({"url": "https://a.example", "languages": []}),
                "spec.languages: must name at least one language",
            ),
        ] {
            refuses("website", spec, expected);
        }
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
