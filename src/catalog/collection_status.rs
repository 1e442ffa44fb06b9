//! What is stored of collections, and how they are.
//!
//! Documents are counted with the caller's rights, so that row-level security decides what counts.
//! Sizes and damage are those of the whole collection. No statement reads `rag.chunks`: it would be
//! planned over all partitions.

use std::{collections::HashMap, fs};

use pgrx::{
    datum::{DatumWithOid, TimestampWithTimeZone},
    pg_sys,
};

use super::{access, collections::Collection};
use crate::{
    error::Error,
    pg::{
        guc::with_settings,
        security::{as_owner, pinned},
        spi::{Row, query_prepared},
    },
};

/// Bytes of an embedding before its elements.
const EMBEDDING_HEADER: i64 = 8;

pub struct Status {
    pub name: String,
    /// Documents that are indexed, those included whose present version could not be.
    pub documents: i64,
    /// Documents whose present version could not be indexed.
    pub errors: i64,
    pub chunks: i64,
    /// Texts of the documents, as they are stored.
    pub text_bytes: i64,
    pub whole: Whole,
}

/// What is so of a whole collection, whatever the caller may see of it.
pub struct Whole {
    pub dimensions: Option<i32>,
    pub created_at: TimestampWithTimeZone,
    pub updated_at: TimestampWithTimeZone,
    /// The partition with its side table, without indexes.
    table_bytes: i64,
    pub index_bytes: i64,
    /// Whether there is an index on the embeddings.
    pub has_vector_index: bool,
    /// What was found of indexes that are damaged.
    pub damage: Option<String>,
}

impl Status {
    pub fn embedding_bytes(&self) -> i64 {
        let dimensions = self.whole.dimensions.map_or(0, i64::from);
        (self.chunks * (EMBEDDING_HEADER + dimensions * 4)).min(self.whole.table_bytes)
    }

    /// Chunks without their embeddings.
    pub fn chunk_bytes(&self) -> i64 {
        self.whole.table_bytes - self.embedding_bytes()
    }

    pub fn total_bytes(&self) -> i64 {
        self.text_bytes + self.whole.table_bytes + self.whole.index_bytes
    }

    /// Returns one word.
    pub fn state(&self) -> &'static str {
        match self {
            Self {
                whole: Whole {
                    damage: Some(_), ..
                },
                ..
            } => "damaged",
            Self { errors: 1.., .. } => "degraded",
            Self { documents: 0, .. } => "empty",
            _ => "ready",
        }
    }

    /// Returns what is behind the state, and what to do about it.
    pub fn detail(&self) -> Option<String> {
        let damage = self.whole.damage.as_ref().map(|damage| {
            format!("{damage}; searches read the table instead; the next sync rebuilds the index, as REINDEX does")
        });
        let errors = (self.errors > 0).then(|| {
            let documents = if self.errors == 1 {
                "document"
            } else {
                "documents"
            };
            format!(
                "{} {documents} could not be indexed; rag.documents says why",
                self.errors
            )
        });
        let parts: Vec<String> = damage.into_iter().chain(errors).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Returns the status of a collection that the caller may read.
///
/// # Errors
/// A statement fails.
pub fn of(collection: &Collection) -> Result<Vec<Status>, Error> {
    let args = [collection.name.as_str().into()];
    let count = || counts("WHERE c.name = $1", &args);
    // to ask for each of many collections which ones the caller may read would take the longer the
    // more there are
    let counted = if access::sees_every_document(collection) {
        as_owner(count)
    } else {
        pinned(count)
    };
    with_whole(counted?, "WHERE c.name = $1", &args)
}

/// Returns the status of all collections that the caller may read, by name.
///
/// # Errors
/// A statement fails.
pub fn of_all() -> Result<Vec<Status>, Error> {
    with_whole(pinned(|| counts("", &[]))?, "", &[])
}

/// Documents, errors, chunks and bytes of texts of a collection.
type Counts = [i64; 4];

fn counts(only: &str, args: &[DatumWithOid<'_>]) -> Result<Vec<(String, Counts)>, Error> {
    query_prepared(&count_statement(only), args, |row| {
        Ok((
            row.required(1)?,
            [
                row.required(2)?,
                row.required(3)?,
                row.required(4)?,
                row.required(5)?,
            ],
        ))
    })
}

fn with_whole(
    counted: Vec<(String, Counts)>,
    only: &str,
    args: &[DatumWithOid<'_>],
) -> Result<Vec<Status>, Error> {
    // compiling the statement would take longer than running it
    let whole = as_owner(|| {
        with_settings(&[(c"jit", c"off")], || {
            query_prepared(&whole_statement(only), args, |row| {
                Ok((row.required(1)?, whole(&row)?))
            })
        })
    })?;
    let mut whole: HashMap<String, Whole> = whole.into_iter().collect();
    let status = |(name, [documents, errors, chunks, text_bytes]): (String, Counts)| {
        let whole = whole.remove(&name)?;
        Some(Status {
            name,
            documents,
            errors,
            chunks,
            text_bytes,
            whole,
        })
    };
    Ok(counted.into_iter().filter_map(status).collect())
}

fn count_statement(only: &str) -> String {
    format!(
        "SELECT c.name, coalesce(d.documents, 0), coalesce(d.errors, 0), coalesce(d.chunks, 0), coalesce(d.text_bytes, 0)
         FROM rag.collections c
         LEFT JOIN (SELECT d.collection,
                           pg_catalog.count(*) FILTER (WHERE d.indexed_at IS NOT NULL) AS documents,
                           pg_catalog.count(*) FILTER (WHERE d.status = 'error') AS errors,
                           pg_catalog.sum(d.chunk_count) AS chunks,
                           pg_catalog.sum(pg_catalog.pg_column_size(d.content)) AS text_bytes
                    FROM rag.documents d GROUP BY d.collection) d ON d.collection = c.name
         {only} ORDER BY c.name"
    )
}

/// Files are named by what the catalogs say of them: `pg_table_size` opens each relation, which
/// takes a new session half a millisecond for every collection.
fn whole_statement(only: &str) -> String {
    format!(
        "WITH partition AS MATERIALIZED (
             SELECT c.name, c.embedding_dimension, c.created_at, c.updated_at, p.oid, p.reltoastrelid
             FROM rag.collections c
             LEFT JOIN pg_catalog.pg_class p ON p.relname = ('rag_kb_' || c.name)::pg_catalog.name
                 AND p.relnamespace = 'rag'::pg_catalog.regnamespace
             {only}),
         relation (name, oid, is_index) AS (
             SELECT p.name, p.oid, false FROM partition p
             UNION ALL SELECT p.name, p.reltoastrelid, false FROM partition p
             UNION ALL SELECT p.name, i.indexrelid, false
                       FROM partition p JOIN pg_catalog.pg_index i ON i.indrelid = p.reltoastrelid
             UNION ALL SELECT p.name, i.indexrelid, true
                       FROM partition p JOIN pg_catalog.pg_index i ON i.indrelid = p.oid),
         file (name, path, is_index) AS (
             SELECT r.name, CASE f.reltablespace
                                WHEN 0 THEN d.folder || f.relfilenode
                                ELSE pg_catalog.pg_relation_filepath(f.oid) END, r.is_index
             FROM relation r JOIN pg_catalog.pg_class f ON f.oid = r.oid,
                  (SELECT pg_catalog.regexp_replace(pg_catalog.pg_relation_filepath(
                       'pg_catalog.pg_class'::pg_catalog.regclass), '[0-9]+$', '')) AS d (folder)),
         files AS (
             SELECT f.name, pg_catalog.array_agg(f.path) FILTER (WHERE NOT f.is_index) AS of_table,
                    pg_catalog.array_agg(f.path) FILTER (WHERE f.is_index) AS of_indexes
             FROM file f GROUP BY f.name)
         SELECT c.name, c.embedding_dimension, c.created_at,
                greatest(c.updated_at, (SELECT pg_catalog.max(x.changed_at) FROM rag.content_change x
                                        WHERE x.collection = c.name)),
                f.of_table, f.of_indexes,
                EXISTS (SELECT FROM pg_catalog.pg_index i
                        JOIN pg_catalog.pg_class n ON n.oid = i.indexrelid
                        JOIN pg_catalog.pg_am a ON a.oid = n.relam
                        WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL AND a.amname = 'rag_hnsw'),
                (SELECT pg_catalog.string_agg(DISTINCT b.problem, '; ') FROM rag.index_damage b
                 WHERE b.collection = c.name AND pg_catalog.pg_relation_filenode(b.index) = b.filenode)
         FROM partition c LEFT JOIN files f ON f.name = c.name"
    )
}

fn whole(row: &Row<'_, '_>) -> Result<Whole, Error> {
    let bytes =
        |files: Option<Vec<String>>| files.iter().flatten().map(|path| bytes_of(path)).sum();
    Ok(Whole {
        dimensions: row.get(2)?,
        created_at: row.required(3)?,
        updated_at: row.required(4)?,
        table_bytes: bytes(row.get(5)?),
        index_bytes: bytes(row.get(6)?),
        has_vector_index: row.required(7)?,
        damage: row.get(8)?,
    })
}

/// Returns the size of a relation's files: its segments, and its maps of free space and of
/// visibility.
fn bytes_of(path: &str) -> i64 {
    const SEGMENT: u64 = pg_sys::RELSEG_SIZE as u64 * pg_sys::BLCKSZ as u64;
    let length = |path: String| fs::metadata(path).map_or(0, |file| file.len());
    let mut bytes = 0;
    for fork in ["", "_fsm", "_vm"] {
        let first = length(format!("{path}{fork}"));
        bytes += first;
        let (mut last, mut number) = (first, 1);
        while last >= SEGMENT {
            last = length(format!("{path}{fork}.{number}"));
            bytes += last;
            number += 1;
        }
    }
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
