//! Roles and their rights.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::{compat, lookup, process::database};
use crate::error::Error;

pub use super::{
    lookup::{is_superuser, role_name as name_of},
    process::current_user as current,
};

pub const ADMIN: &CStr = c"rag_admin";
const MONITOR: &CStr = c"pg_monitor";
const READ_SERVER_FILES: &CStr = c"pg_read_server_files";
const WRITE_SERVER_FILES: &CStr = c"pg_write_server_files";

/// Returns the name of the current role.
pub fn current_name() -> Result<String, Error> {
    name_of(current()).ok_or_else(|| Error::undefined("the current role was dropped"))
}

/// The role that owns something. Its OID decides which roles have rights on it. The name is for
/// people, and for dumps, which know roles only by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `InvalidOid` if a dump named a role that did not exist.
    pub id: pg_sys::Oid,
    /// The current name, or the last known one if the role was dropped.
    pub name: String,
}

impl Owner {
    /// Returns the current role.
    pub fn current() -> Result<Self, Error> {
        Ok(Self {
            id: current(),
            name: current_name()?,
        })
    }

    /// Returns the owner that a row names by its columns `owner_id` and `owner`.
    pub fn stored(id: pg_sys::Oid, name: String) -> Self {
        Self {
            id,
            name: name_of(id).unwrap_or(name),
        }
    }

    /// Returns the role.
    ///
    /// # Errors
    /// The role was dropped, or did not exist when a dump was restored.
    pub fn role(&self) -> Result<pg_sys::Oid, Error> {
        if name_of(self.id).is_some() {
            return Ok(self.id);
        }
        Err(Error::undefined(format!(
            "role \"{}\", which owns the source, does not exist",
            self.name
        ))
        .hint(
            "A later role of the same name has no rights on it. A superuser can name another \
             owner: rag_alter_source(name, owner => ...).",
        ))
    }

    /// Returns true if this is the role that has the name now.
    pub fn is_named(&self, name: &str) -> bool {
        self.id != pg_sys::InvalidOid && by_name(name) == Some(self.id)
    }
}

/// Returns the role of a name.
pub fn by_name(name: &str) -> Option<pg_sys::Oid> {
    lookup::role(&std::ffi::CString::new(name).ok()?)
}

/// Returns true if the current role is a member of `rag_admin`.
pub fn is_admin() -> bool {
    has_privileges_of(current(), ADMIN)
}

/// # Errors
/// The current role is not a member of `rag_admin`.
pub fn require_admin(to_do: &str) -> Result<(), Error> {
    if is_admin() {
        return Ok(());
    }
    Err(
        Error::permission_denied(format!("permission denied to {to_do}"))
            .hint("Must be a member of role rag_admin."),
    )
}

/// # Errors
/// The current role does not own the database.
pub fn require_database_owner(to_do: &str) -> Result<(), Error> {
    if compat::owns_database(database()) {
        return Ok(());
    }
    Err(
        Error::permission_denied(format!("permission denied to {to_do}"))
            .hint("Must be the owner of the database."),
    )
}

/// # Errors
/// `role` may not read files of the server.
pub fn require_server_files(role: pg_sys::Oid) -> Result<(), Error> {
    if has_privileges_of(role, READ_SERVER_FILES) {
        return Ok(());
    }
    Err(
        Error::permission_denied("permission denied to read files of the server")
            .hint("Must be superuser or a member of role pg_read_server_files."),
    )
}

/// # Errors
/// `role` may not write files of the server.
pub fn require_written_server_files(role: pg_sys::Oid) -> Result<(), Error> {
    if has_privileges_of(role, WRITE_SERVER_FILES) {
        return Ok(());
    }
    Err(
        Error::permission_denied("permission denied to write files of the server")
            .hint("Must be superuser or a member of role pg_write_server_files."),
    )
}

/// Returns the role that will own an object, which the current role creates or gives away. `of`
/// names the kind of object.
///
/// # Errors
/// There is no such role, or the current role may not act for it.
pub fn future_owner(name: &str, of: &str) -> Result<Owner, Error> {
    let Some(role) = by_name(name) else {
        return Err(Error::undefined(format!("role \"{name}\" does not exist")));
    };
    if may_act_for(current(), role) {
        return Ok(Owner {
            id: role,
            name: name.to_string(),
        });
    }
    Err(Error::permission_denied(format!(
        "permission denied to make role \"{name}\" the owner of a {of}"
    ))
    .hint(format!("Must be superuser or a member of role \"{name}\".")))
}

/// # Errors
/// `role` is not a superuser.
pub fn require_superuser(role: pg_sys::Oid, to_do: &str) -> Result<(), Error> {
    if is_superuser(role) {
        return Ok(());
    }
    Err(
        Error::permission_denied(format!("permission denied to {to_do}"))
            .hint("Must be superuser."),
    )
}

/// Returns true if `role` has the privileges of `pg_monitor`.
pub fn is_monitor(role: pg_sys::Oid) -> bool {
    has_privileges_of(role, MONITOR)
}

/// Returns true if the role `other` exists and `role` has its privileges.
pub fn has_privileges_of(role: pg_sys::Oid, other: &CStr) -> bool {
    lookup::role(other).is_some_and(|other| lookup::has_privileges_of(role, other))
}

/// Returns true if `role` is a superuser, or has the privileges of `other`. Only superusers have
/// those of a role that does not exist.
pub fn may_act_for(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    is_superuser(role) || name_of(other).is_some() && lookup::has_privileges_of(role, other)
}

/// Returns true if `role` is `other`, or a member of it, and not only because it is a superuser.
pub fn is_granted(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    name_of(other).is_some() && lookup::is_granted(role, other)
}

/// Returns true if `role` can SET ROLE to `other`.
pub fn may_become(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    compat::can_set_role(role, other)
}
