//! Adding a document.

use rag_pages::{IndexError, LockMode, ReusePages, Tid};

use crate::{
    maintain::{Effort, SPILL_PAGES, locked, maintain},
    pending::{append, is_single},
    terms::Terms,
};

/// Inserts wait for the maintenance lock when the pending list has so many pages. Otherwise a long
/// merge would let it grow, and searches read all of it.
const WAIT_PAGES: u32 = 8 * SPILL_PAGES;

/// Adds a document without checking whether its row has one already. A document without terms is
/// not stored.
///
/// If the pending list is long, its documents become a segment, and small segments are merged.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn insert(pages: &impl ReusePages, tid: Tid, terms: &Terms) -> Result<(), IndexError> {
    if terms.is_empty() {
        return Ok(());
    }
    if !is_single(terms) {
        return locked(pages, || {
            let length = append(pages, tid, terms)?;
            relieve(pages, length)
        });
    }
    let length = append(pages, tid, terms)?;
    if length >= WAIT_PAGES {
        locked(pages, || relieve(pages, length))
    } else if length >= SPILL_PAGES && pages.try_lock(LockMode::Exclusive) {
        let result = relieve(pages, length);
        pages.unlock(LockMode::Exclusive);
        result
    } else {
        Ok(())
    }
}

fn relieve(pages: &impl ReusePages, length: u32) -> Result<(), IndexError> {
    if length >= SPILL_PAGES {
        maintain(pages, Effort::Insert)
    } else {
        Ok(())
    }
}
