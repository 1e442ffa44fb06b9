//! Metadata keys that chunks carry.

use std::collections::HashSet;

use crate::error::Error;

/// Returns the metadata keys that chunks carry, or None for all.
///
/// # Errors
/// A key is empty or duplicate.
pub fn checked(keys: Vec<String>) -> Result<Option<Vec<String>>, Error> {
    let mut seen = HashSet::new();
    for key in &keys {
        if key.is_empty() {
            return Err(Error::invalid_parameter(
                "metadata_whitelist must not contain an empty key",
            ));
        }
        if !seen.insert(key) {
            return Err(Error::invalid_parameter(format!(
                "duplicate key \"{key}\" in metadata_whitelist"
            )));
        }
    }
    Ok((!keys.is_empty()).then_some(keys))
}
