//! `rag_internal.storage_change`: the outbox, with the changes that servers do not have yet; and
//! `rag_internal.storage_delay`.
//!
//! ```text
//! write ── row trigger, same transaction ──▶ storage_change ── after the commit ──▶ server
//!                                                  ▲                                  │
//!                                                  └── deleted, if it is as it was ◀──┘
//! ```

use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    catalog::{
        collections::Collection,
        partitions::{self, Partition},
        shards,
    },
    error::Error,
    pg::spi::{OwnerRights, as_owner, uuid},
    types::vector::OwnedVector,
};

/// The longest time before a server is tried again.
pub const MAX_DELAY: f64 = 300.0;

/// Creates the trigger that records changes of chunks of a partition.
///
/// # Errors
/// A statement fails.
pub fn watch(owner: &OwnerRights, partition: &Partition) -> Result<(), Error> {
    if shards::is_distributed()? {
        return Err(Error::unsupported(
            "vectors of distributed chunks cannot be sent to a server",
        )
        .detail("Changes are recorded by a trigger, and Citus permits none on distributed tables.")
        .hint("Use a retriever with another type of storage."));
    }
    let relation = partition.qualified();
    let found = owner.query(
        "SELECT FROM pg_trigger
         WHERE tgrelid = to_regclass($1) AND tgname = 'note_storage_change'",
        &[relation.as_str().into()],
        |_| Ok(()),
    )?;
    if !found.is_empty() {
        return Ok(());
    }
    owner.execute(
        &format!(
            "CREATE TRIGGER note_storage_change AFTER INSERT OR UPDATE OR DELETE ON {relation}
             FOR EACH ROW EXECUTE FUNCTION rag_internal.note_storage_change()"
        ),
        &[],
    )?;
    Ok(())
}

/// A document, and the number of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentChange {
    pub document: Uuid,
    pub change: i64,
    /// The server has refused it, maybe because of others.
    pub was_refused: bool,
}

/// Returns the documents that searches read in this database, at most `limit`. Those of the current
/// transaction are among them.
pub fn documents(collection: &str, limit: usize) -> Result<Vec<Uuid>, Error> {
    as_owner(|owner| {
        owner.query_prepared(
            "SELECT document_id FROM rag_internal.storage_change WHERE collection = $1 LIMIT $2",
            &[collection.into(), (limit as i64).into()],
            |row| row.uuid("document_id"),
        )
    })
}

/// Returns changes of transactions that have committed, the oldest first. Those that the server has
/// refused come last, and only when they are due.
pub fn committed(collection: &str, limit: usize) -> Result<Vec<DocumentChange>, Error> {
    as_owner(|owner| {
        owner.query(
            "SELECT document_id, change, refusals > 0 AS was_refused
             FROM rag_internal.storage_change
             WHERE collection = $1
               AND changed_by IS DISTINCT FROM pg_current_xact_id_if_assigned()
               AND (retry_at IS NULL OR retry_at <= clock_timestamp())
             ORDER BY refusals > 0, change LIMIT $2",
            &[collection.into(), (limit as i64).into()],
            |row| {
                Ok(DocumentChange {
                    document: row.uuid("document_id")?,
                    change: row.required("change")?,
                    was_refused: row.required("was_refused")?,
                })
            },
        )
    })
}

/// Deletes changes that a server has now, unless there are newer ones of the documents.
pub fn replicated(collection: &str, changes: &[DocumentChange]) -> Result<(), Error> {
    let documents: Vec<pgrx::Uuid> = changes.iter().map(|one| uuid(one.document)).collect();
    let numbers: Vec<i64> = changes.iter().map(|one| one.change).collect();
    as_owner(|owner| {
        owner.execute(
            "DELETE FROM rag_internal.storage_change AS s
             USING ROWS FROM (unnest($2), unnest($3))
                 AS given (document_id, change)
             WHERE s.collection = $1 AND s.document_id = given.document_id
               AND s.change = given.change",
            &[collection.into(), documents.into(), numbers.into()],
        )?;
        owner.execute(
            "DELETE FROM rag_internal.storage_delay WHERE collection = $1",
            &[collection.into()],
        )?;
        Ok(())
    })
}

/// Records that a server has refused documents. Of several nobody knows which one it refuses: each
/// is sent alone. One is tried again as [`delay`] says.
pub fn refused(collection: &str, changes: &[DocumentChange], error: &str) -> Result<(), Error> {
    let documents: Vec<pgrx::Uuid> = changes.iter().map(|one| uuid(one.document)).collect();
    let numbers: Vec<i64> = changes.iter().map(|one| one.change).collect();
    as_owner(|owner| {
        owner.execute(
            "UPDATE rag_internal.storage_change AS s SET
                 refusals = s.refusals + 1,
                 retry_at = CASE WHEN $4 THEN clock_timestamp()
                     + make_interval(secs =>
                         least($5, pow(2.0, least(s.refusals, 20)))) END,
                 error = CASE WHEN $4 THEN $6 END
             FROM ROWS FROM (unnest($2), unnest($3))
                 AS given (document_id, change)
             WHERE s.collection = $1 AND s.document_id = given.document_id
               AND s.change = given.change",
            &[
                collection.into(),
                documents.into(),
                numbers.into(),
                (changes.len() == 1).into(),
                MAX_DELAY.into(),
                error.into(),
            ],
        )?;
        Ok(())
    })
}

/// Returns why the server of a collection refuses one of its documents, if it does.
pub fn refusal(collection: &str) -> Result<Option<String>, Error> {
    let found = as_owner(|owner| {
        owner.query(
            "SELECT error FROM rag_internal.storage_change
             WHERE collection = $1 AND error IS NOT NULL ORDER BY change LIMIT 1",
            &[collection.into()],
            |row| row.required("error"),
        )
    })?;
    Ok(found.into_iter().next())
}

/// Records that a collection could not be replicated. It is tried again after a time that doubles,
/// or that the server asks for.
pub fn delay(collection: &str, error: &str, asked: Option<Duration>) -> Result<(), Error> {
    let asked = asked.map_or(0.0, |asked| asked.as_secs_f64());
    as_owner(|owner| {
        owner.execute(
            "INSERT INTO rag_internal.storage_delay AS d (collection, attempts, retry_at, error)
             VALUES ($1, 1, clock_timestamp()
                         + make_interval(secs => greatest($3, 1.0)), $2)
             ON CONFLICT (collection) DO UPDATE SET
                 attempts = d.attempts + 1,
                 retry_at = clock_timestamp() + make_interval(secs =>
                     greatest($3, least($4, pow(2.0, least(d.attempts, 20))))),
                 error = excluded.error",
            &[
                collection.into(),
                error.into(),
                asked.into(),
                MAX_DELAY.into(),
            ],
        )?;
        Ok(())
    })
}

/// A collection with pending changes, or a pending removal.
pub struct PendingReplication {
    pub collection: String,
    /// What is to be deleted. None: the changes of the collection are to be written.
    pub removal: Option<i64>,
    /// Time until it is due.
    pub wait: Duration,
}

/// The condition that removal `r` has to be done before changes of its collection are written: both
/// are of the same index of the same server.
pub const BLOCKS: &str = "EXISTS (
    SELECT FROM rag_internal.collection b JOIN rag_internal.retriever t ON t.name = b.retriever
    WHERE b.name = r.collection AND b.partition = r.partition
      AND t.server_url = r.server_url)";

/// Returns what is to be replicated, that which is due first.
pub fn due() -> Result<Vec<PendingReplication>, Error> {
    as_owner(|owner| {
        owner.query(
            &format!(
                "SELECT n.collection, n.removal,
                        greatest(0, coalesce(extract(epoch FROM n.retry_at
                                                     - clock_timestamp()), 0))::float8 AS wait
                 FROM (SELECT c.name AS collection, NULL::bigint AS removal,
                              greatest(d.retry_at, CASE WHEN NOT EXISTS (
                                      SELECT FROM rag_internal.storage_change s
                                      WHERE s.collection = c.name AND s.retry_at IS NULL)
                                  THEN (SELECT min(s.retry_at)
                                        FROM rag_internal.storage_change s
                                        WHERE s.collection = c.name) END) AS retry_at
                       FROM rag_internal.collection c
                       LEFT JOIN rag_internal.storage_delay d ON d.collection = c.name
                       WHERE EXISTS (SELECT FROM rag_internal.storage_change s
                                     WHERE s.collection = c.name)
                         AND NOT EXISTS (SELECT FROM rag_internal.storage_removal r
                                         WHERE r.collection = c.name AND {BLOCKS})
                       UNION ALL
                       SELECT collection, removal, retry_at FROM rag_internal.storage_removal) AS n
                 ORDER BY wait, n.collection, n.removal"
            ),
            &[],
            |row| {
                Ok(PendingReplication {
                    collection: row.required("collection")?,
                    removal: row.get("removal")?,
                    wait: Duration::from_secs_f64(row.required::<f64>("wait")?),
                })
            },
        )
    })
}

/// Returns the number of documents of a collection with pending changes.
pub fn pending(collection: &str) -> Result<i64, Error> {
    let found = as_owner(|owner| {
        owner.query(
            "SELECT count(*) AS pending FROM rag_internal.storage_change WHERE collection = $1",
            &[collection.into()],
            |row| row.required("pending"),
        )
    })?;
    Ok(found.into_iter().next().unwrap_or(0))
}

/// Returns true if the server of a collection has a document as it is now.
pub fn has_replica(collection: &str) -> Result<bool, Error> {
    let found = as_owner(|owner| {
        owner.query(
            "SELECT EXISTS (
                 SELECT FROM rag.documents d
                 WHERE d.collection = $1 AND d.chunk_count > 0 AND NOT EXISTS (
                     SELECT FROM rag_internal.storage_change s
                     WHERE s.collection = $1 AND s.document_id = d.document_id)) AS found",
            &[collection.into()],
            |row| row.required("found"),
        )
    })?;
    Ok(found.contains(&true))
}

/// Queues all documents of a collection, to be written again.
pub fn queue_all(collection: &str) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "INSERT INTO rag_internal.storage_change (collection, document_id)
             SELECT collection, document_id FROM rag.documents
             WHERE collection = $1 AND chunk_count > 0
             ON CONFLICT (collection, document_id) DO UPDATE
                 SET change = excluded.change, changed_by = excluded.changed_by,
                     refusals = 0, retry_at = NULL, error = NULL",
            &[collection.into()],
        )?;
        Ok(())
    })
}

/// Queues the deletion of a collection's points on its server, and deletes its other pending
/// changes. The collection is dropped afterwards, or gets other storage.
pub fn release(collection: &Collection) -> Result<(), Error> {
    let name = collection.name.as_str();
    as_owner(|owner| {
        for table in ["storage_change", "storage_delay"] {
            owner.execute(
                &format!("DELETE FROM rag_internal.{table} WHERE collection = $1"),
                &[name.into()],
            )?;
        }
        let Some(partition) = partitions::of(name)? else {
            return Ok(());
        };
        owner.execute(
            "INSERT INTO rag_internal.storage_removal
                 (retriever, spec, server_url, owner_id, partition, collection)
             SELECT r.name, r.spec, r.server_url, r.owner_id, $2, c.name
             FROM rag_internal.collection c JOIN rag_internal.retriever r ON r.name = c.retriever
             WHERE c.name = $1",
            &[name.into(), partition.name().into()],
        )?;
        Ok(())
    })
}

/// Returns the name of the index that a server has for a partition. Names of partitions may have a
/// slash, which no server accepts, and capitals, which Elasticsearch refuses. A name that loses its
/// capitals gets a hash, so that it stays different from others.
pub fn index_name(partition: &Partition) -> String {
    let name = partition.name().replace('/', "~");
    let lower = name.to_ascii_lowercase();
    if lower == name {
        return name;
    }
    let hash = Sha256::digest(&name);
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{lower}~{}", &hash[..8])
}

/// A chunk as a server needs it.
pub struct ChunkPoint {
    pub chunk: Uuid,
    pub document: Uuid,
    pub vector: Vec<f32>,
    pub source: Option<String>,
    pub document_type: String,
    pub category: Option<String>,
    pub tags: Vec<String>,
    pub knowledge_id: Option<i64>,
    /// JSON.
    pub metadata: String,
}

/// Returns the chunks of some documents.
pub fn points(collection: &Collection, documents: &[Uuid]) -> Result<Vec<ChunkPoint>, Error> {
    let documents: Vec<pgrx::Uuid> = documents.iter().map(|id| uuid(*id)).collect();
    as_owner(|owner| {
        owner.query(
            &format!(
                "SELECT c.chunk_id, c.document_id, c.embedding, c.source, c.document_type,
                        c.category, coalesce(c.tags, '{{}}') AS tags, c.knowledge_id,
                        c.metadata::text AS metadata
                 FROM rag.chunks AS c WHERE {} AND c.document_id = ANY ($1)",
                collection.rows("c.")
            ),
            &[documents.into()],
            |row| {
                Ok(ChunkPoint {
                    chunk: row.uuid("chunk_id")?,
                    document: row.uuid("document_id")?,
                    vector: Vec::from(row.required::<OwnedVector>("embedding")?),
                    source: row.get("source")?,
                    document_type: row.required("document_type")?,
                    category: row.get("category")?,
                    tags: row.required("tags")?,
                    knowledge_id: row.get("knowledge_id")?,
                    metadata: row.required("metadata")?,
                })
            },
        )
    })
}

/// Returns the numbers of chunks of some documents, in their order. It is 0 if a document does not
/// exist any more.
pub fn chunk_counts(collection: &Collection, documents: &[Uuid]) -> Result<Vec<i64>, Error> {
    let documents: Vec<pgrx::Uuid> = documents.iter().map(|id| uuid(*id)).collect();
    as_owner(|owner| {
        owner.query(
            "SELECT coalesce(d.chunk_count, 0)::bigint AS chunks
             FROM unnest($2) WITH ORDINALITY AS w (document_id, place)
             LEFT JOIN rag.documents d
                 ON d.collection = $1 AND d.document_id = w.document_id
             ORDER BY w.place",
            &[collection.name.as_str().into(), documents.into()],
            |row| row.required("chunks"),
        )
    })
}

/// Returns the number of chunks of a collection.
pub fn count_chunks(collection: &Collection) -> Result<i64, Error> {
    let found = as_owner(|owner| {
        owner.query(
            &format!(
                "SELECT count(*) AS chunks FROM rag.chunks AS c WHERE {}",
                collection.rows("c.")
            ),
            &[],
            |row| row.required("chunks"),
        )
    })?;
    Ok(found.into_iter().next().unwrap_or(0))
}
