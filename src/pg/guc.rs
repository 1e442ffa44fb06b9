//! Settings of the server: read, changed for the duration of a call, or set for the process.

use super::{security::with_safe_search_path, spi::query};
use crate::error::Error;

pub use super::process::{reload_settings, reset_setting, set_setting, setting, with_settings};

/// Returns what ALTER DATABASE ... SET gives a setting for all sessions of the current database.
pub fn database_setting(name: &str) -> Result<Option<String>, Error> {
    let found = with_safe_search_path(|| {
        query(
            "SELECT pg_catalog.substr(c, pg_catalog.strpos(c, '=') + 1)
             FROM pg_catalog.pg_db_role_setting s
                  JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase,
                  pg_catalog.unnest(s.setconfig) AS c
             WHERE d.datname = pg_catalog.current_database() AND s.setrole = 0
                   AND pg_catalog.lower(c) LIKE $1 || '=%'",
            &[name.into()],
            |row| row.required(1),
        )
    })?;
    Ok(found.into_iter().next())
}

/// Sets a setting until the transaction ends, as `SET LOCAL` does. Settings that no extension
/// defines are allowed, if their names have a dot.
pub fn set_for_transaction(name: &str, value: &str) -> Result<(), Error> {
    query(
        "SELECT pg_catalog.set_config($1, $2, true)",
        &[name.into(), value.into()],
        |_| Ok(()),
    )?;
    Ok(())
}
