//! Permissions on collections: grant, revoke.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::{
    catalog::{access, collections::Collection},
    collection::rights,
};

#[pg_extern]
fn rag_grant_collection(
    collection: Option<&str>,
    role: Option<&str>,
    privilege: Option<&str>,
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_grant_collection()");
    let collection = owned(collection, "grant privileges on collection")?;
    let privilege = rights::privilege(required("privilege", privilege)?)?;
    let role = access::grantee(required("role", role)?)?;
    Ok(access::grant(&collection, &role, privilege)?)
}

#[pg_extern]
fn rag_revoke_collection(
    collection: Option<&str>,
    role: Option<&str>,
    privilege: pgrx::default!(Option<&str>, "NULL"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_revoke_collection()");
    let collection = owned(collection, "revoke privileges on collection")?;
    let privilege = privilege.map(rights::privilege).transpose()?;
    let role = access::grantee(required("role", role)?)?;
    Ok(access::revoke(&collection, &role, privilege)?)
}

/// Returns a collection that the caller owns.
fn owned(collection: Option<&str>, action: &str) -> Result<Collection, ErrorReport> {
    let collection = Collection::get(required("collection", collection)?)?;
    rights::require_owner(&collection, action)?;
    Ok(collection)
}
