//! Renaming a source. Its documents keep their ids, so nothing is embedded again and no document is
//! stored twice.

use rag_definition::source::SourceSpec;

use super::{
    manage,
    table::{changes, definition::NewTableSource},
};
use crate::{
    catalog::{
        name::{Name, canonical},
        renames,
        sources::{self, Source},
    },
    cluster::news,
    collection::rename::exclude_runs,
    error::Error,
    pg::spi::as_owner,
};

/// Renames a source.
///
/// # Errors
/// The caller may not do that, a source has the new name, or the source is being synced.
pub fn rename_source(name: &str, new_name: &str) -> Result<(), Error> {
    const ACTION: &str = "rename a source";
    let name = canonical(name);
    let row = manage::lock(name, ACTION)?.ok_or_else(|| Source::missing(name))?;
    let new = Name::source(canonical(new_name))?;
    exclude_runs(&row.name)?;
    exclude_runs(&new)?;
    if sources::has_name(&new)? {
        return Err(sources::name_taken(&new));
    }
    let stored = &row.definition;
    let relation = stored.relation.map(|relation| relation.relation);
    changes::remove_tracking(&row.name, relation)?;
    as_owner(|owner| renames::source(owner, &row.name, &new))?;
    if let Some(SourceSpec::Table(table)) = stored.parsed() {
        NewTableSource::of(table, stored.owner.id, &mut "spec")?.prepare(&new)?;
    }
    news::wake_scheduler_at_commit();
    Ok(())
}
