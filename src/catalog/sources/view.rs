//! Reads a source from the view `rag.sources`, as the caller.

use std::collections::HashMap;

use rag_definition::{Notes, Quota};
use serde_json::{Value, json};

use crate::{
    catalog::{collections::Collection, notes, quotas},
    error::Error,
    pg::spi::as_caller,
};

/// A source as its row in `rag.sources` shows it to the caller.
pub struct SourceView {
    pub name: String,
    pub uid: String,
    pub kind: String,
    pub spec: Value,
    pub collection: String,
    pub retriever: String,
    /// `secret` or `secret/key`.
    pub credentials: Option<String>,
    pub schedule: Option<String>,
    pub max_retries: i32,
    pub timeout_microseconds: i64,
    pub suspend: bool,
    pub drift_policy: String,
    pub quota: Quota,
    pub generation: i64,
    pub created_at: String,
    pub notes: Notes,
    /// The status, with the keys of a manifest.
    pub status: Value,
}

/// Returns the names of the sources that the caller may see, in their order.
pub fn visible_names() -> Result<Vec<String>, Error> {
    as_caller(|caller| {
        caller.query("SELECT name FROM rag.sources ORDER BY name", &[], |row| {
            row.required("name")
        })
    })
}

/// Returns the source of this name, or None if the caller may not see one.
pub fn visible(name: &str) -> Result<Option<SourceView>, Error> {
    const TIME: &str = "'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'";
    let found = as_caller(|caller| {
        caller.query(
            &format!(
                "SELECT s.name, s.uid::text AS uid, s.kind, s.spec, s.collection, s.credentials,
             s.schedule, s.max_retries,
                    (extract(epoch FROM s.timeout) * 1000000)::int8 AS timeout_microseconds,
                        s.suspend, s.drift_policy, s.max_documents, s.max_bytes, s.generation,
                    to_char(s.created_at AT TIME ZONE 'UTC', {TIME}) AS created_at,
                    jsonb_strip_nulls(jsonb_build_object(
                        'phase', s.phase,
                        'lastIndexed', to_char(s.last_indexed AT TIME ZONE 'UTC', {TIME}),
                        'lastCommit', s.last_commit,
                        'successfulRunCount', s.successful_run_count,
                        'errorRunCount', s.error_run_count,
                        'documentsProcessed', coalesce(s.documents_processed, 0),
                        'documentsWithWarnings', coalesce(s.documents_with_warnings, 0),
                        'nextScheduledRun', to_char(s.next_scheduled_run AT TIME ZONE 'UTC',
                            {TIME}),
                        'observedGeneration', s.observed_generation,
                        'currentRunID', s.current_run_id,
                        'lastRunID', s.last_run_id,
                        'lastRunDurationSeconds', s.last_run_duration_seconds,
                        'errors', to_jsonb(s.errors))) || jsonb_build_object('conditions',
                            s.conditions) AS status,
                    s.display_name, s.labels, s.annotations
             FROM rag.sources s WHERE s.name = $1"
            ),
            &[name.into()],
            |row| {
                Ok(SourceView {
                    name: row.required("name")?,
                    uid: row.required("uid")?,
                    kind: row.required("kind")?,
                    spec: row.required::<pgrx::JsonB>("spec")?.0,
                    collection: row.required("collection")?,
                    retriever: String::new(),
                    credentials: row.get("credentials")?,
                    schedule: row.get("schedule")?,
                    max_retries: row.required("max_retries")?,
                    timeout_microseconds: row.required("timeout_microseconds")?,
                    suspend: row.required("suspend")?,
                    drift_policy: row.required("drift_policy")?,
                    quota: quotas::read(&row)?,
                    generation: row.required("generation")?,
                    created_at: row.required("created_at")?,
                    status: row.required::<pgrx::JsonB>("status")?.0,
                    notes: notes::read(&row)?,
                })
            },
        )
    })?;
    let Some(mut source) = found.into_iter().next() else {
        return Ok(None);
    };
    // a source's owner may see it without permission to read the collection
    source.retriever = Collection::get(&source.collection)?.definition.retriever;
    Ok(Some(source))
}

/// Returns the sources that the caller may see of a collection, or of all: `{name, kind,
/// last_commit}`, by the name of the collection.
pub fn by_collection(collection: Option<&str>) -> Result<HashMap<String, Vec<Value>>, Error> {
    let found = as_caller(|caller| {
        caller.query(
            "SELECT collection, name, kind, last_commit FROM rag.sources
         WHERE $1 IS NULL OR collection = $1 ORDER BY collection, name",
            &[collection.into()],
            |row| {
                let source = json!({
                    "name": row.required::<String>("name")?,
                    "kind": row.required::<String>("kind")?,
                    "last_commit": row.get::<String>("last_commit")?,
                });
                Ok((row.required::<String>("collection")?, source))
            },
        )
    })?;
    let mut sources = HashMap::<_, Vec<_>>::new();
    for (collection, source) in found {
        sources.entry(collection).or_default().push(source);
    }
    Ok(sources)
}
