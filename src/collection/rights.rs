//! Who may do what with a collection: the errors that say so. [`crate::catalog::access`] has the
//! rights themselves.

use pgrx::{pg_sys, spi::quote_literal};

use crate::{
    catalog::{
        access::{CollectionPrivilege, may_write},
        collections::Collection,
    },
    error::Error,
    pg::roles::{self, Owner},
};

/// Returns the privilege of this name.
///
/// # Errors
/// There is none.
pub fn privilege(name: &str) -> Result<CollectionPrivilege, Error> {
    CollectionPrivilege::parse(name).ok_or_else(|| {
        let shown: String = name.chars().take(80).collect();
        Error::invalid_parameter(format!("unknown privilege \"{shown}\""))
            .hint("Valid privileges are \"read\" and \"write\". \"write\" includes \"read\".")
    })
}

/// # Errors
/// The current role may not read the collection.
pub fn require_read(collection: &Collection) -> Result<(), Error> {
    require(roles::current(), collection, CollectionPrivilege::Read)
}

/// # Errors
/// The current role may not write to the collection.
pub fn require_write(collection: &Collection) -> Result<(), Error> {
    require(roles::current(), collection, CollectionPrivilege::Write)
}

/// # Errors
/// `role` does not have this privilege on the collection.
pub fn require(
    role: pg_sys::Oid,
    collection: &Collection,
    privilege: CollectionPrivilege,
) -> Result<(), Error> {
    if collection.rights.allow(role, privilege) {
        return Ok(());
    }
    let (name, role) = (
        collection.name.as_str(),
        roles::name_of(role).unwrap_or_default(),
    );
    let what = match privilege {
        CollectionPrivilege::Read => "read",
        CollectionPrivilege::Write => "write to",
    };
    let call = format!(
        "SELECT rag_grant_collection({}, {}, '{}')",
        quote_literal(name),
        quote_literal(&role),
        privilege.name()
    );
    Err(
        Error::permission_denied(format!("permission denied to {what} collection \"{name}\""))
            .detail(format!(
                "Role \"{role}\" does not own the collection and does not have the privilege \
                 \"{}\" on it.",
                privilege.name()
            ))
            .hint(format!("The owner can grant the privilege: {call}.")),
    )
}

/// # Errors
/// The current role is not a member of the role that owns the collection.
pub fn require_owner(collection: &Collection, action: &str) -> Result<(), Error> {
    if collection.rights.is_owner(roles::current()) {
        return Ok(());
    }
    Err(Error::permission_denied(format!(
        "permission denied to {action} \"{}\"",
        collection.name
    ))
    .hint("Must be a member of the role that owns the collection."))
}

/// # Errors
/// The current role is neither a member of the role that owns the source, nor a member of rag_admin
/// with the privilege `write` on its collection. If `source` is None, the error is the same for all
/// but members of rag_admin.
pub fn require_source_manager(source: Option<(&Owner, &str)>, action: &str) -> Result<(), Error> {
    let is_allowed = match source {
        Some((owner, _)) if roles::may_act_for(roles::current(), owner.id) => true,
        Some((_, collection)) => roles::is_admin() && may_write(collection)?,
        None => roles::is_admin(),
    };
    if is_allowed {
        return Ok(());
    }
    Err(
        Error::permission_denied(format!("permission denied to {action}")).hint(
            "Must be a member of the role that owns the source, or a member of role rag_admin that \
             may write to the source's collection.",
        ),
    )
}
