//! The functions that users call, a file per noun. Each converts its arguments, calls the domain,
//! converts the result. `sql/privileges.sql` says what each is for and who may execute it.

#![allow(unsafe_code)] // one check of the server's

mod access;
mod collection;
mod document;
mod drift;
mod knowledge;
mod manifest;
mod model;
mod run;
mod schedule;
mod search;
mod secret;
mod source;
mod status;

use std::ffi::CStr;

use crate::{
    catalog::{access::require_write, collections::Collection},
    error::Error,
    pg::roles,
};

/// The value of an argument that must not be NULL.
///
/// # Errors
/// It is.
fn required<T>(name: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::null_not_allowed(format!("{name} must not be NULL")))
}

/// The collection that a function is to write into.
///
/// # Errors
/// There is none of that name, or the caller may not write into it.
fn writable(name: Option<&str>) -> Result<Collection, Error> {
    let collection = Collection::get(required("collection", name)?)?;
    require_write(&collection)?;
    Ok(collection)
}

/// The elements of an array argument, which may be NULL while they may not.
///
/// # Errors
/// An element is NULL.
fn without_nulls(
    name: &str,
    array: Option<Vec<Option<String>>>,
) -> Result<Option<Vec<String>>, Error> {
    array
        .map(|elements| {
            required(
                &format!("an element of {name}"),
                elements.into_iter().collect(),
            )
        })
        .transpose()
}

/// What every function that changes something asks first. `function` is its name, `to_do` what it
/// does.
///
/// # Errors
/// The server is a standby (raised as Postgres does it), or the caller may not.
fn require_writer(function: &CStr, to_do: &str) -> Result<(), Error> {
    prevent_on_standby(function);
    roles::require_admin(to_do)
}

/// Raises the error for a command that writes where the server is a standby.
fn prevent_on_standby(function: &CStr) {
    // SAFETY: looks at the server's state and may raise an ERROR.
    unsafe { pgrx::pg_sys::PreventCommandDuringRecovery(function.as_ptr()) };
}
