//! The addresses that belong to a site, and the rules of its robots.txt.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use rag_definition::source::SameSite;
use texting_robots::Robot;
use url::Url;

/// Which addresses belong to the site.
pub struct Site {
    host: String,
    /// `None` for the default port.
    port: Option<u16>,
    below: bool,
}

impl Site {
    pub fn of(url: &Url, same_site: SameSite) -> Self {
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

    pub fn has(&self, url: &Url) -> bool {
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

/// The rules of a host's robots.txt.
pub enum RobotsRules {
    None,
    Robot(Box<Robot>),
    Unreachable,
}

impl RobotsRules {
    pub fn allow(&self, url: &Url) -> bool {
        match self {
            Self::None => true,
            Self::Robot(robot) => robot.allowed(url.as_str()),
            Self::Unreachable => false,
        }
    }
}

/// Returns the path that patterns are matched with: decoded, and for a folder its `index.html`.
pub fn path(url: &Url) -> PathBuf {
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
