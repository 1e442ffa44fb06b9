//! Addresses of servers in settings.

use url::{Host, Url};

use crate::object::Object;

/// Reads the required address of a server: `http` or `https`, without credentials or query. `hint`
/// says how to write it, and `secret_hint` where credentials belong.
pub fn server_url(
    spec: &Object<'_>,
    key: &str,
    hint: &'static str,
    secret_hint: &'static str,
) -> Option<String> {
    if !spec.has(key, Some(hint)) {
        return None;
    }
    let text = spec.text(key)?;
    let problem = |problem: &str, hint: &str| {
        spec.problem(key, problem, Some(hint.into()));
        None
    };
    let Ok(url) = Url::parse(text) else {
        return problem("is not a URL", hint);
    };
    let has_host = match url.host() {
        Some(Host::Domain(name)) => name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)),
        Some(_) => true,
        None => false,
    };
    if !matches!(url.scheme(), "http" | "https") {
        problem("must start with https:// or http://", hint)
    } else if !has_host {
        problem("is not a URL", hint)
    } else if !url.username().is_empty() || url.password().is_some() {
        problem("must not contain credentials", secret_hint)
    } else if url.query().is_some() || url.fragment().is_some() {
        problem("must not contain a query or fragment", hint)
    } else {
        Some(text.to_owned())
    }
}
