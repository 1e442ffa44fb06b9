//! Who may do what.
#![allow(unsafe_code)] // role membership

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::error::Error;

pub const ADMIN: &CStr = c"rag_admin";
const READ_SERVER_FILES: &CStr = c"pg_read_server_files";

/// The role whose rights the present command has.
pub fn current() -> pg_sys::Oid {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::GetUserId() }
}

/// Its name.
pub fn current_name() -> Result<String, Error> {
    name_of(current()).ok_or_else(|| Error::undefined("the present role was dropped"))
}

/// The role that owns something. Its OID decides who has rights on it; the name is for people, and
/// for dumps, which know roles by their names alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `InvalidOid` where a dump named a role that there was not.
    pub id: pg_sys::Oid,
    /// The present name, or, where there is no such role any more, the last one that is known.
    pub name: String,
}

impl Owner {
    /// The present role.
    pub fn current() -> Result<Self, Error> {
        Ok(Self {
            id: current(),
            name: current_name()?,
        })
    }

    /// The owner that a row names by its columns `owner_id` and `owner`.
    pub fn stored(id: pg_sys::Oid, name: String) -> Self {
        Self {
            id,
            name: name_of(id).unwrap_or(name),
        }
    }

    /// The role, which exists.
    ///
    /// # Errors
    /// The role was dropped, or a dump was restored where there was no role of this name.
    pub fn role(&self) -> Result<pg_sys::Oid, Error> {
        if name_of(self.id).is_some() {
            return Ok(self.id);
        }
        Err(Error::undefined(format!("role \"{}\", which owns the source, does not exist", self.name)).hint(
            "A later role of the same name has no rights on it. A superuser can name another owner: \
             rag_alter_source(name, owner => ...).",
        ))
    }

    /// Whether this is the role that has the name now.
    pub fn is_named(&self, name: &str) -> bool {
        self.id != pg_sys::InvalidOid && by_name(name) == Some(self.id)
    }
}

/// The name of a role, if there is one of this OID.
pub fn name_of(role: pg_sys::Oid) -> Option<String> {
    // SAFETY: the name of an existing role, copied; NULL where there is none.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// The role that has a name.
pub fn by_name(name: &str) -> Option<pg_sys::Oid> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: a system-cache look-up.
    let role = unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
    (role != pg_sys::InvalidOid).then_some(role)
}

/// Whether the present role is a member of `rag_admin`.
pub fn is_admin() -> bool {
    has_privileges_of(current(), ADMIN)
}

/// # Errors
/// The present role is not a member of `rag_admin`.
pub fn require_admin(to_do: &str) -> Result<(), Error> {
    if is_admin() {
        return Ok(());
    }
    Err(
        Error::permission_denied(format!("permission denied to {to_do}"))
            .hint("Only members of rag_admin may."),
    )
}

/// # Errors
/// `role` may not read files of the server's.
pub fn require_server_files(role: pg_sys::Oid) -> Result<(), Error> {
    if has_privileges_of(role, READ_SERVER_FILES) {
        return Ok(());
    }
    Err(
        Error::permission_denied("permission denied to read files of the server")
            .hint("Only superusers and members of pg_read_server_files may."),
    )
}

/// The role that is to own something (`of` says what) that the present role makes or gives away.
///
/// # Errors
/// There is no such role, or the present one may not act for it.
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
    .hint("Only members of that role, and superusers, may."))
}

/// # Errors
/// `role` is not a superuser.
pub fn require_superuser(role: pg_sys::Oid, to_do: &str) -> Result<(), Error> {
    if is_superuser(role) {
        return Ok(());
    }
    Err(
        Error::permission_denied(format!("permission denied to {to_do}"))
            .hint("Only superusers may."),
    )
}

/// Whether `role` may act for `other`, a role by name that exists.
pub fn has_privileges_of(role: pg_sys::Oid, other: &CStr) -> bool {
    // SAFETY: system-cache look-ups.
    unsafe {
        let other = pg_sys::get_role_oid(other.as_ptr(), true);
        other != pg_sys::InvalidOid && pg_sys::has_privs_of_role(role, other)
    }
}

/// Whether there is a role of this OID and it is a superuser.
pub fn is_superuser(role: pg_sys::Oid) -> bool {
    // SAFETY: a system-cache look-up; no role has the invalid OID.
    unsafe { pg_sys::superuser_arg(role) }
}

/// Whether `role` is a superuser, or has the privileges of `other`. Nobody else has those of a role
/// that does not exist.
pub fn may_act_for(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    // SAFETY: a system-cache look-up.
    is_superuser(role)
        || name_of(other).is_some() && unsafe { pg_sys::has_privs_of_role(role, other) }
}

/// Whether `role` can SET ROLE to `other`.
pub fn may_become(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    // SAFETY: system-cache look-ups.
    unsafe {
        #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
        return pg_sys::is_member_of_role(role, other);
        #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
        return pg_sys::member_can_set_role(role, other);
    }
}
