//! `rag_internal.collection`: what a collection is. [`manage`] creates, alters and drops
//! collections.

use rag_definition::{
    Quota,
    model::Precision,
    retriever::{OWN_PARTITION, RetrieverDefinition},
};
use rag_protocol::{
    embed::ModelInfo,
    identity::DocumentId,
    ingest::{Splitting, Unit},
};

mod given;
mod manage;
mod retriever;

pub use self::given::{given_dimensions, given_vectors};
pub use self::manage::{
    CollectionChanges, NewCollection, alter, check_droppable, check_renamable, claim_name, create,
    create_if_missing, drop, with_server,
};
use super::{
    access::CollectionRights,
    keyword_index,
    name::Name,
    partitions::{self, Partition},
    placement, quotas, retrievers, storage_changes, wanted,
};
use crate::{
    error::{Cause, Error},
    pg::{
        security::as_owner,
        spi::{Row, execute, execute_prepared, query_prepared},
    },
};

/// Returns the default sizes of a chunk and of the overlap.
fn default_sizes(unit: Unit) -> (usize, usize) {
    match unit {
        Unit::Characters => (1000, 200),
        Unit::Tokens => (200, 40),
    }
}

#[derive(Debug, Clone)]
pub struct Collection {
    pub name: Name,
    /// The name by which an application knows the collection.
    pub external_id: Option<String>,
    /// The name that ids of documents are made from: the first one.
    pub ids_from: String,
    /// Numbers collections in the order of their creation.
    pub serial: i64,
    /// The partition of `rag.chunks` that has the chunks. None until the first document is stored.
    pub partition: Option<Partition>,
    pub retriever: String,
    /// The settings of the retriever.
    pub settings: RetrieverDefinition,
    /// The mode of the strategy that chose the partition.
    pub index_strategy: Option<String>,
    /// The model that the collection names.
    pub embedding_model: Option<String>,
    pub splitting: Splitting,
    /// The text search configuration of the keyword index, with its schema.
    pub text_config: String,
    /// How often the title counts in the keyword index.
    pub title_weight: i32,
    /// The metadata keys that chunks carry, or None for all.
    pub metadata_whitelist: Option<Vec<String>>,
    /// The model of the stored embeddings. None until the first document is stored.
    pub model: Option<StoredModel>,
    pub quota: Quota,
    pub rights: CollectionRights,
    /// Changed settings wait for a rebuild: see [`wanted`].
    pub has_wanted: bool,
    /// See `rag_internal.collection.rebuilds`.
    rebuilds: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredModel {
    pub name: String,
    pub fingerprint: String,
    /// See [`ModelInfo`].
    pub identity: String,
    pub dimensions: usize,
    /// See [`ModelInfo`].
    pub baseline: f32,
    /// See [`ModelInfo`].
    pub precision: Option<Precision>,
    pub max_tokens: Option<usize>,
}

impl StoredModel {
    pub fn of(model: &ModelInfo) -> Self {
        Self {
            name: model.name.clone(),
            fingerprint: model.fingerprint.clone(),
            identity: model.identity.clone(),
            dimensions: model.dimensions,
            baseline: model.baseline,
            precision: model.precision,
            max_tokens: Some(model.max_tokens),
        }
    }

    fn read(row: &Row<'_, '_>) -> Result<Option<Self>, Error> {
        let dimensions: Option<i32> = row.get("embedding_dimension")?;
        let precision: Option<String> = row.get("model_precision")?;
        let max_tokens: Option<i32> = row.get("model_max_tokens")?;
        let model = (
            row.get("model")?,
            row.get("model_fingerprint")?,
            row.get("model_identity")?,
            dimensions,
        );
        Ok(match model {
            (Some(name), Some(fingerprint), Some(identity), Some(dimensions)) => Some(Self {
                name,
                fingerprint,
                identity,
                dimensions: dimensions as usize,
                baseline: row.get("embedding_baseline")?.unwrap_or_default(),
                precision: precision.as_deref().and_then(Precision::parse),
                max_tokens: max_tokens.and_then(|n| usize::try_from(n).ok()),
            }),
            _ => None,
        })
    }
}

impl Collection {
    /// Returns true if the keyword index has a text search configuration for each document, that of
    /// its language.
    pub fn detects_language(&self) -> bool {
        self.text_config == rag_language::AUTO
    }

    /// # Errors
    /// The collection does not exist.
    pub fn get(name: &str) -> Result<Self, Error> {
        Self::find(name)?.ok_or_else(|| Self::missing(name))
    }

    /// Returns the error for a collection that does not exist.
    pub fn missing(name: &str) -> Error {
        Error::undefined(format!("collection \"{name}\" does not exist")).hint(
            "The view rag.collections lists all collections. Create one with \
                 rag_create_collection.",
        )
    }

    /// Returns the collection with this name or external id.
    ///
    /// # Errors
    /// The collection does not exist, or there are two.
    pub fn by_name_or_external_id(name_or_id: &str) -> Result<Self, Error> {
        Self::known_as(name_or_id)?.ok_or_else(|| Self::missing(name_or_id))
    }

    /// Returns the collection with this name or external id, if there is one.
    ///
    /// # Errors
    /// One collection has the name, and another the external id. [`manage`] prevents that, but not
    /// in dumps of older versions. A choice would let the owner of one answer for the other.
    pub fn known_as(name_or_id: &str) -> Result<Option<Self>, Error> {
        let mut known = Self::query("name = $1 OR external_id = $1", name_or_id)?;
        if known.len() > 1 {
            return Err(Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_AMBIGUOUS_PARAMETER,
                format!("several collections are known as \"{name_or_id}\""),
            )
            .detail("It is the name of one collection, and the external id of another.")
            .hint(
                "Change the external id with rag_alter_collection(name, external_id => '...').",
            ));
        }
        Ok(known.pop())
    }

    /// Returns the id of a document. `source` is what ids of its source are made from.
    pub fn document_id(&self, source: Option<&str>, uri: &str) -> DocumentId {
        DocumentId::derive(&self.ids_from, source, uri)
    }

    /// Returns true if this is the name or the external id of the collection.
    pub fn is_known_as(&self, name_or_id: &str) -> bool {
        self.name.as_str() == name_or_id || self.external_id.as_deref() == Some(name_or_id)
    }

    /// Returns the collection as it will be after a rebuild: see [`wanted`].
    ///
    /// # Errors
    /// The collection does not exist.
    pub fn wanted(name: &str) -> Result<Self, Error> {
        let found = Self::query_from(wanted::RELATION, "c.name = $1", name)?;
        found.into_iter().next().ok_or_else(|| Self::missing(name))
    }

    pub fn find(name: &str) -> Result<Option<Self>, Error> {
        Ok(Self::query("name = $1", name)?.into_iter().next())
    }

    /// Returns the collection, and locks its row until the transaction ends.
    ///
    /// # Errors
    /// The collection does not exist.
    pub fn lock(name: &str) -> Result<Self, Error> {
        as_owner(|| {
            execute(
                "SELECT FROM rag_internal.collection WHERE name = $1 FOR NO KEY UPDATE",
                &[name.into()],
            )
        })?;
        Self::get(name)
    }

    /// Returns the collections that meet a condition on $1, those with this name first.
    fn query(condition: &str, name: &str) -> Result<Vec<Self>, Error> {
        Self::query_from("rag_internal.collection c", condition, name)
    }

    /// Returns the collections among the rows of a relation, which is called `c`.
    fn query_from(relation: &str, condition: &str, name: &str) -> Result<Vec<Self>, Error> {
        as_owner(|| {
            query_prepared(
                &format!(
                    "SELECT name, external_id, coalesce(ids_from, name) AS ids_from, retriever,
                            chunk_size, chunk_overlap, chunk_unit,
                            metadata_whitelist, model, model_fingerprint, model_identity,
                            embedding_dimension, embedding_baseline, model_precision,
                            model_max_tokens, text_config, title_weight,
                            max_documents, max_bytes, serial, partition, index_strategy,
                            embedding_model, wanted IS NOT NULL AS has_wanted, rebuilds,
                            (SELECT r.spec FROM rag_internal.retriever r
                             WHERE r.name = c.retriever) AS retriever_spec, {}
                     FROM {relation} WHERE {condition} ORDER BY name = $1 DESC",
                    CollectionRights::COLUMNS
                ),
                &[name.into()],
                |row| Self::read(&row),
            )
        })
    }

    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        let unit = unit(&row.required::<String>("chunk_unit")?)?;
        let retriever: String = row.required("retriever")?;
        let settings = match row.get::<pgrx::JsonB>("retriever_spec")? {
            Some(spec) => retrievers::definition(&retriever, &spec.0)?,
            None => RetrieverDefinition::default(),
        };
        Ok(Self {
            name: Name::collection(&row.required::<String>("name")?)?,
            external_id: row.get("external_id")?,
            ids_from: row.required("ids_from")?,
            serial: row.required("serial")?,
            partition: row.get::<String>("partition")?.map(Partition::new),
            splitting: splitting(row.get("chunk_size")?, row.get("chunk_overlap")?, unit),
            retriever,
            settings,
            index_strategy: row.get("index_strategy")?,
            embedding_model: row.get("embedding_model")?,
            text_config: row.required("text_config")?,
            title_weight: row.required("title_weight")?,
            metadata_whitelist: row
                .get("metadata_whitelist")?
                .filter(|keys: &Vec<String>| !keys.is_empty()),
            model: StoredModel::read(row)?,
            quota: quotas::read(row)?,
            rights: CollectionRights::read(row)?,
            has_wanted: row.required("has_wanted")?,
            rebuilds: row.required("rebuilds")?,
        })
    }

    /// Checks that a model is the one of the stored embeddings. Distances between embeddings of
    /// different models mean nothing.
    ///
    /// The same model with another precision passes: the two are close enough until the next sync
    /// embeds the documents again. The name of its folder does not matter.
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
        let error = Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "collection \"{}\" was embedded with another model",
                self.name
            ),
        )
        .detail(format!(
            "The stored embeddings are from {}. The current model is {}. The identity is a hash of \
             weights, tokenizer and pooling.",
            described(&stored.name, stored.dimensions, &stored.identity),
            described(&model.name, model.dimensions, &model.identity),
        ))
        .hint(format!(
            "To embed it by the current model, run CALL rag_rebuild_collection({}). Otherwise \
             restore the former model (rag.model_dir, or the settings of the model that the \
             collection names).",
            pgrx::spi::quote_literal(self.name.as_str())
        ));
        Err(error.because(Cause::OtherModel))
    }

    /// Creates the collection's partition if it does not exist, and stores the model. Runs as the
    /// extension's owner, in the transaction that writes the collection's documents.
    ///
    /// # Errors
    /// The retriever names another model.
    pub fn prepare_for(&self, model: &ModelInfo) -> Result<(), Error> {
        if let Some(wanted) = self.wanted_model().filter(|name| *name != model.name) {
            return Err(Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "collection \"{}\" is for model \"{wanted}\", and not for \"{}\"",
                    self.name, model.name
                ),
            )
            .hint("Its own setting or its retriever names the model."));
        }
        self.check_not_rebuilt()?;
        let same = self
            .model
            .as_ref()
            .is_some_and(|stored| stored.fingerprint == model.fingerprint);
        if !same {
            execute(
                "UPDATE rag_internal.collection SET model = $2, model_fingerprint = $3,
                     embedding_dimension = $4, model_identity = $5, embedding_baseline = $6,
                     model_precision = $7, model_max_tokens = $8, updated_at = now()
                 WHERE name = $1 AND model_fingerprint IS DISTINCT FROM $3",
                &[
                    self.name.as_str().into(),
                    model.name.as_str().into(),
                    model.fingerprint.as_str().into(),
                    (model.dimensions as i32).into(),
                    model.identity.as_str().into(),
                    model.baseline.into(),
                    model.precision.map(Precision::name).into(),
                    (model.max_tokens as i32).into(),
                ],
            )?;
        }
        self.ensure_partition(model.dimensions)
    }

    pub fn ensure_partition(&self, dimensions: usize) -> Result<(), Error> {
        if self.partition_oid().is_none()
            && let Some(partition) = placement::ensure(self, dimensions)?
        {
            if self.methods().uses_keywords() {
                keyword_index::create(self, &partition)?;
            }
            if self.storage().server().is_some() {
                storage_changes::watch(&partition)?;
            }
        }
        Ok(())
    }

    /// Creates the partition that the row of the collection names, if it does not exist: the row
    /// comes from a dump of data alone. Its retriever may not be restored yet, and then counts as
    /// one without settings.
    ///
    /// # Errors
    /// The text search configuration does not exist.
    pub fn restore_partition(&self) -> Result<(), Error> {
        let dimensions = self.model.as_ref().map(|model| model.dimensions);
        match dimensions.filter(|_| self.partition.is_some()) {
            Some(dimensions) => as_owner(|| self.ensure_partition(dimensions)),
            None => Ok(()),
        }
    }

    /// Checks that the collection exists, and that chunks made by the settings at hand are still
    /// what it has. Its storage is not replaced before the transaction ends.
    fn check_not_rebuilt(&self) -> Result<(), Error> {
        partitions::join_writers(self.name.as_str());
        let found = execute_prepared(
            "SELECT rebuilds, serial FROM rag_internal.collection WHERE name = $1 FOR KEY SHARE",
            &[self.name.as_str().into()],
            |row| Ok((row.required::<i64>(1)?, row.required::<i64>(2)?)),
        )?;
        let what = match found.first() {
            // it was dropped while the writer waited for the lock
            None => return Err(Self::missing(self.name.as_str())),
            Some((_, serial)) if *serial != self.serial => "dropped and created again",
            Some((rebuilds, _)) if *rebuilds != self.rebuilds => "rebuilt",
            Some(_) => return Ok(()),
        };
        Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            format!("collection \"{}\" was {what} meanwhile", self.name),
        )
        .hint("Try again. A run of a source is repeated automatically."))
    }

    /// Returns the collections whose chunks are in this partition.
    pub fn of_partition(relation: &str) -> Result<Vec<Self>, Error> {
        Self::query("partition = $1", relation)
    }

    /// Returns the partition's relation, if there is one.
    pub fn partition_oid(&self) -> Option<pgrx::pg_sys::Oid> {
        self.partition.as_ref()?.oid()
    }

    /// Returns true if other collections may have chunks in the partition.
    pub fn shares_partition(&self) -> bool {
        let mode = self.index_strategy.as_deref();
        mode.is_some_and(|mode| mode != OWN_PARTITION)
    }

    /// Returns the condition that selects the collection's chunks, for statements that read. See
    /// [`Partition::rows`].
    pub fn rows(&self, alias: &str) -> String {
        Partition::rows_of(self.partition.as_ref(), self.name.as_str(), alias)
    }
}

fn splitting(chunk_size: Option<i32>, chunk_overlap: Option<i32>, unit: Unit) -> Splitting {
    let (default_size, default_overlap) = default_sizes(unit);
    let chunk_size = chunk_size.map_or(default_size, |n| n as usize);
    // a small chunk_size must not conflict with the default overlap
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
        Error::invalid_parameter(format!("unknown chunk_unit \"{name}\"")).hint(format!(
            "Valid units are {}.",
            Unit::ALL.map(Unit::name).join(", ")
        ))
    })
}

/// Returns the splitting for a user's `chunk_size`, `chunk_overlap` and `chunk_unit`.
///
/// # Errors
/// A value is out of range, or the overlap is not smaller than the chunk.
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
            "chunk_overlap must not be negative: {n}"
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
