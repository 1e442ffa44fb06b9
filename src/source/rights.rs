//! Checks what a source's owner may read. Each run checks again, because permissions can be
//! revoked.

use pgrx::pg_sys;
use rag_protocol::spec::{RequiredRight, SourceSpec};

use crate::{error::Error, pg::roles, settings};

/// # Errors
/// The source's owner may not read what the source names.
pub fn check(spec: &SourceSpec, owner: pg_sys::Oid) -> Result<(), Error> {
    match spec.required_right() {
        RequiredRight::None => Ok(()),
        RequiredRight::ServerFiles => roles::require_server_files(owner),
        RequiredRight::Superuser(action) => roles::require_superuser(owner, action),
        RequiredRight::PlainHttp(_) if !settings::network().allowed_private_hosts.is_empty() => {
            Ok(())
        }
        RequiredRight::PlainHttp(url) => Err(Error::invalid_parameter(format!(
            "\"{url}\" does not start with https://"
        ))
        .hint("Only hosts in rag.allowed_private_hosts can be used over http.")),
    }
}
