//! Settings of the server: read, changed for the duration of a call, or set for the process.

use super::spi::as_caller;
use crate::error::Error;

pub use super::process::{
    reload_settings, reset_setting, set_for_transaction, set_setting, setting, with_settings,
};

/// Returns what ALTER DATABASE ... SET gives a setting for all sessions of the current database.
pub fn database_setting(name: &str) -> Result<Option<String>, Error> {
    let found = as_caller(|caller| {
        caller.query(
            "SELECT substr(c, strpos(c, '=') + 1) AS value
             FROM pg_db_role_setting s
                  JOIN pg_database d ON d.oid = s.setdatabase,
                  unnest(s.setconfig) AS c
             WHERE d.datname = current_database() AND s.setrole = 0
                   AND lower(c) LIKE $1 || '=%'",
            &[name.into()],
            |row| row.required("value"),
        )
    })?;
    Ok(found.into_iter().next())
}
