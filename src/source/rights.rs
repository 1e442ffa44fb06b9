//! What a source's owner may read, asked again with each run: rights can be taken away.

use pgrx::pg_sys;
use rag_protocol::spec::{Endpoint, Repository, SourceSpec};

use crate::{error::Error, pg::roles, settings};

/// # Errors
/// The source's owner may not, or may no longer, read what the source names.
pub fn check(spec: &SourceSpec, owner: pg_sys::Oid) -> Result<(), Error> {
    match spec {
        SourceSpec::Folder(_) => roles::require_server_files(owner),
        SourceSpec::Markdown(markdown) => check_endpoints(std::slice::from_ref(&markdown.endpoint), owner),
        SourceSpec::Static(files) => check_endpoints(&files.endpoints, owner),
        SourceSpec::Website(_) => Ok(()),
        SourceSpec::Git(git) => match git.repository {
            Repository::Local(_) => roles::require_superuser(owner, "read a repository on the server"),
            Repository::Https(ref url)
                if url.starts_with("http://") && settings::network().allowed_private_hosts.is_empty() =>
            {
                Err(Error::invalid_parameter(format!("\"{url}\" does not start with https://"))
                    .hint("Only hosts that rag.allowed_private_hosts names may be asked over http."))
            }
            Repository::Https(_) => Ok(()),
        },
        // Postgres asks for them with each statement
        SourceSpec::Table(_) => Ok(()),
    }
}

/// The key of the spec that says what is read, as far as [`check`] asks for rights on it: of
/// several endpoints the first on the server.
pub fn place(spec: &SourceSpec) -> String {
    match spec {
        SourceSpec::Folder(_) => "path".into(),
        SourceSpec::Markdown(_) => "uri".into(),
        SourceSpec::Static(files) => match files.endpoints.iter().position(is_file) {
            Some(i) => format!("endpoints[{i}]"),
            None => "endpoints".into(),
        },
        SourceSpec::Website(_) => "url".into(),
        SourceSpec::Git(_) => "repositoryURL".into(),
        SourceSpec::Table(_) => "relation".into(),
    }
}

fn is_file(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::File(_))
}

fn check_endpoints(endpoints: &[Endpoint], owner: pg_sys::Oid) -> Result<(), Error> {
    if endpoints.iter().any(is_file) {
        return roles::require_server_files(owner);
    }
    Ok(())
}
