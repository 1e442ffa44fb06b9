//! Who may do what.

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
    // SAFETY: the name of an existing role, copied.
    let name = unsafe { std::ffi::CStr::from_ptr(pg_sys::GetUserNameFromId(current(), false)) };
    Ok(name.to_string_lossy().into_owned())
}

/// The role that owns something.
///
/// # Errors
/// It was dropped or renamed.
pub fn owner(name: &str) -> Result<pg_sys::Oid, Error> {
    let role = std::ffi::CString::new(name).unwrap_or_default();
    // SAFETY: a system-cache look-up.
    match unsafe { pg_sys::get_role_oid(role.as_ptr(), true) } {
        pg_sys::InvalidOid => Err(Error::undefined(format!("role \"{name}\", which owns the source, does not exist"))
            .hint("Drop the source and create it again as another role; its documents can stay.")),
        role => Ok(role),
    }
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
    Err(Error::permission_denied(format!("permission denied to {to_do}")).hint("Only members of rag_admin may."))
}

/// # Errors
/// The present role is neither a member of `rag_admin` nor of `owner`. Without an owner, as of something that is not there, others
/// are told the same.
pub fn require_owner_or_admin(owner: Option<&str>, to_do: &str) -> Result<(), Error> {
    if is_admin() || owner.is_some_and(|owner| may_act_for(current(), owner)) {
        return Ok(());
    }
    Err(Error::permission_denied(format!("permission denied to {to_do}"))
        .hint("Only members of the role that owns it, and of rag_admin, may."))
}

/// # Errors
/// `role` may not read files of the server's.
pub fn require_server_files(role: pg_sys::Oid) -> Result<(), Error> {
    if has_privileges_of(role, READ_SERVER_FILES) {
        return Ok(());
    }
    Err(Error::permission_denied("permission denied to read files of the server")
        .hint("Only superusers and members of pg_read_server_files may."))
}

/// The role that is to own something that the present role makes.
///
/// # Errors
/// There is no such role, or the present one may not act for it.
pub fn future_owner(name: &str) -> Result<pg_sys::Oid, Error> {
    let role = std::ffi::CString::new(name).unwrap_or_default();
    // SAFETY: a system-cache look-up.
    let role = unsafe { pg_sys::get_role_oid(role.as_ptr(), true) };
    if role == pg_sys::InvalidOid {
        return Err(Error::undefined(format!("role \"{name}\" does not exist")));
    }
    if may_act_for(current(), name) {
        return Ok(role);
    }
    Err(Error::permission_denied(format!("permission denied to make role \"{name}\" the owner of a source"))
        .hint("Only members of that role, and superusers, may."))
}

/// # Errors
/// `role` is not a superuser.
pub fn require_superuser(role: pg_sys::Oid, to_do: &str) -> Result<(), Error> {
    // SAFETY: a system-cache look-up.
    if unsafe { pg_sys::superuser_arg(role) } {
        return Ok(());
    }
    Err(Error::permission_denied(format!("permission denied to {to_do}")).hint("Only superusers may."))
}

/// Whether `role` may act for `other`, a role by name that exists.
pub fn has_privileges_of(role: pg_sys::Oid, other: &CStr) -> bool {
    // SAFETY: system-cache look-ups.
    unsafe {
        let other = pg_sys::get_role_oid(other.as_ptr(), true);
        other != pg_sys::InvalidOid && pg_sys::has_privs_of_role(role, other)
    }
}

/// Whether there is a role of this name and it is a superuser.
pub fn is_superuser(name: &str) -> bool {
    let Ok(name) = std::ffi::CString::new(name) else { return false };
    // SAFETY: system-cache look-ups; no role has the invalid OID.
    unsafe { pg_sys::superuser_arg(pg_sys::get_role_oid(name.as_ptr(), true)) }
}

/// Whether `role` is a superuser, or may act for the role that has the name `other`.
pub fn may_act_for(role: pg_sys::Oid, other: &str) -> bool {
    // SAFETY: a system-cache look-up.
    let is_superuser = unsafe { pg_sys::superuser_arg(role) };
    is_superuser || std::ffi::CString::new(other).is_ok_and(|other| has_privileges_of(role, &other))
}
