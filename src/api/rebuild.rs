//! Rebuilds of collections. `sql/rebuild.sql` declares these functions, which the procedure
//! `rag_rebuild_collection` calls.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::{collection::damage::explained, pg::transaction::require_no_block, sync::rebuild};

const ACTION: &str = "rebuild a collection";

/// `rag_internal.check_rebuild`.
#[pg_extern(sql = false)]
fn check_rebuild(collection: Option<&str>) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_rebuild_collection()", ACTION)?;
    require_no_block("rag_rebuild_collection")?;
    rebuild::check(required("name", collection)?)?;
    Ok(())
}

/// `rag_internal.continue_rebuild`.
#[pg_extern(sql = false)]
fn continue_rebuild(collection: &str) -> Result<bool, ErrorReport> {
    super::require_writer(c"rag_rebuild_collection()", ACTION)?;
    Ok(explained(|| rebuild::step(collection))?)
}
