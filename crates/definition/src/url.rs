//! Addresses of servers.

use std::fmt::Display;

use url::{Host, Url};

use crate::Fields;

impl Fields<'_> {
    /// Reads an `http://` or `https://` URL without credentials in it. `hint` says what may be
    /// written, and `secret_hint` where credentials belong.
    pub fn web_url(
        &self,
        name: impl Display,
        text: &str,
        hint: &str,
        secret_hint: &str,
    ) -> Option<Url> {
        let Ok(url) = Url::parse(text) else {
            self.problem_with(name, "is not a URL", hint);
            return None;
        };
        if !matches!(url.scheme(), "http" | "https") {
            self.problem_with(name, "must start with https:// or http://", hint);
        } else if !has_sendable_host(&url) {
            self.problem_with(name, "is not a URL", hint);
        } else if !url.username().is_empty() || url.password().is_some() {
            self.problem_with(name, "must not contain credentials", secret_hint);
        } else {
            return Some(url);
        }
        None
    }

    /// Reads the required address of a server: a URL as [`Fields::web_url`] reads it, without a
    /// query.
    pub fn server_url(&self, name: &str, hint: &str, secret_hint: &str) -> Option<String> {
        if !self.has(name, Some(hint)) {
            return None;
        }
        let text = self.text(name)?;
        let url = self.web_url(name, text, hint, secret_hint)?;
        if url.query().is_some() || url.fragment().is_some() {
            self.problem_with(name, "must not contain a query or fragment", hint);
            return None;
        }
        Some(text.to_owned())
    }
}

/// Returns true if the HTTP client would send a request to the URL's host. The URL parser accepts
/// some characters and lengths that no host name has.
pub(crate) fn has_sendable_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => is_host_name(name),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => true,
        None => false,
    }
}

/// The limits are those of DNS. Resolvers accept hyphens and underscores anywhere but at the start.
fn is_host_name(name: &str) -> bool {
    const MAX_NAME: usize = 253;
    const MAX_LABEL: usize = 63;
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    name.len() <= MAX_NAME && !name.starts_with('-') && name.split('.').all(is_label)
}
