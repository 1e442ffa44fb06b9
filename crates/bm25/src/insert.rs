//! Adding a document.

use rag_pages::{IndexError, LockMode, ReusePages, Tid};

use crate::{
    locks::{APPEND, locked},
    maintain::relieve,
    pending::{append, is_single},
    terms::Terms,
};

/// Adds a document without checking whether its row has one already. A document without terms is
/// not stored.
///
/// If the pending list is long, its documents become a segment, and small segments are merged. It
/// waits for no session that does more than that.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn insert(pages: &impl ReusePages, tid: Tid, terms: &Terms) -> Result<(), IndexError> {
    if terms.is_empty() {
        return Ok(());
    }
    let length = if is_single(terms) {
        append(pages, tid, terms)?
    } else {
        locked(pages, APPEND, LockMode::Shared, || {
            append(pages, tid, terms)
        })?
    };
    relieve(pages, length)
}
