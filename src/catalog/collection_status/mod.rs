//! Counts, sizes and states of collections.
//!
//! Documents are counted with the caller's rights, so that row-level security applies. Sizes and
//! corruption concern the whole collection. No statement reads `rag.chunks`, because that would be
//! planned over all partitions.

mod totals;

use pgrx::datum::{DatumWithOid, TimestampWithTimeZone};
use rag_definition::retriever::StorageType;

use super::{access, collections::Collection, damage::explained};
use crate::{
    error::{Cause, Error},
    pg::{
        security::{as_owner, with_safe_search_path},
        spi::query_prepared,
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
                .filter(|storage| storage.server().is_some())
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
        Err(error) if error.is(Cause::Corrupt) => {
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
        Err(error) if error.is(Cause::Corrupt) => {
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
    query_prepared(
        "SELECT name FROM rag.collections ORDER BY 1",
        &[],
        |row| row.required(1),
    )
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
    let mut totals = totals::read(only, args)?;
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
