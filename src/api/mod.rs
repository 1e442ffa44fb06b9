//! The functions that users call, a file per noun. Each converts its arguments, calls the domain, converts the result.
//! `sql/privileges.sql` says who may execute them; comments are in `sql/comments.sql`.

#![allow(unsafe_code)] // one check of the server's

mod collection;
mod document;
mod model;
mod search;
mod source;

use std::ffi::CStr;

use crate::{catalog::roles, error::Error};

/// What every function that changes something asks first. `function` is its name, `to_do` what it does.
///
/// # Errors
/// The server is a standby (raised as Postgres does it), or the caller may not.
fn require_writer(function: &CStr, to_do: &str) -> Result<(), Error> {
    // SAFETY: looks at the server's state and may raise an ERROR.
    unsafe { pgrx::pg_sys::PreventCommandDuringRecovery(function.as_ptr()) };
    roles::require_admin(to_do)
}
