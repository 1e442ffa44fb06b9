//! Checks what a source's owner may read. Each run checks again, because permissions can be
//! revoked.

use pgrx::pg_sys;
use rag_definition::source::{RequiredRight, SourceSpec};
use rag_protocol::network::AllowedHosts;
use url::Url;

use crate::{error::Error, pg::roles, settings};

/// # Errors
/// The source's owner may not read what the source names.
pub fn check(spec: &SourceSpec, owner: pg_sys::Oid) -> Result<(), Error> {
    match spec.required_right() {
        RequiredRight::None => Ok(()),
        RequiredRight::ServerFiles => roles::require_server_files(owner),
        RequiredRight::Superuser(action) => roles::require_superuser(owner, action),
        RequiredRight::PlainHttp(url) => encrypted(url),
        RequiredRight::InstanceIdentity(url) if settings::allow_instance_identity() => {
            encrypted(url)
        }
        RequiredRight::InstanceIdentity(_) => Err(Error::permission_denied(
            "permission denied to use the identity of the server's machine",
        )
        .hint(
            "A superuser can allow it with rag.allow_instance_identity. Otherwise create a secret \
             and name it in the source's credentials.",
        )),
    }
}

/// # Errors
/// A URL is not encrypted, and no entry of `rag.allowed_private_hosts` allows that.
fn encrypted(url: &str) -> Result<(), Error> {
    if url.starts_with("https://") || is_allowed_host(url)? {
        return Ok(());
    }
    Err(
        Error::invalid_parameter(format!("\"{url}\" does not start with https://"))
            .hint("Only hosts in rag.allowed_private_hosts can be used over http."),
    )
}

/// Returns true if `rag.allowed_private_hosts` names the host of a URL.
fn is_allowed_host(url: &str) -> Result<bool, Error> {
    let allowed = AllowedHosts::parse(&settings::network().allowed_private_hosts)?;
    Ok(Url::parse(url).is_ok_and(|url| allowed.allows_host_of(&url)))
}
