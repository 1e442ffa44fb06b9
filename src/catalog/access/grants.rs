//! Grants on collections, and their owners.

use super::{CollectionPrivilege, PUBLIC, PUBLIC_NAME};
use crate::{
    catalog::collections::Collection,
    error::Error,
    pg::{
        roles::{self, Owner},
        spi::{OwnerRights, as_owner},
    },
};

/// Returns the role that a grant names. `public` stands for all roles.
///
/// # Errors
/// No role has this name.
pub fn grantee(name: &str) -> Result<Owner, Error> {
    if name.eq_ignore_ascii_case(PUBLIC_NAME) {
        return Ok(Owner {
            id: PUBLIC,
            name: PUBLIC_NAME.to_string(),
        });
    }
    let id = roles::by_name(name)
        .ok_or_else(|| Error::undefined(format!("role \"{name}\" does not exist")))?;
    Ok(Owner {
        id,
        name: name.to_string(),
    })
}

/// Grants a privilege. Does nothing if it is granted already.
///
/// # Errors
/// The collection was dropped in the meantime.
pub fn grant(
    collection: &Collection,
    to: &Owner,
    privilege: CollectionPrivilege,
) -> Result<(), Error> {
    as_owner(|owner| {
        forget_dropped_roles(owner, collection)?;
        owner.execute(
            // pgrx passes InvalidOid as NULL
            "INSERT INTO rag_internal.collection_grant (collection, role, role_id, privilege)
             VALUES ($1, $2, coalesce($3, 0::oid), $4)
             ON CONFLICT (collection, role_id, privilege) DO UPDATE SET role = excluded.role",
            &[
                collection.name.as_str().into(),
                to.name.as_str().into(),
                to.id.into(),
                privilege.name().into(),
            ],
        )
    })?;
    Ok(())
}

/// Revokes a privilege, or all if `privilege` is None. Revoking `read` also revokes `write`. Does
/// nothing if the privilege was not granted.
pub fn revoke(
    collection: &Collection,
    from: &Owner,
    privilege: Option<CollectionPrivilege>,
) -> Result<(), Error> {
    let is_write_alone = privilege == Some(CollectionPrivilege::Write);
    as_owner(|owner| {
        forget_dropped_roles(owner, collection)?;
        owner.execute(
            "DELETE FROM rag_internal.collection_grant
             WHERE collection = $1 AND role_id = coalesce($2, 0::oid)
               AND (privilege = 'write' OR NOT $3)",
            &[
                collection.name.as_str().into(),
                from.id.into(),
                is_write_alone.into(),
            ],
        )
    })?;
    Ok(())
}

/// Deletes the grants to dropped roles. They have no effect.
fn forget_dropped_roles(owner: &OwnerRights, collection: &Collection) -> Result<usize, Error> {
    owner.execute(
        "DELETE FROM rag_internal.collection_grant g
         WHERE g.collection = $1 AND g.role_id IS DISTINCT FROM 0
             AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = g.role_id)",
        &[collection.name.as_str().into()],
    )
}

/// Changes the owner of a collection.
pub fn set_owner(collection: &Collection, owner: &Owner) -> Result<(), Error> {
    as_owner(|rights| {
        rights.execute(
            "UPDATE rag_internal.collection SET owner = $2, owner_id = $3 WHERE name = $1",
            &[
                collection.name.as_str().into(),
                owner.name.as_str().into(),
                owner.id.into(),
            ],
        )
    })?;
    Ok(())
}
