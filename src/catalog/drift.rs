//! Drift of the stored documents: what `rag_internal.source` knows of it, and the documents that
//! drifted.

use std::time::Duration;

use pgrx::JsonB;

use super::{conditions::ConditionChanges, due::NOT_RESTORING, partitions, sources::Source};
use crate::{
    error::Error,
    pg::{
        guc::with_settings,
        spi::{OwnerRights, as_owner},
    },
};

// -- comparisons

/// Runs `f`, which compares, as the extension's owner and without JIT: compiling its statement
/// would take longer than running it.
fn without_jit<R>(f: impl FnOnce(&OwnerRights) -> R) -> R {
    as_owner(|owner| with_settings(&[(c"jit", c"off")], || f(owner)))
}

/// The documents of a source, compared with what its runs have indexed.
pub struct Comparison {
    /// The number of documents. `None` if no run has indexed the source.
    pub expected: Option<i64>,
    pub actual: i64,
    /// The documents that have drifted, by kind.
    pub documents: Option<JsonB>,
}

/// Compares the stored documents of a source. Returns `None` if there is no such source. At most
/// `max_listed` documents of each kind are named.
pub fn compare(source: &Source, max_listed: i64) -> Result<Option<Comparison>, Error> {
    // The collection is a parameter, so that the plan reads its partition only. If a run has
    // failed, or was of another definition, since the documents were last counted, only the digests
    // show their number.
    let found = without_jit(|owner| {
        owner.execute_returning(
            "SELECT CASE WHEN s.last_indexed IS NULL THEN NULL
                         WHEN r.phase = 'Completed' AND r.collection = s.collection
                              AND r.started_at <= s.last_indexed THEN s.documents
                         ELSE (SELECT count(*) FROM rag_internal.document_digest m
                               WHERE m.collection = s.collection AND m.source = s.name)
                    END AS expected,
                    (SELECT count(*) FROM rag.documents d
                     WHERE d.collection = s.collection AND d.source = s.name) AS actual,
                    (SELECT jsonb_object_agg(
                                k.kind, jsonb_build_object('count', k.count, 'named', k.named))
                     FROM (SELECT n.kind, count(*),
                                  jsonb_agg(n.entry ORDER BY n.place)
                                      FILTER (WHERE n.place <= $2) AS named
                           FROM (SELECT d.kind, d.entry,
                                        row_number() OVER (PARTITION BY d.kind
                                                           ORDER BY d.uri COLLATE \"C\") AS place
                                 FROM rag_internal.drifted_documents($3, s.name) d) n
                           GROUP BY n.kind) k
                     WHERE s.last_indexed IS NOT NULL) AS documents
             FROM rag_internal.source s LEFT JOIN rag_internal.run r ON r.run_id = s.last_run_id
             WHERE s.name = $1",
            &[
                source.name.as_str().into(),
                max_listed.into(),
                source.collection.as_str().into(),
            ],
            |row| {
                Ok(Comparison {
                    expected: row.get("expected")?,
                    actual: row.required("actual")?,
                    documents: row.get("documents")?,
                })
            },
        )
    })?;
    Ok(found.into_iter().next())
}

/// Makes the next run index the drifted documents of a source again. Chunks without a document are
/// deleted. Chunks of drifted documents get new ids and lose their embedding keys: they are no
/// source of embeddings, and their ids conflict with no others.
pub fn forget(owner: &OwnerRights, collection: &str, source: &str) -> Result<(), Error> {
    let drifted: Vec<(pgrx::Uuid, bool)> = without_jit(|owner| {
        owner.execute_returning(
            "SELECT document_id, is_stored FROM rag_internal.drifted_documents($1, $2)",
            &[collection.into(), source.into()],
            |row| Ok((row.required("document_id")?, row.required("is_stored")?)),
        )
    })?;
    let all: Vec<pgrx::Uuid> = drifted.iter().map(|(id, _)| *id).collect();
    let (stored, strays): (Vec<_>, Vec<_>) =
        drifted.into_iter().partition(|(_, is_stored)| *is_stored);
    let ids = |documents: Vec<(pgrx::Uuid, bool)>| {
        documents.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    // also rows that now name another source
    owner.execute(
        "UPDATE rag.documents SET raw_hash = NULL, validator = NULL
         WHERE collection = $1 AND document_id = ANY ($2)",
        &[collection.into(), all.into()],
    )?;
    let rows = partitions::rows_of_writer(owner, collection, "")?;
    owner.execute(
        &format!("DELETE FROM rag.chunks WHERE {rows} AND source = $1 AND document_id = ANY ($2)"),
        &[source.into(), ids(strays).into()],
    )?;
    // The ids are random because one number is. The UPDATE itself has no volatile function, with
    // which it could not be distributed over servers.
    let random = owner.query("SELECT gen_random_uuid() AS random", &[], |row| {
        row.required::<pgrx::Uuid>("random")
    })?;
    owner.execute(
        &format!(
            "UPDATE rag.chunks SET embedding_key = '00000000-0000-0000-0000-000000000000',
                 chunk_id = encode(substr(sha256(uuid_send($2) || uuid_send(chunk_id)), 1, 16),
                                   'hex')::uuid
             WHERE {rows} AND document_id = ANY ($1)"
        ),
        &[ids(stored).into(), random.first().copied().into()],
    )?;
    Ok(())
}

// -- the status of a source

/// Stores what a check has found.
pub fn set_checked(
    owner: &OwnerRights,
    source: &Source,
    changes: &ConditionChanges,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET drift_checked_at = clock_timestamp(),
             conditions = rag_internal.merge_conditions(conditions, $3)
         WHERE name = $1 AND uid = $2",
        &[
            source.name.as_str().into(),
            source.uid.into(),
            changes.to_json().into(),
        ],
    )?;
    Ok(())
}

/// Stores that a check failed. Drift that was found before stays recorded.
pub fn set_failed(
    owner: &OwnerRights,
    source: &Source,
    changes: &ConditionChanges,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET drift_checked_at = clock_timestamp(),
             conditions = CASE
                 WHEN rag_internal.has_condition(conditions, 'AutoIndexerDriftDetected')
                     THEN conditions
                 ELSE rag_internal.merge_conditions(conditions, $3) END
         WHERE name = $1 AND uid = $2",
        &[
            source.name.as_str().into(),
            source.uid.into(),
            changes.to_json().into(),
        ],
    )?;
    Ok(())
}

/// Stores what a run has left of the drift that was found before it.
pub fn set_after_run(
    owner: &OwnerRights,
    source: &str,
    changes: &ConditionChanges,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET conditions = rag_internal.merge_conditions(conditions, $2)
         WHERE name = $1 AND rag_internal.has_condition(conditions, 'AutoIndexerDriftDetected')",
        &[source.into(), changes.to_json().into()],
    )?;
    Ok(())
}

/// Returns true if the source's status shows drift that has not been repaired.
pub fn was_found(owner: &OwnerRights, source: &Source) -> Result<bool, Error> {
    let found = owner.query(
        "SELECT rag_internal.has_condition(conditions, 'AutoIndexerDriftDetected') AS was_found
         FROM rag_internal.source WHERE name = $1 AND uid = $2",
        &[source.name.as_str().into(), source.uid.into()],
        |row| row.required::<bool>("was_found"),
    )?;
    Ok(found.first() == Some(&true))
}

// -- when checks are due

/// Returns the condition for sources `s` that may be checked now.
fn checkable() -> String {
    format!(
        "NOT s.suspend AND s.drift_policy <> 'ignore' AND s.last_indexed IS NOT NULL
         AND NOT EXISTS (SELECT FROM rag_internal.run r
                         WHERE r.source = s.name AND r.phase IN ('Pending', 'Running'))
         AND {NOT_RESTORING}"
    )
}

const DUE_AT: &str = "(coalesce(s.drift_checked_at, s.last_indexed) + make_interval(secs => $1))";

/// Returns the sources whose check is due. Those that have waited longest come first.
pub fn due(owner: &OwnerRights, interval: Duration) -> Result<Vec<String>, Error> {
    owner.query(
        &format!(
            "SELECT s.name FROM rag_internal.source s WHERE {DUE_AT} <= now() AND {}
             ORDER BY {DUE_AT}, s.name",
            checkable()
        ),
        &[interval.as_secs_f64().into()],
        |row| row.required("name"),
    )
}

/// Returns the time until the next check that is not due yet, if there is one.
pub fn until_next(owner: &OwnerRights, interval: Duration) -> Result<Option<Duration>, Error> {
    let found = owner.query(
        &format!(
            "SELECT date_part('epoch', min({DUE_AT}) - clock_timestamp()) AS seconds
             FROM rag_internal.source s WHERE {DUE_AT} > now() AND {}",
            checkable()
        ),
        &[interval.as_secs_f64().into()],
        |row| row.get::<f64>("seconds"),
    )?;
    let seconds = found.into_iter().next().flatten();
    Ok(seconds
        .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)))
}
