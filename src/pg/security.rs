//! Runs code with the rights of another role, and with a `search_path` that nobody can plant
//! objects in.
#![allow(unsafe_code)] // user ids

use pgrx::pg_sys;

use super::{extension::owner, guc::with_settings};

/// Runs `f` with the rights of the extension's owner and a pinned search_path.
///
/// An ERROR in between aborts the (sub)transaction, which restores both.
pub fn as_owner<R>(f: impl FnOnce() -> R) -> R {
    as_role(owner(), pg_sys::SECURITY_LOCAL_USERID_CHANGE, || pinned(f))
}

/// Runs `f` as the owner of a table, whose expressions and conditions may call functions of the
/// owner's: those get no rights of the caller's, and can leave nothing behind for it. Nor does the
/// owner get a function of the caller's to run: the search_path is pinned.
pub fn as_table_owner<R>(owner: pg_sys::Oid, f: impl FnOnce() -> R) -> R {
    as_role(owner, pg_sys::SECURITY_RESTRICTED_OPERATION, || pinned(f))
}

/// Runs `f` as the owner of a source, for whom the caller may act, with a search_path in which
/// nobody can put anything.
pub fn as_source_owner<R>(owner: pg_sys::Oid, f: impl FnOnce() -> R) -> R {
    as_role(owner, pg_sys::SECURITY_LOCAL_USERID_CHANGE, || pinned(f))
}

/// Runs `f` as another role; `restriction` is one of Postgres's SECURITY_ flags.
fn as_role<R>(role: pg_sys::Oid, restriction: u32, f: impl FnOnce() -> R) -> R {
    // SAFETY: the pair of calls that Postgres itself uses to change the current user for a while.
    unsafe {
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        pg_sys::SetUserIdAndSecContext(role, context | restriction as i32);
        let result = f();
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}

/// Runs `f` with the caller's rights and a search_path in which nobody can put anything.
pub fn pinned<R>(f: impl FnOnce() -> R) -> R {
    with_settings(&[(c"search_path", c"pg_catalog, pg_temp")], f)
}
