//! `rag.collections`, and the partition of `rag.chunks` that each has.

use pgrx::datum::TimestampWithTimeZone;
use rag_protocol::{
    embed::ModelInfo,
    ingest::{Splitting, Unit},
};

use super::{as_owner, embedding_index, execute, execute_returning, name::Name, query, query_as_caller, retrievers};
use crate::error::Error;

/// Size of a chunk and of the overlap where a collection does not say.
fn default_sizes(unit: Unit) -> (usize, usize) {
    match unit {
        Unit::Characters => (1000, 200),
        Unit::Tokens => (200, 40),
    }
}

#[derive(Debug, Clone)]
pub struct Collection {
    pub name: Name,
    pub retriever: String,
    pub splitting: Splitting,
    /// Metadata keys that chunks carry; `None`: all.
    pub metadata_whitelist: Option<Vec<String>>,
    /// What the stored embeddings are made with; `None` until the first document.
    pub model: Option<StoredModel>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredModel {
    pub name: String,
    pub fingerprint: String,
    pub dimensions: usize,
}

impl Collection {
    /// # Errors
    /// There is no such collection.
    pub fn get(name: &str) -> Result<Self, Error> {
        Self::find(name)?.ok_or_else(|| Self::missing(name))
    }

    /// The error for a collection that does not exist.
    pub fn missing(name: &str) -> Error {
        Error::undefined(format!("collection \"{name}\" does not exist"))
            .hint("rag.collections lists them; rag_create_collection makes one.")
    }

    pub fn find(name: &str) -> Result<Option<Self>, Error> {
        let found = as_owner(|| {
            query(
                "SELECT name, chunk_size, chunk_overlap, metadata_whitelist, model, model_fingerprint, embedding_dimension,
                        chunk_unit, retriever
                 FROM rag.collections WHERE name = $1",
                &[name.into()],
                |row| {
                    let model = match (row.get(5)?, row.get(6)?, row.get::<i32>(7)?) {
                        (Some(name), Some(fingerprint), Some(dimensions)) => {
                            Some(StoredModel { name, fingerprint, dimensions: dimensions as usize })
                        }
                        _ => None,
                    };
                    Ok(Self {
                        name: Name::parse("collection", &row.required::<String>(1)?)?,
                        splitting: splitting(row.get(2)?, row.get(3)?, unit(&row.required::<String>(8)?)?),
                        retriever: row.required(9)?,
                        metadata_whitelist: row.get(4)?,
                        model,
                    })
                },
            )
        })?;
        Ok(found.into_iter().next())
    }

    /// Refuses another model than the stored embeddings' one: their distances would mean nothing. Another precision of
    /// the same model is no other model: the next sync embeds anew, and until then the two are close enough.
    ///
    /// # Errors
    /// Name or dimensions differ.
    pub fn check_model(&self, model: &ModelInfo) -> Result<(), Error> {
        let Some(stored) = &self.model else { return Ok(()) };
        if stored.name == model.name && stored.dimensions == model.dimensions {
            return Ok(());
        }
        Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("collection \"{}\" was embedded with another model", self.name),
        )
        .detail(format!(
            "Stored: {} with {} dimensions; present: {} with {}.",
            stored.name, stored.dimensions, model.name, model.dimensions
        ))
        .hint("Set rag.model_dir back, or fill a new collection with the present model."))
    }

    /// Makes the collection's partition where it is missing, and notes the model. Runs in the transaction that writes
    /// the collection's documents, as the extension's owner.
    pub fn prepare_for(&self, model: &ModelInfo) -> Result<(), Error> {
        let same = self.model.as_ref().is_some_and(|m| m.fingerprint == model.fingerprint && m.name == model.name);
        if !same {
            execute(
                "UPDATE rag.collections SET model = $2, model_fingerprint = $3, embedding_dimension = $4, updated_at = now()
                 WHERE name = $1 AND model_fingerprint IS DISTINCT FROM $3",
                &[
                    self.name.as_str().into(),
                    model.name.as_str().into(),
                    model.fingerprint.as_str().into(),
                    (model.dimensions as i32).into(),
                ],
            )?;
        }
        if self.model.is_none() && !self.has_partition()? {
            self.create_partition()?;
        }
        Ok(())
    }

    fn create_partition(&self) -> Result<(), Error> {
        let partition = self.partition();
        execute(
            &format!(
                "CREATE TABLE {partition} (LIKE rag.chunks INCLUDING ALL EXCLUDING COMMENTS, PRIMARY KEY (chunk_id))"
            ),
            &[],
        )?;
        execute(&format!("CREATE INDEX ON {partition} (document_id)"), &[])?;
        execute(&format!("CREATE INDEX ON {partition} (embedding_key)"), &[])?;
        // not CREATE TABLE ... PARTITION OF, which would wait for all who have read rag.chunks, and they for it
        execute(
            &format!(
                "ALTER TABLE rag.chunks ATTACH PARTITION {partition} FOR VALUES IN ({})",
                pgrx::spi::quote_literal(self.name.as_str())
            ),
            &[],
        )?;
        Ok(())
    }

    /// The partition, as it is written in a statement.
    pub fn partition(&self) -> String {
        pgrx::spi::quote_qualified_identifier("rag", &self.partition_name())
    }

    pub fn partition_name(&self) -> String {
        format!("rag_kb_{}", self.name)
    }

    fn has_partition(&self) -> Result<bool, Error> {
        // the row lock makes two first writers take turns
        let found = execute_returning(
            "SELECT pg_catalog.to_regclass($2) IS NOT NULL FROM rag.collections WHERE name = $1 FOR UPDATE",
            &[self.name.as_str().into(), self.partition().into()],
            |row| row.required(1),
        )?;
        Ok(found.into_iter().next().unwrap_or(false))
    }
}

fn splitting(chunk_size: Option<i32>, chunk_overlap: Option<i32>, unit: Unit) -> Splitting {
    let (default_size, default_overlap) = default_sizes(unit);
    let chunk_size = chunk_size.map_or(default_size, |n| n as usize);
    // a small chunk_size alone must not contradict the default overlap
    let chunk_overlap = chunk_overlap.map_or_else(|| default_overlap.min(chunk_size / 5), |n| n as usize);
    Splitting { chunk_size, chunk_overlap, unit }
}

fn unit(name: &str) -> Result<Unit, Error> {
    Unit::parse(name).ok_or_else(|| {
        Error::invalid_parameter(format!("unknown chunk_unit \"{name}\""))
            .hint(format!("Units: {}.", Unit::ALL.map(Unit::name).join(", ")))
    })
}

/// What `chunk_size`, `chunk_overlap` and `chunk_unit` of a user mean together.
///
/// # Errors
/// One is out of range, or they contradict each other.
pub fn checked_splitting(
    chunk_size: Option<i32>,
    chunk_overlap: Option<i32>,
    chunk_unit: &str,
) -> Result<Splitting, Error> {
    let unit = unit(chunk_unit)?;
    if let Some(n) = chunk_size.filter(|n| !(1..=1_000_000).contains(n)) {
        return Err(Error::invalid_parameter(format!("chunk_size must be between 1 and 1000000, not {n}")));
    }
    if let Some(n) = chunk_overlap.filter(|n| *n < 0) {
        return Err(Error::invalid_parameter(format!("chunk_overlap must not be negative, but is {n}")));
    }
    let both = splitting(chunk_size, chunk_overlap, unit);
    if both.chunk_overlap >= both.chunk_size {
        return Err(Error::invalid_parameter(format!(
            "chunk_overlap ({}) must be smaller than chunk_size ({})",
            both.chunk_overlap, both.chunk_size
        )));
    }
    Ok(both)
}

pub struct NewCollection<'a> {
    pub name: &'a Name,
    pub retriever: &'a str,
    pub chunk_size: Option<i32>,
    pub chunk_overlap: Option<i32>,
    pub chunk_unit: &'a str,
    pub metadata_whitelist: Option<Vec<String>>,
    pub description: Option<&'a str>,
}

/// # Errors
/// The name is taken, or the retriever does not exist.
pub fn create(new: NewCollection<'_>) -> Result<(), Error> {
    let name = new.name;
    match create_if_missing(new)? {
        true => Ok(()),
        false => Err(Error::duplicate(format!("collection \"{name}\" already exists"))),
    }
}

/// Makes a collection unless there is one of this name; whether it did.
///
/// # Errors
/// The retriever does not exist.
pub fn create_if_missing(new: NewCollection<'_>) -> Result<bool, Error> {
    as_owner(|| {
        let retrievers = query("SELECT 1 FROM rag.retrievers WHERE name = $1", &[new.retriever.into()], |_| Ok(()))?;
        if retrievers.is_empty() {
            return Err(retrievers::missing(new.retriever));
        }
        let made = execute(
            "INSERT INTO rag.collections (name, retriever, chunk_size, chunk_overlap, metadata_whitelist, description, chunk_unit)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
            &[
                new.name.as_str().into(),
                new.retriever.into(),
                new.chunk_size.into(),
                new.chunk_overlap.into(),
                new.metadata_whitelist.into(),
                new.description.into(),
                new.chunk_unit.into(),
            ],
        )?;
        Ok(made > 0)
    })
}

/// Drops a collection with its documents and chunks.
///
/// # Errors
/// A source still fills it.
pub fn drop(collection: &Collection) -> Result<(), Error> {
    let name = collection.name.as_str();
    as_owner(|| {
        let sources: Vec<String> =
            query("SELECT name FROM rag.source WHERE collection = $1 ORDER BY 1", &[name.into()], |row| {
                row.required(1)
            })?;
        if !sources.is_empty() {
            return Err(Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop collection \"{name}\" because sources fill it"),
            )
            .detail(format!("Sources: {}.", sources.join(", ")))
            .hint("Drop them first: rag_drop_source."));
        }
        if collection.has_partition()? {
            execute(&format!("DROP TABLE {}", collection.partition()), &[])?;
        }
        execute("DELETE FROM rag.documents WHERE collection = $1", &[name.into()])?;
        execute("DELETE FROM rag.manifest WHERE collection = $1", &[name.into()])?;
        execute("DELETE FROM rag.knowledge WHERE collection = $1", &[name.into()])?;
        execute("DELETE FROM rag.collections WHERE name = $1", &[name.into()])?;
        Ok(())
    })
}

/// What is stored of a collection, as far as the caller may see it.
pub struct Status {
    pub documents: i64,
    /// Documents among them that could not be indexed.
    pub errors: i64,
    pub chunks: i64,
    pub dimensions: Option<i32>,
    pub created_at: TimestampWithTimeZone,
    pub updated_at: TimestampWithTimeZone,
    /// Chunks with their side table.
    pub table_bytes: i64,
    pub index_bytes: i64,
    /// Whether there is an index on the embeddings.
    pub is_indexed: bool,
}

/// # Errors
/// The collection was dropped meanwhile.
pub fn status(collection: &Collection) -> Result<Status, Error> {
    let is_indexed = embedding_index::exists(collection);
    let found = query_as_caller(
            "SELECT (SELECT pg_catalog.count(*) FROM rag.documents d WHERE d.collection = c.name),
                    (SELECT pg_catalog.count(*) FROM rag.documents d WHERE d.collection = c.name AND d.status = 'error'),
                    (SELECT pg_catalog.count(*) FROM rag.chunks k WHERE k.collection = c.name),
                    c.embedding_dimension, c.created_at,
                    greatest(c.updated_at, (SELECT pg_catalog.max(d.indexed_at) FROM rag.documents d WHERE d.collection = c.name)),
                    coalesce(pg_catalog.pg_table_size(pg_catalog.to_regclass($2)), 0),
                    coalesce(pg_catalog.pg_indexes_size(pg_catalog.to_regclass($2)), 0)
             FROM rag.collections c WHERE c.name = $1",
            &[collection.name.as_str().into(), collection.partition().into()],
            |row| {
                Ok(Status {
                    documents: row.required(1)?,
                    errors: row.required(2)?,
                    chunks: row.required(3)?,
                    dimensions: row.get(4)?,
                    created_at: row.required(5)?,
                    updated_at: row.required(6)?,
                    table_bytes: row.required(7)?,
                    index_bytes: row.required(8)?,
                    is_indexed,
                })
            },
    )?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| Error::undefined(format!("collection \"{}\" does not exist", collection.name)))
}
