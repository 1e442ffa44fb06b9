//! Figures of collections: counts, and sizes from the catalogs and the files of relations.
//!
//! No statement reads `rag.chunks`, because that would be planned over all partitions.

use std::{collections::HashMap, fs};

use pgrx::{
    datum::{DatumWithOid, TimestampWithTimeZone},
    pg_sys,
};
use rag_definition::{collection::CollectionDefinition, retriever::StorageType};

use crate::{
    catalog::{
        collections::{DEFINITION, read_definition},
        shards,
    },
    error::Error,
    pg::{
        guc::with_settings,
        spi::{Rights, Row, as_owner},
    },
};

/// What of a collection the current role can read.
#[derive(Debug, Clone, Default)]
pub struct CollectionCounts {
    /// The number of indexed documents, including those whose latest version could not be indexed.
    pub documents: i64,
    /// The number of documents whose latest version could not be indexed.
    pub errors: i64,
    pub chunks: i64,
    /// The stored size of the texts of documents.
    pub text_bytes: i64,
    /// Not all documents were split and embedded with the same settings.
    pub is_mixed: bool,
}

/// Figures of a whole collection, independent of what the caller may see. Of a shared partition,
/// the sizes are the part that the collection has of the chunks.
pub struct CollectionFigures {
    /// The part that the collection has of its partition.
    share: f64,
    pub definition: CollectionDefinition,
    pub created_at: TimestampWithTimeZone,
    pub updated_at: TimestampWithTimeZone,
    /// The type of storage that the retriever names.
    pub storage_type: String,
    pub model: Option<String>,
    pub model_fingerprint: Option<String>,
    pub model_precision: Option<String>,
    pub model_max_tokens: Option<i32>,
    pub dimensions: Option<i32>,
    /// The partition of `rag.chunks`, which exists from the first document on.
    pub partition: Option<String>,
    /// How the partition was chosen, or will be.
    pub index_strategy: String,
    /// The names of the attributes that wait for a rebuild.
    pub wanted: Vec<String>,
    /// The vector index has other options than the retriever names, or the partition is of another
    /// strategy.
    pub has_other_options: bool,
    /// A rebuild has begun. It is in progress, or was interrupted.
    pub rebuild: Option<bool>,
    /// The size of the partition with its TOAST table, without indexes.
    pub table_bytes: i64,
    pub index_bytes: i64,
    /// The part of it that is the index on the embeddings.
    pub vector_index_bytes: i64,
    pub keyword_index_bytes: i64,
    /// An index is being created, or a rebuild is in progress.
    pub is_building: bool,
    /// The access method of the index on the embeddings.
    pub vector_index_method: Option<String>,
    /// The number of documents with changes that another server does not have yet.
    pub pending: i64,
    /// Why they could not be replicated.
    pub pending_error: Option<String>,
    pub damaged_indexes: Option<String>,
    pub damaged_table: Option<String>,
}

/// Returns the names of the collections that the current role may read.
pub fn names(rights: &Rights) -> Result<Vec<String>, Error> {
    rights.query_prepared("SELECT name FROM rag.collections ORDER BY 1", &[], |row| {
        row.required("name")
    })
}

/// Counts the documents of one collection or of all that a role sees, by their names.
pub fn counts(
    rights: &Rights,
    only: Option<&str>,
) -> Result<Vec<(String, CollectionCounts)>, Error> {
    let condition = condition(only);
    let statement = format!(
        "SELECT c.name, coalesce(d.documents, 0) AS documents, coalesce(d.errors, 0) AS errors,
                coalesce(d.chunks, 0) AS chunks, coalesce(d.text_bytes, 0) AS text_bytes,
                coalesce(d.is_mixed, false) AS is_mixed
         FROM rag.collections c
         LEFT JOIN (SELECT d.collection,
                           count(*) FILTER (WHERE d.indexed_at IS NOT NULL) AS documents,
                           count(*) FILTER (WHERE d.status = 'error') AS errors,
                           sum(d.chunk_count) AS chunks,
                           sum(pg_column_size(d.content)) AS text_bytes,
                           min(d.chunking) FILTER (WHERE d.chunking <> 'given')
                           <> max(d.chunking) FILTER (WHERE d.chunking <> 'given')
                               AS is_mixed
                    FROM rag.documents d GROUP BY d.collection) d ON d.collection = c.name
         {condition} ORDER BY c.name"
    );
    rights.query_prepared(&statement, &arguments(only), |row| {
        Ok((
            row.required("name")?,
            CollectionCounts {
                documents: row.required("documents")?,
                errors: row.required("errors")?,
                chunks: row.required("chunks")?,
                text_bytes: row.required("text_bytes")?,
                is_mixed: row.required("is_mixed")?,
            },
        ))
    })
}

fn condition(only: Option<&str>) -> &'static str {
    only.map_or("", |_| "WHERE c.name = $1")
}

fn arguments(only: Option<&str>) -> Vec<DatumWithOid<'_>> {
    only.into_iter().map(Into::into).collect()
}

/// How the sizes of a shared partition are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// By the chunks that each collection has, which its documents say.
    ByChunks,
    /// Each collection has the whole.
    None,
}

/// Returns the figures of one collection or of all, by their names.
pub fn figures(
    only: Option<&str>,
    division: Division,
) -> Result<HashMap<String, CollectionFigures>, Error> {
    let shares = match division {
        Division::ByChunks => SHARES,
        Division::None => NO_SHARES,
    };
    let mut sizes = FileSizes::default();
    let found = as_owner(|owner| {
        // compiling the statement would take longer than running it
        with_settings(&[(c"jit", c"off")], || {
            owner.query_prepared(
                &statement(condition(only), shares),
                &arguments(only),
                |row| Ok((row.required("name")?, read(&row, &mut sizes)?)),
            )
        })
    })?;
    let mut found: HashMap<String, CollectionFigures> = found.into_iter().collect();
    if shards::is_distributed()? {
        found.values_mut().try_for_each(add_sizes_of_shards)?;
    }
    Ok(found)
}

/// Adds the sizes of a partition on all servers.
fn add_sizes_of_shards(figures: &mut CollectionFigures) -> Result<(), Error> {
    let Some(partition) = &figures.partition else {
        return Ok(());
    };
    let found = as_owner(|owner| {
        owner.query(
            "SELECT table_bytes, vector_index_bytes, keyword_index_bytes, index_bytes
             FROM rag_internal.shard_sizes($1::regclass)",
            &[partition.as_str().into()],
            |row| {
                Ok([
                    row.required::<i64>("table_bytes")?,
                    row.required::<i64>("vector_index_bytes")?,
                    row.required::<i64>("keyword_index_bytes")?,
                    row.required::<i64>("index_bytes")?,
                ])
            },
        )
    })?;
    for sizes in found {
        let [table, vectors, keywords, indexes] =
            sizes.map(|bytes| (bytes as f64 * figures.share) as i64);
        figures.table_bytes += table;
        figures.vector_index_bytes += vectors;
        figures.keyword_index_bytes += keywords;
        figures.index_bytes += indexes;
    }
    Ok(())
}

/// The parts that collections have of the chunks in shared partitions.
const SHARES: &str = "
    SELECT k.name, (coalesce(sum(d.chunk_count), 0) / nullif(sum(
               coalesce(sum(d.chunk_count), 0)) OVER (PARTITION BY k.partition),
               0))::float8
    FROM rag_internal.collection k LEFT JOIN rag.documents d ON d.collection = k.name
    WHERE k.index_strategy <> 'per_dataset'
      AND k.partition IN (SELECT p.partition FROM partition p)
    GROUP BY k.name, k.partition";
/// Stands for [`SHARES`] where documents are not read.
const NO_SHARES: &str = "SELECT NULL::text, NULL::float8 WHERE false";

/// Returns the access methods of indexes on embeddings, as literals of SQL.
fn vector_methods() -> String {
    let methods = StorageType::ALL
        .iter()
        .filter_map(|storage| storage.access_method())
        .map(|method| format!("'{}'", method.to_string_lossy()));
    methods.collect::<Vec<_>>().join(", ")
}

/// Returns the statement that reads the paths of files from the catalogs. `pg_table_size` would
/// open each relation, which takes a new session half a millisecond for each collection.
fn statement(only: &str, shares: &str) -> String {
    let vector_methods = vector_methods();
    format!(
        "WITH partition AS MATERIALIZED (
             SELECT c.*, p.oid, p.reltoastrelid, coalesce(r.storage_type, 'hnsw') AS storage_type,
                    coalesce(r.index_mode, 'per_dataset') AS index_mode, r.index_options
             FROM rag_internal.collection c LEFT JOIN rag_internal.retriever r
                 ON r.name = c.retriever
             LEFT JOIN pg_class p ON p.relname = c.partition::name
                 AND p.relnamespace = 'rag_internal'::regnamespace
             {only}),
         damage AS MATERIALIZED (SELECT * FROM rag_internal.damaged_relations()),
         share (name, of_partition) AS (
             {shares}),
         relation (name, oid, part) AS (
             SELECT p.name, p.oid, 'table' FROM partition p
             UNION ALL SELECT p.name, p.reltoastrelid, 'table' FROM partition p
             UNION ALL SELECT p.name, i.indexrelid, 'table'
                       FROM partition p JOIN pg_index i ON i.indrelid = p.reltoastrelid
             UNION ALL SELECT p.name, i.indexrelid, 'index'
                       FROM partition p JOIN pg_index i ON i.indrelid = p.oid),
         file (name, path, part) AS (
             SELECT r.name, CASE f.reltablespace
                                WHEN 0 THEN d.folder || f.relfilenode
                                ELSE pg_relation_filepath(f.oid) END,
                    CASE WHEN a.amname IN ({vector_methods}) THEN 'vectors'
                         WHEN a.amname = 'rag_bm25' THEN 'keywords'
                                  ELSE r.part END
             FROM relation r JOIN pg_class f ON f.oid = r.oid
                             LEFT JOIN pg_am a ON a.oid = f.relam,
                  (SELECT regexp_replace(pg_relation_filepath(
                       'pg_class'::regclass), '[0-9]+$', '')) AS d (folder)),
         files AS (
             SELECT f.name,
                    array_agg(f.path) FILTER (WHERE f.part = 'table') AS of_table,
                    array_agg(f.path) FILTER (WHERE f.part = 'vectors') AS of_vectors,
                    array_agg(f.path) FILTER (WHERE f.part = 'keywords') AS of_keywords,
                    array_agg(f.path) FILTER (WHERE f.part = 'index') AS of_indexes
             FROM file f GROUP BY f.name)
         SELECT c.name, c.embedding_dimension, c.created_at,
                greatest(c.updated_at,
                         (SELECT max(x.changed_at) FROM rag_internal.content_change x
                          WHERE x.collection = c.name)) AS updated_at,
                f.of_table, f.of_vectors, f.of_keywords, f.of_indexes,
                {definition} AS definition, c.model, c.model_fingerprint, c.model_precision,
                c.model_max_tokens, c.storage_type,
                coalesce(c.index_strategy, c.index_mode) AS index_strategy,
                CASE WHEN s.name IS NULL THEN 1 ELSE coalesce(s.of_partition, 0) END AS share,
                CASE WHEN c.oid IS NOT NULL
                     THEN format('rag_internal.%I', c.partition) END AS partition,
                EXISTS (SELECT FROM pg_stat_progress_create_index b
                        WHERE b.relid = c.oid AND b.datname = current_database())
                OR coalesce(b.is_running, false) AS is_building,
                b.is_running AS rebuild,
                ARRAY(SELECT w.key FROM jsonb_object_keys(c.wanted) AS w (key)
                      ORDER BY w.key) AS wanted,
                EXISTS (SELECT FROM pg_index i
                        JOIN pg_class n ON n.oid = i.indexrelid
                        JOIN pg_am a ON a.oid = n.relam
                        WHERE i.indrelid = c.oid AND i.indisvalid AND a.amname = 'rag_hnsw'
                          AND c.storage_type = 'hnsw'
                          AND ARRAY(SELECT o.option
                                    FROM unnest(n.reloptions) AS o (option)
                                    ORDER BY o.option)
                              <> ARRAY(SELECT e.key || '=' || e.value::int4
                                       FROM jsonb_each_text(c.index_options) AS e
                                       WHERE e.value IS NOT NULL ORDER BY e.key))
                OR c.partition IS NOT NULL
                   AND c.index_strategy <> c.index_mode AS has_other_options,
                (SELECT max(a.amname::text) FROM pg_index i
                 JOIN pg_class n ON n.oid = i.indexrelid
                 JOIN pg_am a ON a.oid = n.relam
                 WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
                   AND a.amname IN ({vector_methods})) AS vector_index_method,
                (SELECT count(*) FROM rag_internal.storage_change s
                 WHERE s.collection = c.name) AS pending,
                coalesce(
                    (SELECT d.error FROM rag_internal.storage_delay d WHERE d.collection = c.name),
                    (SELECT s.error FROM rag_internal.storage_change s
                     WHERE s.collection = c.name AND s.error IS NOT NULL LIMIT 1))
                    AS pending_error,
                (SELECT string_agg(DISTINCT b.problem, '; ') FROM damage b
                 WHERE b.table_id = c.oid AND b.kind = 'index') AS damaged_indexes,
                (SELECT string_agg(DISTINCT b.problem, '; ') FROM damage b
                 WHERE b.table_id = c.oid AND b.kind <> 'index') AS damaged_table
         FROM partition c LEFT JOIN files f ON f.name = c.name
              LEFT JOIN share s ON s.name = c.name
              LEFT JOIN (SELECT k.collection,
                                rag_internal.is_in_progress(k.collection, 'rebuild') AS is_running
                         FROM rag_internal.rebuild k) b ON b.collection = c.name",
        definition = *DEFINITION
    )
}

fn read(row: &Row<'_, '_>, sizes: &mut FileSizes) -> Result<CollectionFigures, Error> {
    let share: f64 = row.required("share")?;
    let mut bytes = |files: &str| -> Result<i64, Error> {
        let files: Option<Vec<String>> = row.get(files)?;
        let sizes = files.into_iter().flatten().map(|path| sizes.of(path));
        Ok((sizes.sum::<i64>() as f64 * share) as i64)
    };
    let (vector_index_bytes, keyword_index_bytes) = (bytes("of_vectors")?, bytes("of_keywords")?);
    Ok(CollectionFigures {
        share,
        definition: read_definition(row)?,
        created_at: row.required("created_at")?,
        updated_at: row.required("updated_at")?,
        storage_type: row.required("storage_type")?,
        model: row.get("model")?,
        model_fingerprint: row.get("model_fingerprint")?,
        model_precision: row.get("model_precision")?,
        model_max_tokens: row.get("model_max_tokens")?,
        dimensions: row.get("embedding_dimension")?,
        partition: row.get("partition")?,
        index_strategy: row.required("index_strategy")?,
        wanted: row.required("wanted")?,
        has_other_options: row.required("has_other_options")?,
        rebuild: row.get("rebuild")?,
        table_bytes: bytes("of_table")?,
        index_bytes: vector_index_bytes + keyword_index_bytes + bytes("of_indexes")?,
        vector_index_bytes,
        keyword_index_bytes,
        is_building: row.required("is_building")?,
        vector_index_method: row.get("vector_index_method")?,
        pending: row.required("pending")?,
        pending_error: row.get("pending_error")?,
        damaged_indexes: row.get("damaged_indexes")?,
        damaged_table: row.get("damaged_table")?,
    })
}

/// The sizes of relations by the paths of their files. Collections share relations.
#[derive(Default)]
struct FileSizes(HashMap<String, i64>);

impl FileSizes {
    fn of(&mut self, path: String) -> i64 {
        if let Some(bytes) = self.0.get(&path) {
            return *bytes;
        }
        let bytes = bytes_of(&path);
        self.0.insert(path, bytes);
        bytes
    }
}

/// Returns the size of the files of a relation: its segments, its free space map and its visibility
/// map.
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
