//! Tokens of rights, and the functions that lend them.

use std::{ffi::c_int, marker::PhantomData, ops::Deref};

use pgrx::pg_sys;

use crate::{
    error::Error,
    pg::{
        extension,
        process::{
            CurrentUser, begin_settings, current_user, end_settings, restore_user, set_user,
        },
        transaction::transaction,
        version::explained,
    },
};

/// A token: the rights of a role, with a `search_path` in which nobody can create objects. Only
/// through a token do statements run.
///
/// Only the functions of this file make one. They lend it to a closure, which cannot keep it.
pub struct Rights {
    role: pg_sys::Oid,
    // the session has them, not another thread
    session: PhantomData<*const ()>,
}

impl Rights {
    /// Checks that the session still has these rights.
    ///
    /// # Errors
    /// An inner closure has the rights of another role. It has a token of its own.
    pub fn check(&self) -> Result<(), Error> {
        if current_user() == self.role {
            return Ok(());
        }
        Err(Error::internal(
            "a statement would run with the rights of another role",
        ))
    }
}

/// The rights of the extension's owner, who alone may write the extension's tables.
pub struct OwnerRights(Rights);

impl Deref for OwnerRights {
    type Target = Rights;

    fn deref(&self) -> &Rights {
        &self.0
    }
}

/// Runs `f` with the rights of the extension's owner.
///
/// An ERROR in between aborts the (sub)transaction, which restores the caller's.
pub fn as_owner<R>(f: impl FnOnce(&OwnerRights) -> R) -> R {
    let local = pg_sys::SECURITY_LOCAL_USERID_CHANGE;
    explained(|| {
        lend(Some((extension::owner(), local)), |rights| {
            f(&OwnerRights(rights))
        })
    })
}

/// Runs `f` with the rights of the extension's owner, in a transaction of a worker.
///
/// # Errors
/// What `f` returned or raised. The transaction is rolled back then.
pub fn owner_transaction<R>(f: impl FnOnce(&OwnerRights) -> Result<R, Error>) -> Result<R, Error> {
    transaction(|| as_owner(f))
}

/// Runs `f` as the owner of a table, whose expressions and conditions may call functions of that
/// owner. They get none of the caller's rights and leave nothing behind for it. The owner does not
/// run a function of the caller's either.
pub fn as_table_owner<R>(owner: pg_sys::Oid, f: impl FnOnce(&Rights) -> R) -> R {
    let restricted = pg_sys::SECURITY_RESTRICTED_OPERATION;
    lend(Some((owner, restricted)), |rights| f(&rights))
}

/// Runs `f` as the owner of a source, for which the caller may act.
pub fn as_source_owner<R>(owner: pg_sys::Oid, f: impl FnOnce(&Rights) -> R) -> R {
    let local = pg_sys::SECURITY_LOCAL_USERID_CHANGE;
    lend(Some((owner, local)), |rights| f(&rights))
}

/// Runs `f` with the caller's rights.
pub fn as_caller<R>(f: impl FnOnce(&Rights) -> R) -> R {
    lend(None, |rights| f(&rights))
}

/// Runs `f` as another role, if one is given with one of Postgres's SECURITY_ flags.
fn lend<R>(role: Option<(pg_sys::Oid, u32)>, f: impl FnOnce(Rights) -> R) -> R {
    let (rights, before) = take(role);
    let result = f(rights);
    restore(before);
    result
}

/// What the session returns to when it gives rights back.
struct Before {
    user: Option<CurrentUser>,
    settings: c_int,
}

fn take(role: Option<(pg_sys::Oid, u32)>) -> (Rights, Before) {
    let before = Before {
        user: role.map(|(role, restriction)| set_user(role, restriction)),
        settings: begin_settings(&[(c"search_path", c"pg_catalog, pg_temp")]),
    };
    let rights = Rights {
        role: current_user(),
        session: PhantomData,
    };
    (rights, before)
}

fn restore(before: Before) {
    end_settings(before.settings);
    if let Some(user) = before.user {
        restore_user(user);
    }
}
