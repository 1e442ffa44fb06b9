//! Rights on collections: grant, revoke, give away.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::{
    catalog::{
        access::{self, Privilege},
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
    let privilege = Privilege::parse(required("privilege", privilege)?)?;
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
    let privilege = privilege.map(Privilege::parse).transpose()?;
    let role = access::grantee(required("role", role)?)?;
    Ok(access::revoke(&collection, &role, privilege)?)
}

#[pg_extern]
fn rag_alter_collection_owner(
    collection: Option<&str>,
    owner: Option<&str>,
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_alter_collection_owner()");
    let collection = owned(collection, "give away collection")?;
    let owner = roles::future_owner(required("owner", owner)?, "collection")?;
    Ok(access::set_owner(&collection, &owner)?)
}

/// The collection, for whose owner the caller may act.
fn owned(collection: Option<&str>, to_do: &str) -> Result<Collection, ErrorReport> {
    let collection = Collection::get(required("collection", collection)?)?;
    access::require_owner(&collection, to_do)?;
    Ok(collection)
}
