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
        RequiredRight::PlainHttp(url) if is_allowed_host(url)? => Ok(()),
        RequiredRight::PlainHttp(url) => Err(Error::invalid_parameter(format!(
            "\"{url}\" does not start with https://"
        ))
        .hint("Only hosts in rag.allowed_private_hosts can be used over http.")),
    }
}

/// Returns true if `rag.allowed_private_hosts` names the host of a URL.
fn is_allowed_host(url: &str) -> Result<bool, Error> {
    let allowed = AllowedHosts::parse(&settings::network().allowed_private_hosts)?;
    Ok(Url::parse(url).is_ok_and(|url| allowed.allows_host_of(&url)))
}
