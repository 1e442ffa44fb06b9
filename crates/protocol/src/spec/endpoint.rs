//! Where one file is: an address of the web, or a path of the database server.

use std::path::{Component, PathBuf};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::{FieldProblem, Fields, RequiredRight, ServerPath, WebAddress};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// An `http://` or `https://` URL without credentials in it, as the user wrote it.
    Web(String),
    /// An absolute path on the database server.
    File(PathBuf),
}

impl Endpoint {
    pub fn is_web(&self) -> bool {
        matches!(self, Self::Web(_))
    }

    /// Returns the right that is needed to read `endpoints`.
    pub(super) fn required_right(endpoints: &[Self]) -> RequiredRight<'static> {
        if endpoints.iter().all(Self::is_web) {
            RequiredRight::None
        } else {
            RequiredRight::ServerFiles
        }
    }

    pub(super) fn server_path(&self, field: impl FnOnce() -> String) -> Option<ServerPath<'_>> {
        match self {
            Self::Web(_) => None,
            Self::File(path) => Some(ServerPath {
                field: field(),
                path,
                is_folder: false,
            }),
        }
    }

    pub(super) fn web_address(&self, field: impl FnOnce() -> String) -> Option<WebAddress<'_>> {
        match self {
            Self::Web(url) => Some(WebAddress {
                field: field(),
                url,
            }),
            Self::File(_) => None,
        }
    }

    /// Returns a text that is the same for two spellings of one address.
    pub(super) fn normalized(&self) -> String {
        match self {
            Self::Web(text) => Url::parse(text).map_or_else(
                |_| text.clone(),
                |mut url| {
                    url.set_fragment(None);
                    url.into()
                },
            ),
            Self::File(path) => path.to_string_lossy().into_owned(),
        }
    }
}

/// Returns a URL of the one server that the endpoints are on, or `None` if all are files.
///
/// # Errors
/// They are on several servers, which differ in scheme, host or port.
pub fn server_of(endpoints: &[Endpoint]) -> Result<Option<Url>, FieldProblem> {
    let mut server: Option<Url> = None;
    for endpoint in endpoints {
        let Endpoint::Web(url) = endpoint else {
            continue;
        };
        let url = Url::parse(url)
            .map_err(|_| FieldProblem::new("spec.endpoints", "an endpoint is not a URL"))?;
        match &server {
            Some(first) if first.origin() != url.origin() => {
                let problem =
                    "credentials are for one server, but the endpoints are on several servers";
                return Err(FieldProblem::new("credentials", problem)
                    .hint("Create one source for each server."));
            }
            Some(_) => {}
            None => server = Some(url),
        }
    }
    Ok(server)
}

const ENDPOINT_HINT: &str = "Write https://host/path, or an absolute path on the database server.";

impl Fields<'_> {
    /// Reads a required path on the server, absolute and without `..`.
    pub(super) fn absolute_path(&mut self, key: &'static str) -> Option<PathBuf> {
        let text = self.required(key)?;
        self.path(key, &text)
    }

    fn path(&mut self, field: impl std::fmt::Display, text: &str) -> Option<PathBuf> {
        let path = PathBuf::from(text);
        if !path.is_absolute() {
            self.problem(field, "must be an absolute path").hint =
                Some("The path is on the database server.".into());
            return None;
        }
        if path.components().any(|c| c == Component::ParentDir) {
            self.problem(field, "must not contain \"..\"");
            return None;
        }
        Some(path)
    }

    /// Reads a URL of the web, a `file://` URL or a path on the server.
    pub(super) fn endpoint(
        &mut self,
        field: impl std::fmt::Display,
        text: &str,
    ) -> Option<Endpoint> {
        if text.starts_with('/') {
            return self.path(field, text).map(Endpoint::File);
        }
        let is_file_url = text
            .get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
        if !is_file_url {
            return self
                .web_url(field, text, ENDPOINT_HINT)
                .map(|_| Endpoint::Web(text.into()));
        }
        let url = Url::parse(text).ok();
        let Some(path) = url.and_then(|url| url.to_file_path().ok()) else {
            self.problem(field, "is not the URL of a file on this server")
                .hint = Some("Write file:///path.".into());
            return None;
        };
        let path = self.path(field, &path.to_string_lossy())?;
        Some(Endpoint::File(path))
    }

    /// Reads an `http://` or `https://` URL without credentials in it. `hint` says what may be
    /// written.
    pub(super) fn web_url(
        &mut self,
        field: impl std::fmt::Display,
        text: &str,
        hint: &str,
    ) -> Option<Url> {
        let Ok(url) = Url::parse(text) else {
            self.problem(field, "is not a URL").hint = Some(hint.into());
            return None;
        };
        if !matches!(url.scheme(), "http" | "https") {
            self.problem(field, "must start with https:// or http://")
                .hint = Some(hint.into());
        } else if !has_sendable_host(&url) {
            self.problem(field, "is not a URL").hint = Some(hint.into());
        } else if !url.username().is_empty() || url.password().is_some() {
            self.report_credentials(field);
        } else {
            return Some(url);
        }
        None
    }

    /// Reports a URL with a user name or password in it.
    pub(super) fn report_credentials(&mut self, field: impl std::fmt::Display) {
        self.problem(field, "must not contain credentials").hint =
            Some("Create a secret and name it in the source's credentials.".into());
    }
}

/// Returns true if the HTTP client would send a request to the URL's host. The URL parser accepts
/// some characters and lengths that no host name has.
pub(super) fn has_sendable_host(url: &Url) -> bool {
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
