//! Servers that collections had before.

use crate::{error::Error, pg::roles, storage::outbox::removals};

/// Forgets what former servers could not delete, of a collection that may have been dropped, or of
/// all that the caller may answer for. What they have stays there.
///
/// # Errors
/// A statement fails.
pub fn forget(collection: Option<&str>) -> Result<(), Error> {
    for failed in removals::failed(collection)? {
        if roles::may_act_for(roles::current(), failed.owner) {
            removals::done(failed.removal)?;
            pgrx::notice!(
                "what {} has of collection \"{}\" stays there",
                failed.url,
                failed.collection
            );
        }
    }
    Ok(())
}
