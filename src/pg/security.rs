//! Runs code with the rights of another role, and with a `search_path` in which nobody can plant
//! objects.

use pgrx::pg_sys;

use super::{extension::owner, guc::with_settings, process::with_user};

/// Runs `f` with the rights of the extension's owner and a safe search_path.
///
/// An ERROR in between aborts the (sub)transaction, which restores both.
pub fn as_owner<R>(f: impl FnOnce() -> R) -> R {
    with_user(owner(), pg_sys::SECURITY_LOCAL_USERID_CHANGE, || {
        with_safe_search_path(f)
    })
}

/// Runs `f` as the owner of a table, whose expressions and conditions may call functions of that
/// owner. They get none of the caller's rights and leave nothing behind for it. The search_path is
/// safe, so the owner does not run a function of the caller's either.
pub fn as_table_owner<R>(owner: pg_sys::Oid, f: impl FnOnce() -> R) -> R {
    with_user(owner, pg_sys::SECURITY_RESTRICTED_OPERATION, || {
        with_safe_search_path(f)
    })
}

/// Runs `f` as the owner of a source, for which the caller may act, with a safe search_path.
pub fn as_source_owner<R>(owner: pg_sys::Oid, f: impl FnOnce() -> R) -> R {
    with_user(owner, pg_sys::SECURITY_LOCAL_USERID_CHANGE, || {
        with_safe_search_path(f)
    })
}

/// Runs `f` with the caller's rights and a search_path in which nobody can create objects.
pub fn with_safe_search_path<R>(f: impl FnOnce() -> R) -> R {
    with_settings(&[(c"search_path", c"pg_catalog, pg_temp")], f)
}
