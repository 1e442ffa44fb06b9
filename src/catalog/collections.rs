//! `rag.collections`, and the partition of `rag.chunks` that each has.

use rag_protocol::{
    embed::ModelInfo,
    ingest::{Splitting, Unit},
};

use super::{
    access::{RIGHTS, Rights},
    name::Name,
    retrievers,
};
use crate::{
    error::Error,
    pg::{
        roles::Owner,
        security::as_owner,
        spi::{execute, execute_returning, query, query_prepared},
    },
};

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
    /// Who may read and write it.
    pub rights: Rights,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredModel {
    pub name: String,
    pub fingerprint: String,
    /// That of [`ModelInfo`].
    pub identity: String,
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

    /// The collection that an application's request names, by its name or external id.
    ///
    /// # Errors
    /// There is no such collection.
    pub fn of_request(name_or_id: &str) -> Result<Self, Error> {
        let found = as_owner(|| {
            query(
                "SELECT name FROM rag.collections WHERE $1 IN (name, external_id)
                 ORDER BY name = $1 DESC LIMIT 1",
                &[name_or_id.into()],
                |row| row.required::<String>(1),
            )
        })?;
        Self::get(found.first().map_or(name_or_id, String::as_str))
    }

    pub fn find(name: &str) -> Result<Option<Self>, Error> {
        let found = as_owner(|| {
            query_prepared(
                &format!(
                    "SELECT name, chunk_size, chunk_overlap, metadata_whitelist, model, model_fingerprint, embedding_dimension,
                            chunk_unit, retriever, model_identity, {RIGHTS}
                     FROM rag.collections c WHERE name = $1"
                ),
                &[name.into()],
                |row| {
                    let model = match (row.get(5)?, row.get(6)?, row.get(10)?, row.get::<i32>(7)?) {
                        (Some(name), Some(fingerprint), Some(identity), Some(dimensions)) => {
                            Some(StoredModel { name, fingerprint, identity, dimensions: dimensions as usize })
                        }
                        _ => None,
                    };
                    Ok(Self {
                        name: Name::collection(&row.required::<String>(1)?)?,
                        splitting: splitting(row.get(2)?, row.get(3)?, unit(&row.required::<String>(8)?)?),
                        retriever: row.required(9)?,
                        metadata_whitelist: row.get(4)?.filter(|keys: &Vec<String>| !keys.is_empty()),
                        model,
                        rights: Rights::read(&row, 11)?,
                    })
                },
            )
        })?;
        Ok(found.into_iter().next())
    }

    /// Refuses another model than the stored embeddings' one: their distances would mean nothing.
    /// Another precision of the same model is no other model: the next sync embeds the documents
    /// again, and until then the two are close enough. Nor is the same model in a folder of another
    /// name.
    ///
    /// # Errors
    /// Weights, tokenizer or pooling differ.
    pub fn check_model(&self, model: &ModelInfo) -> Result<(), Error> {
        let Some(stored) = &self.model else {
            return Ok(());
        };
        if stored.fingerprint == model.fingerprint || stored.identity == model.identity {
            return Ok(());
        }
        let described = |name: &str, dimensions: usize, identity: &str| {
            format!(
                "{name} with {dimensions} dimensions (identity {}...)",
                &identity[..identity.len().min(12)]
            )
        };
        Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("collection \"{}\" was embedded with another model", self.name),
        )
        .detail(format!(
            "Stored: {}; present: {}. The identity is a hash of weights, tokenizer and pooling.",
            described(&stored.name, stored.dimensions, &stored.identity),
            described(&model.name, model.dimensions, &model.identity),
        ))
        .hint("Set rag.model_dir back to that model's folder, or fill a new collection with the present model."))
    }

    /// Makes the collection's partition where it is missing, and notes the model. Runs in the
    /// transaction that writes the collection's documents, as the extension's owner.
    pub fn prepare_for(&self, model: &ModelInfo) -> Result<(), Error> {
        let same = self
            .model
            .as_ref()
            .is_some_and(|stored| stored.fingerprint == model.fingerprint);
        if !same {
            execute(
                "UPDATE rag.collections SET model = $2, model_fingerprint = $3, embedding_dimension = $4,
                     model_identity = $5, updated_at = now()
                 WHERE name = $1 AND model_fingerprint IS DISTINCT FROM $3",
                &[
                    self.name.as_str().into(),
                    model.name.as_str().into(),
                    model.fingerprint.as_str().into(),
                    (model.dimensions as i32).into(),
                    model.identity.as_str().into(),
                ],
            )?;
        }
        if self.model.is_none() && !self.has_partition()? {
            self.create_partition(model.dimensions)?;
        }
        Ok(())
    }

    /// The CHECK keeps out a vector that has no distance to the others and would make every search
    /// fail.
    fn create_partition(&self, dimensions: usize) -> Result<(), Error> {
        let partition = self.partition();
        execute(
            &format!(
                "CREATE TABLE {partition} (LIKE rag.chunks INCLUDING ALL EXCLUDING COMMENTS, PRIMARY KEY (chunk_id),
                     CONSTRAINT embedding_dimensions CHECK (rag_functions.vector_dims(embedding) = {dimensions}))"
            ),
            &[],
        )?;
        execute(&format!("CREATE INDEX ON {partition} (document_id)"), &[])?;
        execute(&format!("CREATE INDEX ON {partition} (embedding_key)"), &[])?;
        // not CREATE TABLE ... PARTITION OF, which would wait for all who have read rag.chunks, and
        // they for it
        execute(
            &format!(
                "ALTER TABLE rag.chunks ATTACH PARTITION {partition} FOR VALUES IN ({})",
                pgrx::spi::quote_literal(self.name.as_str())
            ),
            &[],
        )?;
        Ok(())
    }

    /// The collection whose partition has this name, if there is one.
    pub fn of_partition(relation: &str) -> Result<Option<Self>, Error> {
        let Some(name) = relation.strip_prefix("rag_kb_") else {
            return Ok(None);
        };
        Ok(Self::find(name)?.filter(|collection| collection.partition_name() == relation))
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
    let chunk_overlap =
        chunk_overlap.map_or_else(|| default_overlap.min(chunk_size / 5), |n| n as usize);
    Splitting {
        chunk_size,
        chunk_overlap,
        unit,
    }
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
        return Err(Error::invalid_parameter(format!(
            "chunk_size must be between 1 and 1000000, not {n}"
        )));
    }
    if let Some(n) = chunk_overlap.filter(|n| *n < 0) {
        return Err(Error::invalid_parameter(format!(
            "chunk_overlap must not be negative, but is {n}"
        )));
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
    /// What an application calls it, if it does not use the name.
    pub external_id: Option<&'a str>,
    pub retriever: &'a str,
    pub chunk_size: Option<i32>,
    pub chunk_overlap: Option<i32>,
    pub chunk_unit: &'a str,
    pub metadata_whitelist: Option<Vec<String>>,
    pub description: Option<&'a str>,
    pub owner: &'a Owner,
}

/// # Errors
/// The name or the external id is taken, or the retriever does not exist.
pub fn create(new: NewCollection<'_>) -> Result<(), Error> {
    let name = new.name;
    match create_if_missing(new)? {
        true => Ok(()),
        false => Err(Error::duplicate(format!(
            "collection \"{name}\" already exists"
        ))),
    }
}

/// Makes a collection unless there is one of this name; whether it did.
///
/// # Errors
/// The retriever does not exist.
pub fn create_if_missing(new: NewCollection<'_>) -> Result<bool, Error> {
    as_owner(|| {
        if let Some(id) = new.external_id {
            check_external_id(id)?;
        }
        let retrievers = query(
            "SELECT 1 FROM rag.retrievers WHERE name = $1",
            &[new.retriever.into()],
            |_| Ok(()),
        )?;
        if retrievers.is_empty() {
            return Err(retrievers::missing(new.retriever));
        }
        let made = execute(
            "INSERT INTO rag.collections (name, retriever, chunk_size, chunk_overlap, metadata_whitelist,
                                          description, chunk_unit, external_id, owner, owner_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (name) DO NOTHING",
            &[
                new.name.as_str().into(),
                new.retriever.into(),
                new.chunk_size.into(),
                new.chunk_overlap.into(),
                new.metadata_whitelist.into(),
                new.description.into(),
                new.chunk_unit.into(),
                new.external_id.into(),
                new.owner.name.as_str().into(),
                new.owner.id.into(),
            ],
        )?;
        Ok(made > 0)
    })
}

/// # Errors
/// `id` is empty, or another collection has it.
fn check_external_id(id: &str) -> Result<(), Error> {
    if id.trim().is_empty() {
        return Err(
            Error::invalid_parameter("external_id must not be empty").hint("Leave it NULL.")
        );
    }
    let taken = query(
        "SELECT name FROM rag.collections WHERE external_id = $1",
        &[id.into()],
        |row| row.required::<String>(1),
    )?;
    match taken.first() {
        None => Ok(()),
        Some(other) => Err(
            Error::duplicate(format!("external_id \"{id}\" is already in use"))
                .detail(format!("It is that of collection \"{other}\".")),
        ),
    }
}

/// The collection of functions and manifests that name none.
const DEFAULT: &str = "default";

/// Drops a collection with its documents and chunks.
///
/// # Errors
/// A source still fills it, or it is the one named default.
pub fn drop(collection: &Collection) -> Result<(), Error> {
    let name = collection.name.as_str();
    if name == DEFAULT {
        return Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            "cannot drop collection \"default\" because functions use it where none is named",
        )
        .hint("rag_drop_source(name, keep_documents => false) and rag_remove_document empty it."));
    }
    as_owner(|| {
        let sources: Vec<String> = query(
            "SELECT name FROM rag.source WHERE collection = $1 ORDER BY 1",
            &[name.into()],
            |row| row.required(1),
        )?;
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
        execute(
            "DELETE FROM rag.documents WHERE collection = $1",
            &[name.into()],
        )?;
        execute(
            "DELETE FROM rag.manifest WHERE collection = $1",
            &[name.into()],
        )?;
        execute(
            "DELETE FROM rag.knowledge WHERE collection = $1",
            &[name.into()],
        )?;
        execute(
            "DELETE FROM rag.collection_grant WHERE collection = $1",
            &[name.into()],
        )?;
        execute(
            "DELETE FROM rag.collections WHERE name = $1",
            &[name.into()],
        )?;
        for noted in ["content_change", "embedding_place", "index_damage"] {
            execute(
                &format!("DELETE FROM rag.{noted} WHERE collection = $1"),
                &[name.into()],
            )?;
        }
        Ok(())
    })
}
