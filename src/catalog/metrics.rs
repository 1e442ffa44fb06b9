//! The rows of the view `rag.metrics`.

use crate::{
    error::Error,
    pg::{guc::with_settings, spi::Rights},
};

/// Returns the metrics that a role can read, as an array of objects in JSON.
///
/// # Errors
/// The statement fails, for example because the role may not read the view.
pub fn rows(rights: &Rights) -> Result<String, Error> {
    // compiling the statement would take longer than running it
    let found = with_settings(&[(c"jit", c"off")], || {
        rights.query(
            "SELECT coalesce(json_agg(m), '[]')::text AS rows FROM rag.metrics m",
            &[],
            |row| row.required("rows"),
        )
    })?;
    Ok(found.into_iter().next().unwrap_or_default())
}
