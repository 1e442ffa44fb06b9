//! Names and external ids of collections. They are one name space: otherwise the owner of a
//! collection could give it the external id of another one, and answer in its place. Each that is
//! given to a collection is locked until the transaction ends, so that no other session gives it at
//! the same time.

use crate::{
    catalog::{
        collections::{self, Collection, OtherUse},
        name::Name,
    },
    error::Error,
    pg::{lock::Lock, spi::OwnerRights},
};

/// Locks a name.
///
/// # Errors
/// The name is the external id of another collection than `of`.
pub fn claim(owner: &OwnerRights, name: &Name, of: Option<&Collection>) -> Result<(), Error> {
    Lock::collection_name(name.as_str()).acquire_for_transaction();
    if !collections::is_external_id_of_another(owner, name, of)? {
        return Ok(());
    }
    Err(
        Error::duplicate(format!("collection name \"{name}\" is already in use"))
            .detail("It is the external id of another collection.")
            .hint("Use another name."),
    )
}

/// Locks an external id.
///
/// # Errors
/// `id` is empty, or is the external id or the name of another collection than `of`.
pub fn claim_external_id(
    owner: &OwnerRights,
    id: &str,
    of: Option<&Collection>,
) -> Result<(), Error> {
    if id.trim().is_empty() {
        return Err(Error::invalid_parameter("external_id must not be empty")
            .hint("Use NULL for a collection without an external id."));
    }
    Lock::collection_name(id).acquire_for_transaction();
    let what = match collections::other_use(owner, id, of)? {
        None => return Ok(()),
        Some(OtherUse::Name) => "name",
        Some(OtherUse::ExternalId) => "external id",
    };
    Err(
        Error::duplicate(format!("external_id \"{id}\" is already in use"))
            .detail(format!("It is the {what} of another collection.")),
    )
}
