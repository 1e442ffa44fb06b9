//! Where one file is: an address of the web, or a path of the database server.

use std::{
    fmt::Display,
    path::{Component, PathBuf},
};

use serde::{Deserialize, Serialize};
use url::Url;

use super::{RequiredRight, ServerPath, WebAddress};
use crate::{FieldProblem, Fields};

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
                url: url.into(),
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

/// Where credentials belong.
pub(super) const CREDENTIALS_HINT: &str =
    "Create a secret and name it in the source's credentials.";
const ENDPOINT_HINT: &str = "Write https://host/path, or an absolute path on the database server.";

/// Reads a required path on the server, absolute and without `..`.
pub(super) fn absolute_path(fields: &Fields<'_>, key: &str) -> Option<PathBuf> {
    let text = fields.required_text(key)?;
    path(fields, key, text)
}

fn path(fields: &Fields<'_>, field: impl Display, text: &str) -> Option<PathBuf> {
    let path = PathBuf::from(text);
    if !path.is_absolute() {
        fields.problem_with(
            field,
            "must be an absolute path",
            "The path is on the database server.",
        );
        return None;
    }
    if path.components().any(|c| c == Component::ParentDir) {
        fields.problem(field, "must not contain \"..\"");
        return None;
    }
    Some(path)
}

/// Reads a URL of the web, a `file://` URL or a path on the server.
pub(super) fn read_endpoint(
    fields: &Fields<'_>,
    field: impl Display,
    text: &str,
) -> Option<Endpoint> {
    if text.starts_with('/') {
        return path(fields, field, text).map(Endpoint::File);
    }
    let is_file_url = text
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
    if !is_file_url {
        return fields
            .web_url(field, text, ENDPOINT_HINT, CREDENTIALS_HINT)
            .map(|_| Endpoint::Web(text.into()));
    }
    let url = Url::parse(text).ok();
    let Some(file) = url.and_then(|url| url.to_file_path().ok()) else {
        fields.problem_with(
            field,
            "is not the URL of a file on this server",
            "Write file:///path.",
        );
        return None;
    };
    let path = path(fields, field, &file.to_string_lossy())?;
    Some(Endpoint::File(path))
}
