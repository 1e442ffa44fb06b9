//! Settings of the server: changed for the time of a call, and read.
#![allow(unsafe_code)] // the GUC stack

use std::ffi::CStr;

use pgrx::pg_sys;

use super::{security::pinned, spi::query};
use crate::error::Error;

/// Runs `f` with other settings, which everyone may change.
///
/// An ERROR in between aborts the (sub)transaction, which restores them.
pub fn with_settings<R>(settings: &[(&CStr, &CStr)], f: impl FnOnce() -> R) -> R {
    // SAFETY: the GUC nesting level that a function with SET has.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (name, value) in settings {
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        let result = f();
        pg_sys::AtEOXact_GUC(false, level);
        result
    }
}

/// What ALTER DATABASE ... SET says of a setting for every session of the present database.
pub fn database_setting(name: &str) -> Result<Option<String>, Error> {
    let found = pinned(|| {
        query(
            "SELECT pg_catalog.substr(c, pg_catalog.strpos(c, '=') + 1)
             FROM pg_catalog.pg_db_role_setting s JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase,
                  pg_catalog.unnest(s.setconfig) AS c
             WHERE d.datname = pg_catalog.current_database() AND s.setrole = 0 AND pg_catalog.lower(c) LIKE $1 || '=%'",
            &[name.into()],
            |row| row.required(1),
        )
    })?;
    Ok(found.into_iter().next())
}
