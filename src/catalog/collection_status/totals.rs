//! Figures of whole collections, from the catalogs and the files of relations.

use std::{collections::HashMap, fs};

use pgrx::{datum::DatumWithOid, pg_sys};

use super::{CollectionDefinition, CollectionTotals, Damage};
use crate::{
    catalog::damage::explained,
    error::{Cause, Error},
    pg::{
        guc::with_settings,
        security::as_owner,
        spi::{Row, query_prepared},
    },
};

/// Returns the figures of collections by their names.
///
/// # Errors
/// A statement fails. That the documents cannot be read is no error.
pub fn read(
    only: &str,
    args: &[DatumWithOid<'_>],
) -> Result<HashMap<String, CollectionTotals>, Error> {
    let mut sizes = FileSizes::default();
    // compiling the statement would take longer than running it
    let mut read = |shares| {
        as_owner(|| {
            with_settings(&[(c"jit", c"off")], || {
                query_prepared(&statement(only, shares), args, |row| {
                    Ok((row.required("name")?, totals(&row, &mut sizes)?))
                })
            })
        })
    };
    let totals = match explained(|| read(SHARES)) {
        Err(error) if error.is(Cause::Corrupt) => read(NO_SHARES)?,
        totals => totals?,
    };
    Ok(totals.into_iter().collect())
}

/// The parts that collections have of the chunks in shared partitions.
const SHARES: &str = "
    SELECT k.name, (coalesce(pg_catalog.sum(d.chunk_count), 0) / nullif(pg_catalog.sum(
               coalesce(pg_catalog.sum(d.chunk_count), 0)) OVER (PARTITION BY k.partition),
               0))::pg_catalog.float8
    FROM rag_internal.collection k LEFT JOIN rag.documents d ON d.collection = k.name
    WHERE k.index_strategy <> 'per_dataset'
      AND k.partition IN (SELECT p.partition FROM partition p)
    GROUP BY k.name, k.partition";
/// Stands for [`SHARES`] where the documents cannot be read.
const NO_SHARES: &str = "SELECT NULL::pg_catalog.text, NULL::pg_catalog.float8 WHERE false";

/// Returns the statement that reads the paths of files from the catalogs. `pg_table_size` would
/// open each relation, which takes a new session half a millisecond for each collection.
fn statement(only: &str, shares: &str) -> String {
    format!(
        "WITH partition AS MATERIALIZED (
             SELECT c.name, c.embedding_dimension, c.created_at, c.updated_at, c.retriever,
                    c.external_id, c.model, c.model_fingerprint, c.model_precision,
                    c.model_max_tokens, c.partition, c.index_strategy, c.wanted, p.oid,
                    p.reltoastrelid, coalesce(r.storage_type, 'hnsw') AS storage_type,
                    coalesce(r.index_mode, 'per_dataset') AS index_mode, r.index_options
             FROM rag_internal.collection c LEFT JOIN rag_internal.retriever r
                 ON r.name = c.retriever
             LEFT JOIN pg_catalog.pg_class p ON p.relname = c.partition::pg_catalog.name
                 AND p.relnamespace = 'rag_internal'::pg_catalog.regnamespace
             {only}),
         damage AS MATERIALIZED (SELECT * FROM rag_internal.damaged_relations()),
         share (name, of_partition) AS (
             {shares}),
         relation (name, oid, part) AS (
             SELECT p.name, p.oid, 'table' FROM partition p
             UNION ALL SELECT p.name, p.reltoastrelid, 'table' FROM partition p
             UNION ALL SELECT p.name, i.indexrelid, 'table'
                       FROM partition p JOIN pg_catalog.pg_index i ON i.indrelid = p.reltoastrelid
             UNION ALL SELECT p.name, i.indexrelid, 'index'
                       FROM partition p JOIN pg_catalog.pg_index i ON i.indrelid = p.oid),
         file (name, path, part) AS (
             SELECT r.name, CASE f.reltablespace
                                WHEN 0 THEN d.folder || f.relfilenode
                                ELSE pg_catalog.pg_relation_filepath(f.oid) END,
                    CASE WHEN a.amname IN ('rag_hnsw', 'hnsw') THEN 'vectors'
                         WHEN a.amname = 'rag_bm25' THEN 'keywords'
                                  ELSE r.part END
             FROM relation r JOIN pg_catalog.pg_class f ON f.oid = r.oid
                             LEFT JOIN pg_catalog.pg_am a ON a.oid = f.relam,
                  (SELECT pg_catalog.regexp_replace(pg_catalog.pg_relation_filepath(
                       'pg_catalog.pg_class'::pg_catalog.regclass), '[0-9]+$', '')) AS d (folder)),
         files AS (
             SELECT f.name,
                    pg_catalog.array_agg(f.path) FILTER (WHERE f.part = 'table') AS of_table,
                    pg_catalog.array_agg(f.path) FILTER (WHERE f.part = 'vectors') AS of_vectors,
                    pg_catalog.array_agg(f.path) FILTER (WHERE f.part = 'keywords') AS of_keywords,
                    pg_catalog.array_agg(f.path) FILTER (WHERE f.part = 'index') AS of_indexes
             FROM file f GROUP BY f.name)
         SELECT c.name, c.embedding_dimension, c.created_at,
                greatest(c.updated_at,
                         (SELECT pg_catalog.max(x.changed_at) FROM rag_internal.content_change x
                          WHERE x.collection = c.name)) AS updated_at,
                f.of_table, f.of_vectors, f.of_keywords, f.of_indexes,
                c.retriever, c.external_id, c.model, c.model_fingerprint, c.model_precision,
                c.model_max_tokens,
                c.storage_type,
                coalesce(c.index_strategy, c.index_mode) AS index_strategy,
                CASE WHEN s.name IS NULL THEN 1 ELSE coalesce(s.of_partition, 0) END AS share,
                CASE WHEN c.oid IS NOT NULL
                     THEN pg_catalog.format('rag_internal.%I', c.partition) END AS partition,
                EXISTS (SELECT FROM pg_catalog.pg_stat_progress_create_index b
                        WHERE b.relid = c.oid AND b.datname = pg_catalog.current_database())
                OR coalesce(b.is_running, false) AS is_building,
                b.is_running AS rebuild,
                ARRAY(SELECT w.key FROM pg_catalog.jsonb_object_keys(c.wanted) AS w (key)
                      ORDER BY w.key) AS wanted,
                EXISTS (SELECT FROM pg_catalog.pg_index i
                        JOIN pg_catalog.pg_class n ON n.oid = i.indexrelid
                        JOIN pg_catalog.pg_am a ON a.oid = n.relam
                        WHERE i.indrelid = c.oid AND i.indisvalid AND a.amname = 'rag_hnsw'
                          AND c.storage_type = 'hnsw'
                          AND ARRAY(SELECT o.option
                                    FROM pg_catalog.unnest(n.reloptions) AS o (option)
                                    ORDER BY o.option)
                              <> ARRAY(SELECT e.key || '=' || e.value::pg_catalog.int4
                                       FROM pg_catalog.jsonb_each_text(c.index_options) AS e
                                       WHERE e.value IS NOT NULL ORDER BY e.key))
                OR c.partition IS NOT NULL
                   AND c.index_strategy <> c.index_mode AS has_other_options,
                (SELECT pg_catalog.max(a.amname::pg_catalog.text) FROM pg_catalog.pg_index i
                 JOIN pg_catalog.pg_class n ON n.oid = i.indexrelid
                 JOIN pg_catalog.pg_am a ON a.oid = n.relam
                 WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
                   AND a.amname IN ('rag_hnsw', 'hnsw')) AS vector_index_method,
                (SELECT pg_catalog.count(*) FROM rag_internal.storage_change s
                 WHERE s.collection = c.name) AS untold,
                coalesce(
                    (SELECT d.error FROM rag_internal.storage_delay d WHERE d.collection = c.name),
                    (SELECT s.error FROM rag_internal.storage_change s
                     WHERE s.collection = c.name AND s.error IS NOT NULL LIMIT 1))
                    AS untold_error,
                (SELECT pg_catalog.string_agg(DISTINCT b.problem, '; ') FROM damage b
                 WHERE b.table_id = c.oid AND b.kind = 'index') AS damaged_indexes,
                (SELECT pg_catalog.string_agg(DISTINCT b.problem, '; ') FROM damage b
                 WHERE b.table_id = c.oid AND b.kind <> 'index') AS damaged_table
         FROM partition c LEFT JOIN files f ON f.name = c.name
              LEFT JOIN share s ON s.name = c.name
              LEFT JOIN (SELECT k.collection,
                                rag_internal.is_in_progress(k.collection, 'rebuild') AS is_running
                         FROM rag_internal.rebuild k) b ON b.collection = c.name"
    )
}

fn totals(row: &Row<'_, '_>, sizes: &mut FileSizes) -> Result<CollectionTotals, Error> {
    let share: f64 = row.required("share")?;
    let mut bytes = |files: &str| -> Result<i64, Error> {
        let files: Option<Vec<String>> = row.get(files)?;
        let sizes = files.into_iter().flatten().map(|path| sizes.of(path));
        Ok((sizes.sum::<i64>() as f64 * share) as i64)
    };
    let (vector_index_bytes, keyword_index_bytes) = (bytes("of_vectors")?, bytes("of_keywords")?);
    let vector_index_method: Option<String> = row.get("vector_index_method")?;
    Ok(CollectionTotals {
        definition: CollectionDefinition {
            retriever: row.required("retriever")?,
            storage_type: row.required("storage_type")?,
            external_id: row.get("external_id")?,
            model: row.get("model")?,
            model_fingerprint: row.get("model_fingerprint")?,
            model_precision: row.get("model_precision")?,
            model_max_tokens: row.get("model_max_tokens")?,
            partition: row.get("partition")?,
            index_strategy: row.required("index_strategy")?,
            wanted: row.required("wanted")?,
            has_other_options: row.required("has_other_options")?,
            rebuild: row.get("rebuild")?,
        },
        dimensions: row.get("embedding_dimension")?,
        created_at: row.required("created_at")?,
        updated_at: row.required("updated_at")?,
        table_bytes: bytes("of_table")?,
        index_bytes: vector_index_bytes + keyword_index_bytes + bytes("of_indexes")?,
        vector_index_bytes,
        keyword_index_bytes,
        is_building: row.required("is_building")?,
        has_vector_index: vector_index_method.is_some(),
        vector_index_method,
        untold: row.required("untold")?,
        untold_error: row.get("untold_error")?,
        damage: Damage {
            indexes: row.get("damaged_indexes")?,
            table: row.get("damaged_table")?,
            shared: None,
        },
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
