//! Permissions on collections: grant, revoke, change the owner.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::{
    catalog::{
        access::{self, CollectionPrivilege},
        collections::Collection,
    },
    pg::roles,
};

#[pg_extern]
fn rag_grant_collection(
    collection: Option<&str>,
    role: Option<&str>,
    privilege: Option<&str>,
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_grant_collection()");
    let collection = owned(collection, "grant privileges on collection")?;
    let privilege = CollectionPrivilege::parse(required("privilege", privilege)?)?;
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
    let privilege = privilege.map(CollectionPrivilege::parse).transpose()?;
    let role = access::grantee(required("role", role)?)?;
    Ok(access::revoke(&collection, &role, privilege)?)
}

#[pg_extern]
fn rag_alter_collection_owner(
    collection: Option<&str>,
    owner: Option<&str>,
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_alter_collection_owner()");
    let collection = owned(collection, "change the owner of collection")?;
    let owner = roles::future_owner(required("owner", owner)?, "collection")?;
    Ok(access::set_owner(&collection, &owner)?)
}

/// Returns a collection that the caller owns.
fn owned(collection: Option<&str>, action: &str) -> Result<Collection, ErrorReport> {
    let collection = Collection::get(required("collection", collection)?)?;
    access::require_owner(&collection, action)?;
    Ok(collection)
}
