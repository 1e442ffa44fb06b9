//! Counts, sizes and states of collections.
//!
//! Documents are counted with the caller's rights, so that row-level security applies. Sizes and
//! corruption concern the whole collection. No statement reads `rag.chunks`, because that would be
//! planned over all partitions.

use std::{collections::HashMap, fs};

use pgrx::{
    datum::{DatumWithOid, TimestampWithTimeZone},
    pg_sys,
};
use rag_contract::StorageType;

use super::{
    access,
    collections::Collection,
    damage::{explained, is_corruption},
};
use crate::{
    error::Error,
    pg::{
        guc::with_settings,
        security::{as_owner, with_safe_search_path},
        spi::{Row, query_prepared},
    },
};

/// The number of bytes of an embedding before its elements.
const EMBEDDING_HEADER: i64 = 8;

pub struct CollectionStatus {
    pub name: String,
    /// The number of indexed documents, including those whose latest version could not be indexed.
    pub documents: i64,
    /// The number of documents whose latest version could not be indexed.
    pub errors: i64,
    pub chunks: i64,
    /// The stored size of the texts of documents.
    pub text_bytes: i64,
    /// Not all documents were split and embedded with the same settings.
    pub is_mixed: bool,
    pub totals: CollectionTotals,
}

/// Figures of a whole collection, independent of what the caller may see. Of a shared partition,
/// the sizes are the part that the collection has of the chunks.
pub struct CollectionTotals {
    pub dimensions: Option<i32>,
    pub definition: CollectionDefinition,
    pub created_at: TimestampWithTimeZone,
    pub updated_at: TimestampWithTimeZone,
    /// The size of the partition with its TOAST table, without indexes.
    table_bytes: i64,
    pub index_bytes: i64,
    /// The part of it that is the index on the embeddings.
    pub vector_index_bytes: i64,
    pub keyword_index_bytes: i64,
    /// An index is being created.
    is_building: bool,
    /// The embeddings are indexed.
    pub has_vector_index: bool,
    /// The access method of the index on the embeddings.
    vector_index_method: Option<String>,
    /// The number of documents that another server does not have yet.
    untold: i64,
    /// Why it could not be told of them.
    untold_error: Option<String>,
    /// The errors of damaged relations.
    pub damage: Damage,
}

/// The errors of what is damaged.
#[derive(Debug, Default)]
pub struct Damage {
    /// Indexes of the partition.
    indexes: Option<String>,
    /// The partition itself.
    table: Option<String>,
    /// Relations that all collections share, where the collection's rows cannot be read.
    shared: Option<String>,
}

impl Damage {
    fn is_some(&self) -> bool {
        self.indexes.is_some() || self.table.is_some() || self.shared.is_some()
    }

    /// Returns what is damaged, with remedies.
    fn detail(&self, collection: &str) -> Option<String> {
        let indexes = self.indexes.as_ref().map(|problem| {
            format!(
                "{problem}; searches read the table until the next sync or REINDEX rebuilds the \
                 index"
            )
        });
        let table = self.table.as_ref().map(|problem| {
            format!(
                "{problem}; the next sync or CALL rag_rebuild_collection({}) writes the chunks \
                 again from the stored texts",
                pgrx::spi::quote_literal(collection)
            )
        });
        let parts: Vec<String> = [table, indexes, self.shared.clone()]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// What the row of a collection says, and its partition.
pub struct CollectionDefinition {
    pub retriever: String,
    /// The type of storage that the retriever names.
    pub storage_type: String,
    pub external_id: Option<String>,
    pub model: Option<String>,
    pub model_fingerprint: Option<String>,
    pub model_precision: Option<String>,
    pub model_max_tokens: Option<i32>,
    /// The partition of `rag.chunks`, which exists from the first document on.
    pub partition: Option<String>,
    /// How the partition was chosen, or will be.
    pub index_strategy: String,
    /// The names of the settings that wait for a rebuild.
    wanted: Vec<String>,
    /// The vector index has other options than the retriever names, or the partition is of another
    /// strategy.
    has_other_options: bool,
    /// A rebuild has begun. It is in progress, or was interrupted.
    rebuild: Option<bool>,
}

impl CollectionDefinition {
    fn is_stale(&self) -> bool {
        !self.wanted.is_empty() || self.has_other_options || self.rebuild == Some(false)
    }

    /// Returns why a rebuild is needed, and the remedy.
    fn staleness(&self, collection: &str) -> Option<String> {
        if !self.is_stale() {
            return None;
        }
        let wanted = (!self.wanted.is_empty())
            .then(|| format!("changes wait for a rebuild: {}", self.wanted.join(", ")));
        let options = self.has_other_options.then(|| {
            "the retriever names another strategy, or other options of the index".to_owned()
        });
        let interrupted =
            (self.rebuild == Some(false)).then(|| "a rebuild was interrupted".to_owned());
        let reasons: Vec<String> = [wanted, options, interrupted]
            .into_iter()
            .flatten()
            .collect();
        Some(format!(
            "{}; CALL rag_rebuild_collection({})",
            reasons.join(", "),
            pgrx::spi::quote_literal(collection)
        ))
    }
}

impl CollectionStatus {
    pub fn embedding_bytes(&self) -> i64 {
        let dimensions = self.totals.dimensions.map_or(0, i64::from);
        (self.chunks * (EMBEDDING_HEADER + dimensions * 4)).min(self.totals.table_bytes)
    }

    /// Returns the size of the chunks without their embeddings.
    pub fn chunk_bytes(&self) -> i64 {
        self.totals.table_bytes - self.embedding_bytes()
    }

    pub fn total_bytes(&self) -> i64 {
        self.text_bytes + self.totals.table_bytes + self.totals.index_bytes
    }

    /// Returns the state as one word.
    pub fn state(&self) -> &'static str {
        match self {
            _ if self.totals.damage.is_some() => "damaged",
            Self {
                totals:
                    CollectionTotals {
                        is_building: true, ..
                    },
                ..
            } => "building",
            Self {
                totals: CollectionTotals { untold: 1.., .. },
                ..
            } => "syncing",
            _ if self.totals.definition.is_stale() => "stale",
            Self { errors: 1.., .. } => "degraded",
            Self { is_mixed: true, .. } => "mixed",
            Self { documents: 0, .. } => "empty",
            _ => "ready",
        }
    }

    fn untold(&self) -> String {
        let (storage, number) = (&self.totals.definition.storage_type, self.totals.untold);
        let documents = if number == 1 { "document" } else { "documents" };
        let why = match &self.totals.untold_error {
            Some(error) => format!("; it is tried again, because {error}"),
            None => String::new(),
        };
        format!("storage \"{storage}\" does not have the last changes of {number} {documents}{why}")
    }

    /// Returns by what the vectors are searched.
    pub fn index_type(&self) -> &str {
        match self.totals.vector_index_method.as_deref() {
            Some("rag_hnsw") => StorageType::Hnsw.name(),
            Some("hnsw") => StorageType::PgVector.name(),
            _ => StorageType::parse(&self.totals.definition.storage_type)
                .filter(|storage| storage.is_remote())
                .unwrap_or(StorageType::Flat)
                .name(),
        }
    }

    /// Returns the reason for the state, and a remedy.
    pub fn detail(&self) -> Option<String> {
        let corruption = self.totals.damage.detail(&self.name);
        let errors = (self.errors > 0).then(|| {
            let documents = if self.errors == 1 {
                "document"
            } else {
                "documents"
            };
            format!(
                "{} {documents} could not be indexed; see column error of rag.documents",
                self.errors
            )
        });
        let building = self
            .totals
            .is_building
            .then_some(match self.totals.definition.rebuild {
                Some(true) => "the collection is being rebuilt; see rag.progress",
                _ => "an index is being created; see pg_stat_progress_create_index",
            })
            .map(str::to_owned);
        let stale = self.totals.definition.staleness(&self.name);
        let mixed = self.is_mixed.then(|| {
            "documents were split or embedded with other settings than the rest; the next sync \
             indexes those of sources again"
                .to_owned()
        });
        let untold = (self.totals.untold > 0).then(|| self.untold());
        let parts: Vec<String> = [corruption, building, untold, stale, errors, mixed]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Returns the status of a collection that the caller may read.
///
/// # Errors
/// A statement fails.
pub fn of(collection: &Collection) -> Result<Vec<CollectionStatus>, Error> {
    let args = [collection.name.as_str().into()];
    let count = || counts("WHERE c.name = $1", &args);
    // a check for each document would take longer with each collection
    let as_counter = || match access::sees_every_document(collection) {
        true => as_owner(count),
        false => with_safe_search_path(count),
    };
    let counted = match explained(as_counter) {
        Err(error) if is_corruption(&error) => {
            vec![(collection.name.to_string(), Counts::unknown(&error))]
        }
        counted => counted?,
    };
    with_totals(counted, "WHERE c.name = $1", &args)
}

/// Returns the status of all collections that the caller may read, by name. If `rag.documents` is
/// damaged, that of each collection whose documents can be read, and the error for the others.
///
/// # Errors
/// A statement fails.
pub fn of_all() -> Result<Vec<CollectionStatus>, Error> {
    match explained(|| with_safe_search_path(|| counts("", &[]))) {
        Err(error) if is_corruption(&error) => {
            let mut all = vec![];
            for name in with_safe_search_path(names)? {
                // it may have been dropped
                if let Some(collection) = Collection::find(&name)? {
                    all.extend(of(&collection)?);
                }
            }
            Ok(all)
        }
        counted => with_totals(counted?, "", &[]),
    }
}

/// Returns the names of the collections that the caller may read.
fn names() -> Result<Vec<String>, Error> {
    query_prepared("SELECT name FROM rag.collections ORDER BY 1", &[], |row| {
        row.required(1)
    })
}

/// The numbers of documents, errors and chunks of a collection, and the size of its texts.
struct Counts {
    documents: i64,
    errors: i64,
    chunks: i64,
    text_bytes: i64,
    is_mixed: bool,
    /// Why they are not known.
    problem: Option<String>,
}

impl Counts {
    fn unknown(error: &Error) -> Self {
        Self {
            documents: 0,
            errors: 0,
            chunks: 0,
            text_bytes: 0,
            is_mixed: false,
            problem: Some(match &error.hint {
                Some(hint) => format!("{error}: {hint}"),
                None => error.to_string(),
            }),
        }
    }
}

fn counts(only: &str, args: &[DatumWithOid<'_>]) -> Result<Vec<(String, Counts)>, Error> {
    query_prepared(&count_statement(only), args, |row| {
        Ok((
            row.required("name")?,
            Counts {
                documents: row.required("documents")?,
                errors: row.required("errors")?,
                chunks: row.required("chunks")?,
                text_bytes: row.required("text_bytes")?,
                is_mixed: row.required("is_mixed")?,
                problem: None,
            },
        ))
    })
}

fn with_totals(
    counted: Vec<(String, Counts)>,
    only: &str,
    args: &[DatumWithOid<'_>],
) -> Result<Vec<CollectionStatus>, Error> {
    let mut sizes = FileSizes::default();
    // compiling the statement would take longer than running it
    let mut read = |shares| {
        as_owner(|| {
            with_settings(&[(c"jit", c"off")], || {
                query_prepared(&totals_statement(only, shares), args, |row| {
                    Ok((row.required("name")?, totals(&row, &mut sizes)?))
                })
            })
        })
    };
    let totals = match explained(|| read(SHARES)) {
        Err(error) if is_corruption(&error) => read(NO_SHARES)?,
        totals => totals?,
    };
    let mut totals: HashMap<String, CollectionTotals> = totals.into_iter().collect();
    let status = |(name, counts): (String, Counts)| {
        let mut totals = totals.remove(&name)?;
        totals.damage.shared = counts.problem;
        Some(CollectionStatus {
            name,
            documents: counts.documents,
            errors: counts.errors,
            chunks: counts.chunks,
            text_bytes: counts.text_bytes,
            is_mixed: counts.is_mixed,
            totals,
        })
    };
    Ok(counted.into_iter().filter_map(status).collect())
}

fn count_statement(only: &str) -> String {
    format!(
        "SELECT c.name, coalesce(d.documents, 0) AS documents, coalesce(d.errors, 0) AS errors,
                coalesce(d.chunks, 0) AS chunks, coalesce(d.text_bytes, 0) AS text_bytes,
                coalesce(d.is_mixed, false) AS is_mixed
         FROM rag.collections c
         LEFT JOIN (SELECT d.collection,
                           pg_catalog.count(*) FILTER (WHERE d.indexed_at IS NOT NULL) AS documents,
                           pg_catalog.count(*) FILTER (WHERE d.status = 'error') AS errors,
                           pg_catalog.sum(d.chunk_count) AS chunks,
                           pg_catalog.sum(pg_catalog.pg_column_size(d.content)) AS text_bytes,
                           pg_catalog.min(d.chunking) FILTER (WHERE d.chunking <> 'given')
                           <> pg_catalog.max(d.chunking) FILTER (WHERE d.chunking <> 'given')
                               AS is_mixed
                    FROM rag.documents d GROUP BY d.collection) d ON d.collection = c.name
         {only} ORDER BY c.name"
    )
}

/// The parts that collections have of the chunks in shared partitions.
const SHARES: &str = "
    SELECT k.name, (coalesce(pg_catalog.sum(d.chunk_count), 0) / nullif(pg_catalog.sum(
               coalesce(pg_catalog.sum(d.chunk_count), 0)) OVER (PARTITION BY k.partition),
               0))::pg_catalog.float8
    FROM rag.collections k LEFT JOIN rag.documents d ON d.collection = k.name
    WHERE k.index_strategy <> 'per_dataset'
      AND k.partition IN (SELECT p.partition FROM partition p)
    GROUP BY k.name, k.partition";
/// The same where documents cannot be read.
const NO_SHARES: &str = "SELECT NULL::pg_catalog.text, NULL::pg_catalog.float8 WHERE false";

/// Returns the statement that reads the paths of files from the catalogs. `pg_table_size` would
/// open each relation, which takes a new session half a millisecond for each collection.
fn totals_statement(only: &str, shares: &str) -> String {
    format!(
        "WITH partition AS MATERIALIZED (
             SELECT c.name, c.embedding_dimension, c.created_at, c.updated_at, c.retriever,
                    c.external_id, c.model, c.model_fingerprint, c.model_precision,
                    c.model_max_tokens, c.partition, c.index_strategy, c.wanted, p.oid,
                    p.reltoastrelid
             FROM rag.collections c
             LEFT JOIN pg_catalog.pg_class p ON p.relname = c.partition::pg_catalog.name
                 AND p.relnamespace = 'rag'::pg_catalog.regnamespace
             {only}),
         damage AS MATERIALIZED (SELECT * FROM rag.damaged_relations()),
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
                         (SELECT pg_catalog.max(x.changed_at) FROM rag.content_change x
                          WHERE x.collection = c.name)) AS updated_at,
                f.of_table, f.of_vectors, f.of_keywords, f.of_indexes,
                c.retriever, c.external_id, c.model, c.model_fingerprint, c.model_precision,
                c.model_max_tokens,
                (SELECT coalesce(r.spec #>> '{{storageConfig,type}}', 'hnsw') FROM rag.retrievers r
                 WHERE r.name = c.retriever) AS storage_type,
                coalesce(c.index_strategy,
                         (SELECT r.spec #>> '{{storageConfig,indexStrategy,mode}}'
                          FROM rag.retrievers r WHERE r.name = c.retriever),
                         'per_dataset') AS index_strategy,
                CASE WHEN s.name IS NULL THEN 1 ELSE coalesce(s.of_partition, 0) END AS share,
                CASE WHEN c.oid IS NOT NULL
                     THEN pg_catalog.format('rag.%I', c.partition) END AS partition,
                EXISTS (SELECT FROM pg_catalog.pg_stat_progress_create_index b
                        WHERE b.relid = c.oid AND b.datname = pg_catalog.current_database())
                OR coalesce(b.is_running, false) AS is_building,
                b.is_running AS rebuild,
                ARRAY(SELECT w.key FROM pg_catalog.jsonb_object_keys(c.wanted) AS w (key)
                      ORDER BY w.key) AS wanted,
                EXISTS (SELECT FROM pg_catalog.pg_index i
                        JOIN pg_catalog.pg_class n ON n.oid = i.indexrelid
                        JOIN pg_catalog.pg_am a ON a.oid = n.relam
                        JOIN rag.retrievers r ON r.name = c.retriever
                        WHERE i.indrelid = c.oid AND i.indisvalid AND a.amname = 'rag_hnsw'
                          AND coalesce(r.spec #>> '{{storageConfig,type}}', 'hnsw') = 'hnsw'
                          AND ARRAY(SELECT o.option
                                    FROM pg_catalog.unnest(n.reloptions) AS o (option)
                                    ORDER BY o.option)
                              <> ARRAY(SELECT e.key || '=' || e.value::pg_catalog.int4
                                       FROM pg_catalog.jsonb_each_text(
                                           r.spec #> '{{storageConfig,ext}}') AS e
                                       WHERE e.value IS NOT NULL ORDER BY e.key))
                OR c.partition IS NOT NULL AND c.index_strategy <> (
                       SELECT coalesce(r.spec #>> '{{storageConfig,indexStrategy,mode}}',
                                       'per_dataset')
                       FROM rag.retrievers r WHERE r.name = c.retriever)
                    AS has_other_options,
                (SELECT pg_catalog.max(a.amname::pg_catalog.text) FROM pg_catalog.pg_index i
                 JOIN pg_catalog.pg_class n ON n.oid = i.indexrelid
                 JOIN pg_catalog.pg_am a ON a.oid = n.relam
                 WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
                   AND a.amname IN ('rag_hnsw', 'hnsw')) AS vector_index_method,
                (SELECT pg_catalog.count(*) FROM rag.storage_change s
                 WHERE s.collection = c.name) AS untold,
                coalesce(
                    (SELECT d.error FROM rag.storage_delay d WHERE d.collection = c.name),
                    (SELECT s.error FROM rag.storage_change s
                     WHERE s.collection = c.name AND s.error IS NOT NULL LIMIT 1))
                    AS untold_error,
                (SELECT pg_catalog.string_agg(DISTINCT b.problem, '; ') FROM damage b
                 WHERE b.table_id = c.oid AND b.kind = 'index') AS damaged_indexes,
                (SELECT pg_catalog.string_agg(DISTINCT b.problem, '; ') FROM damage b
                 WHERE b.table_id = c.oid AND b.kind <> 'index') AS damaged_table
         FROM partition c LEFT JOIN files f ON f.name = c.name
              LEFT JOIN share s ON s.name = c.name
              LEFT JOIN (SELECT k.collection, rag.is_rebuilding(k.collection) AS is_running
                         FROM rag.rebuild k) b ON b.collection = c.name"
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
