//! `rag_internal.queued_document`: documents that wait to be indexed by a background worker, and
//! for some days what became of them.

use std::time::Duration;

use pgrx::datum::{DatumWithOid, TimestampWithTimeZone};
use rag_definition::labels::Labels;
use rag_protocol::identity::DocumentId;
use serde_json::{Map, Value};

use super::{documents::DocumentAttributes, due::NOT_RESTORING, stored_documents::json};
use crate::{
    error::Error,
    pg::{
        roles::Owner,
        spi::{OwnerRights, Row, uuid},
    },
};

/// Maximum number of documents that are indexed together, and the maximum size of their contents
/// in bytes, unless one alone exceeds it.
const BATCH: i64 = 64;
const BATCH_BYTES: i64 = 4 << 20;

/// A query for columns of the documents that are due and were queued first.
fn due_first(columns: &str) -> String {
    format!(
        "SELECT {columns} FROM rag_internal.queued_document
         WHERE status = 'queued' AND next_attempt_at <= now() AND {NOT_RESTORING}
         ORDER BY id LIMIT {BATCH}"
    )
}

/// What was given of a document.
pub struct GivenDocument {
    pub uri: String,
    pub title: Option<String>,
    pub document_type: Option<String>,
    pub attributes: DocumentAttributes,
    pub metadata: Map<String, Value>,
    pub is_file: bool,
    pub content: Vec<u8>,
}

/// A document of the queue, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub id: i64,
    pub collection: String,
    /// Attempts that have failed before this one, and those that a server has postponed.
    pub failed: u32,
    pub throttled: u32,
}

/// The document that is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    pub id: i64,
    /// The role with whose rights it is indexed.
    pub role: pgrx::pg_sys::Oid,
}

/// Adds a document to the queue. Returns its id there.
pub fn add(
    owner: &OwnerRights,
    collection: &str,
    by: &Owner,
    document: &GivenDocument,
) -> Result<i64, Error> {
    let DocumentAttributes {
        knowledge_id,
        labels,
    } = &document.attributes;
    let added = owner.execute_returning(
        "INSERT INTO rag_internal.queued_document (
             collection, owner, owner_id, uri, title, document_type, category, tags, knowledge_id,
             metadata, is_file, content)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING id",
        &[
            collection.into(),
            by.name.as_str().into(),
            by.id.into(),
            document.uri.as_str().into(),
            document.title.as_deref().into(),
            document.document_type.as_deref().into(),
            labels.category.as_deref().into(),
            labels.tags.clone().into(),
            (*knowledge_id).into(),
            json(&document.metadata).into(),
            document.is_file.into(),
            document.content.as_slice().into(),
        ],
        |row| row.required("id"),
    )?;
    let id = added.into_iter().next();
    id.ok_or_else(|| Error::internal("no id for a queued document"))
}

/// Removes a document that nobody is indexing. Returns false if it is not in the queue, or is being
/// indexed.
pub fn remove(owner: &OwnerRights, id: i64) -> Result<bool, Error> {
    let removed = owner.execute(
        "WITH waiting AS MATERIALIZED (
             SELECT id FROM rag_internal.queued_document WHERE id = $1 AND status = 'queued'
             FOR UPDATE SKIP LOCKED)
         DELETE FROM rag_internal.queued_document q USING waiting WHERE q.id = waiting.id",
        &[id.into()],
    )?;
    Ok(removed > 0)
}

/// Returns the collection of a document of the queue, and the role that has queued it.
pub fn collection_and_owner(
    owner: &OwnerRights,
    id: i64,
) -> Result<Option<(String, pgrx::pg_sys::Oid)>, Error> {
    let found = owner.query(
        "SELECT collection, owner_id FROM rag_internal.queued_document WHERE id = $1",
        &[id.into()],
        |row| Ok((row.required("collection")?, row.required("owner_id")?)),
    )?;
    Ok(found.into_iter().next())
}

/// Returns the document that is due now and was queued first.
pub fn next(owner: &OwnerRights) -> Result<Option<Next>, Error> {
    let found = owner.query(&due_first("id, owner_id"), &[], |row| {
        Ok(Next {
            id: row.required("id")?,
            role: row.required("owner_id")?,
        })
    })?;
    Ok(found.into_iter().next())
}

/// Returns the time until a document is due, if one is queued.
pub fn until_next(owner: &OwnerRights) -> Result<Option<Duration>, Error> {
    let found = owner.query(
        "SELECT date_part('epoch', min(next_attempt_at) - clock_timestamp()) AS seconds
         FROM rag_internal.queued_document WHERE status = 'queued'",
        &[],
        |row| row.get::<f64>("seconds"),
    )?;
    let seconds = found.into_iter().next().flatten();
    Ok(seconds.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default()))
}

/// Makes documents due whose next attempt lies farther in the future than any delay is long: the
/// clock was set back since. One that was never tried has no delay. Rows that others have locked
/// are skipped. Returns their number.
pub fn make_stranded_due(owner: &OwnerRights) -> Result<usize, Error> {
    owner.execute(
        "WITH stranded AS MATERIALIZED (
             SELECT id FROM rag_internal.queued_document
             WHERE status = 'queued' AND next_attempt_at > now() + CASE
                 WHEN attempts = 0 THEN interval '0'
                 WHEN throttled = 0 THEN interval '61 minutes' ELSE interval '25 hours' END
             FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE rag_internal.queued_document q SET next_attempt_at = now()
         FROM stranded WHERE q.id = stranded.id",
        &[],
    )
}

/// Ends documents among those that are due first and will not be indexed: later ones have their
/// uris, their roles were dropped, or the process was lost in each of `max_attempts` attempts.
pub fn end_hopeless(owner: &OwnerRights, max_attempts: u32) -> Result<(), Error> {
    let end = |status: &str, error: &str, hopeless: &str| {
        format!(
            "UPDATE rag_internal.queued_document q
             SET status = '{status}', error = {error}, content = NULL, next_attempt_at = NULL,
                 ended_at = clock_timestamp()
             WHERE id IN ({}) AND {hopeless}",
            due_first("id")
        )
    };
    let superseded = "EXISTS (
        SELECT FROM rag_internal.queued_document later
        WHERE later.collection = q.collection AND md5(later.uri) = md5(q.uri)
          AND later.uri = q.uri AND later.id > q.id)";
    owner.execute(&end("superseded", "NULL", superseded), &[])?;
    owner.execute(
        &end(
            "failed",
            "format('role \"%s\", which queued the document, does not exist', owner)",
            "owner_id NOT IN (SELECT oid FROM pg_roles)",
        ),
        &[],
    )?;
    owner.execute(
        &end(
            "failed",
            "coalesce(error, 'the process that indexed the document was lost')",
            "attempts >= $1 + throttled",
        ),
        &[i64::from(max_attempts).into()],
    )?;
    Ok(())
}

/// Claims documents of a role that are due, all of one collection, for an attempt. One that was
/// tried before comes alone. If the process is lost, they are due again after `delay`. Returns an
/// empty list if the document that is due first is another role's.
pub fn claim(
    owner: &OwnerRights,
    role: pgrx::pg_sys::Oid,
    delay: Duration,
) -> Result<Vec<Claimed>, Error> {
    let mut claimed = owner.execute_returning(
        &format!(
            "WITH due AS (
                 {due}),
             first AS (SELECT * FROM due ORDER BY id LIMIT 1),
             batch AS (
                 SELECT d.id, sum(d.bytes) OVER (ORDER BY d.id) AS bytes
                 FROM due d JOIN first f
                     ON d.owner_id = f.owner_id AND d.collection = f.collection
                    AND (d.id = f.id OR d.attempts = 0 AND f.attempts = 0)
                 WHERE f.owner_id = $1),
             chosen AS MATERIALIZED (
                 SELECT q.id FROM rag_internal.queued_document q
                 WHERE q.status = 'queued' AND q.id IN (
                     SELECT b.id FROM batch b
                     WHERE b.bytes <= {BATCH_BYTES} OR b.id = (SELECT id FROM first))
                 FOR UPDATE SKIP LOCKED)
             UPDATE rag_internal.queued_document q
             SET attempts = attempts + 1, next_attempt_at = now() + make_interval(secs => $2)
             FROM chosen WHERE q.id = chosen.id
             RETURNING q.id, q.collection, q.attempts, q.throttled",
            due = due_first("id, owner_id, collection, attempts, octet_length(content) AS bytes")
        ),
        &[role.into(), delay.as_secs_f64().into()],
        |row| {
            let attempts: i32 = row.required("attempts")?;
            let throttled: i32 = row.required("throttled")?;
            let (attempts, throttled) = (attempts.unsigned_abs(), throttled.unsigned_abs());
            Ok(Claimed {
                id: row.required("id")?,
                collection: row.required("collection")?,
                failed: attempts.saturating_sub(throttled + 1),
                throttled,
            })
        },
    )?;
    claimed.sort_unstable_by_key(|claimed| claimed.id);
    Ok(claimed)
}

/// Returns claimed documents that are still queued, in the order of the queue, and locks them until
/// the transaction ends.
pub fn lock(owner: &OwnerRights, ids: &[i64]) -> Result<Vec<(i64, GivenDocument)>, Error> {
    owner.execute_returning(
        "SELECT id, uri, title, document_type, category, tags, knowledge_id, metadata, is_file,
                content
         FROM rag_internal.queued_document
         WHERE id = ANY ($1) AND status = 'queued' ORDER BY id FOR UPDATE",
        &[ids.to_vec().into()],
        |row| Ok((row.required("id")?, given(&row)?)),
    )
}

fn given(row: &Row<'_, '_>) -> Result<GivenDocument, Error> {
    Ok(GivenDocument {
        uri: row.required("uri")?,
        title: row.get("title")?,
        document_type: row.get("document_type")?,
        attributes: DocumentAttributes {
            knowledge_id: row.get("knowledge_id")?,
            labels: Labels {
                category: row.get("category")?,
                tags: row.get("tags")?,
            },
        },
        metadata: match row.required::<pgrx::JsonB>("metadata")?.0 {
            Value::Object(metadata) => metadata,
            _ => Map::new(),
        },
        is_file: row.required("is_file")?,
        content: row.required("content")?,
    })
}

/// What became of a document.
pub struct Outcome<'a> {
    pub id: i64,
    pub document: DocumentId,
    pub action: &'a str,
    pub chunks: i32,
    /// Why it was not indexed.
    pub error: Option<&'a str>,
}

/// Records what became of a document, whose content is not needed any more.
pub fn finish(owner: &OwnerRights, outcome: &Outcome<'_>) -> Result<(), Error> {
    let (document, action): (DatumWithOid<'_>, DatumWithOid<'_>) =
        (uuid(outcome.document.0).into(), outcome.action.into());
    owner.execute(
        "UPDATE rag_internal.queued_document
         SET status = CASE WHEN $5 IS NULL THEN 'indexed' ELSE 'failed' END, error = $5,
             error_detail = NULL, error_hint = NULL, document_id = $2,
             action = CASE WHEN $5 IS NULL THEN $3 END,
             chunks = CASE WHEN $5 IS NULL THEN $4 END,
             content = NULL, next_attempt_at = NULL, ended_at = clock_timestamp()
         WHERE id = $1",
        &[
            outcome.id.into(),
            document,
            action,
            outcome.chunks.into(),
            outcome.error.into(),
        ],
    )?;
    Ok(())
}

/// Records a failure, and when the next attempt is due. Without one, the document has failed.
/// `throttled` counts the attempts that a server has postponed.
pub fn record_failure(
    owner: &OwnerRights,
    id: i64,
    error: &Error,
    next: Option<TimestampWithTimeZone>,
    throttled: u32,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.queued_document
         SET error = $2, error_detail = $5, error_hint = $6, next_attempt_at = $3, throttled = $4,
             status = CASE WHEN $3 IS NULL THEN 'failed' ELSE 'queued' END,
             content = CASE WHEN $3 IS NULL THEN NULL ELSE content END,
             ended_at = CASE WHEN $3 IS NULL THEN clock_timestamp() END
         WHERE id = $1 AND status = 'queued'",
        &[
            id.into(),
            error.message.as_str().into(),
            next.into(),
            i64::from(throttled).into(),
            error.detail.as_deref().into(),
            error.hint.as_deref().into(),
        ],
    )?;
    Ok(())
}

/// Deletes the rows of documents that ended long ago.
pub fn prune(owner: &OwnerRights) -> Result<(), Error> {
    owner.execute(
        "DELETE FROM rag_internal.queued_document WHERE ended_at < now() - interval '7 days'",
        &[],
    )?;
    Ok(())
}
