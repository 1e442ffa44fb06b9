//! `rag_internal.knowledge_run`: the last run of each collection that has indexed its knowledge
//! items.

use serde_json::Value;

use super::{
    collections::Collection,
    runs::{error_to_json, read_error},
};
use crate::{error::Error, pg::spi::OwnerRights};

/// Returns the collection that was created with this serial number.
///
/// # Errors
/// It was dropped, or is not committed.
pub fn collection(owner: &OwnerRights, serial: i64) -> Result<Collection, Error> {
    let names = owner.query(
        "SELECT name FROM rag_internal.collection WHERE serial = $1",
        &[serial.into()],
        |row| row.required::<String>("name"),
    )?;
    match names.first() {
        Some(name) => Collection::get(name),
        None => Err(Error::undefined("the collection does not exist")),
    }
}

/// Records that a run begins, in place of the former one.
pub fn begin(
    owner: &OwnerRights,
    collection: &str,
    run_id: i64,
    items: usize,
) -> Result<(), Error> {
    let items = i64::try_from(items).unwrap_or(i64::MAX);
    owner.execute(
        "INSERT INTO rag_internal.knowledge_run (collection, run_id, items_total)
         VALUES ($1, $2, $3)
         ON CONFLICT (collection) DO UPDATE SET
             run_id = excluded.run_id, items_total = excluded.items_total,
             started_at = excluded.started_at, items_done = 0, chunks_written = 0,
             current_uri = NULL, summary = NULL, error = NULL",
        &[collection.into(), run_id.into(), items.into()],
    )?;
    Ok(())
}

/// Adds to the counts that `rag.progress` shows.
pub fn advance(
    owner: &OwnerRights,
    collection: &str,
    run_id: i64,
    items: i64,
    chunks: i64,
    uri: Option<&str>,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.knowledge_run
         SET items_done = items_done + $3, chunks_written = chunks_written + $4,
             current_uri = coalesce($5, current_uri)
         WHERE collection = $1 AND run_id = $2",
        &[
            collection.into(),
            run_id.into(),
            items.into(),
            chunks.into(),
            uri.into(),
        ],
    )?;
    Ok(())
}

/// Records how a run ended.
pub fn finish(
    owner: &OwnerRights,
    collection: &str,
    run_id: i64,
    outcome: &Result<Value, Error>,
) -> Result<(), Error> {
    let (summary, error) = match outcome {
        Ok(summary) => (Some(pgrx::JsonB(summary.clone())), None),
        Err(error) => (None, Some(error_to_json(error))),
    };
    owner.execute(
        "UPDATE rag_internal.knowledge_run SET summary = $3, error = $4
         WHERE collection = $1 AND run_id = $2",
        &[
            collection.into(),
            run_id.into(),
            summary.into(),
            error.into(),
        ],
    )?;
    Ok(())
}

/// A run as it is now.
pub struct KnowledgeRun {
    pub items_total: i64,
    pub items_done: i64,
    /// None until it has ended.
    pub outcome: Option<Result<Value, Error>>,
}

/// Returns a run, unless another one has begun since.
pub fn find(
    owner: &OwnerRights,
    collection: &str,
    run_id: i64,
) -> Result<Option<KnowledgeRun>, Error> {
    let found = {
        owner.query(
            "SELECT items_total, items_done, summary, error FROM rag_internal.knowledge_run
             WHERE collection = $1 AND run_id = $2",
            &[collection.into(), run_id.into()],
            |row| {
                let summary = row.get::<pgrx::JsonB>("summary")?;
                let error = row.get::<pgrx::JsonB>("error")?;
                Ok(KnowledgeRun {
                    items_total: row.required("items_total")?,
                    items_done: row.required("items_done")?,
                    outcome: match (summary, error) {
                        (Some(summary), _) => Some(Ok(summary.0)),
                        (None, Some(error)) => Some(Err(read_error(&error.0))),
                        (None, None) => None,
                    },
                })
            },
        )
    }?;
    Ok(found.into_iter().next())
}
