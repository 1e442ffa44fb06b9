//! `rag_internal.collection`: the row type, and the statements that write it.

use std::sync::LazyLock;

use rag_definition::{
    Splitting,
    collection::CollectionDefinition,
    model::Precision,
    retriever::{OWN_PARTITION, RetrieverDefinition},
};
use rag_protocol::{embed::ModelInfo, identity::DocumentId};

mod given;
mod retriever;
mod write;

pub use self::given::{given_dimensions, given_vectors};
pub use self::write::{
    OtherUse, adopt_wanted, change, delete, insert, is_external_id_of_another, note_model,
    other_use, replace_model, version_of_writer, with_server,
};
use super::{access::CollectionRights, name::Name, partitions::Partition, retrievers, shards};
use crate::{
    error::Error,
    pg::spi::{Row, as_owner},
};

/// The relation `c` with the rows of `rag_internal.collection` as they will be after a rebuild:
/// the column
/// `wanted` has values of other columns, by their names.
const WANTED: &str = "(SELECT w.* FROM rag_internal.collection k,
         LATERAL jsonb_populate_record(k, coalesce(k.wanted, '{}')) AS w) AS c";

/// A row: the definition, and what the extension knows of the collection.
#[derive(Debug, Clone)]
pub struct Collection {
    pub name: Name,
    /// How the stored chunks were made, and the limits of the collection.
    pub definition: CollectionDefinition,
    /// The settings of the retriever.
    pub settings: RetrieverDefinition,
    /// The name that ids of documents are made from: the first one.
    pub ids_from: String,
    /// Numbers collections in the order of their creation.
    pub serial: i64,
    /// The partition of `rag.chunks` that has the chunks. None until the first document is stored.
    pub partition: Option<Partition>,
    /// The mode of the strategy that chose the partition.
    pub index_strategy: Option<String>,
    /// The model of the stored embeddings. None until the first document is stored.
    pub model: Option<StoredModel>,
    pub rights: CollectionRights,
    /// See `rag_internal.collection.rebuilds`.
    pub rebuilds: i64,
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
        self.definition.text_config == rag_language::AUTO
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
    /// One collection has the name, and another the external id. No call allows that, but dumps of
    /// older versions may have it. A choice would let the owner of one answer for the other.
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
        self.name.as_str() == name_or_id
            || self.definition.external_id.as_deref() == Some(name_or_id)
    }

    /// Returns how texts are split.
    pub fn splitting(&self) -> Splitting {
        self.definition.splitting()
    }

    /// Returns the collection as it will be after a rebuild. The columns say how the stored chunks
    /// were made, and searches and writes go by them. What else is wanted waits for a rebuild.
    ///
    /// # Errors
    /// The collection does not exist.
    pub fn wanted(name: &str) -> Result<Self, Error> {
        let found = Self::query_from(WANTED, "c.name = $1", name)?;
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
        as_owner(|owner| {
            owner.execute(
                "SELECT FROM rag_internal.collection WHERE name = $1 FOR NO KEY UPDATE",
                &[name.into()],
            )
        })?;
        Self::get(name)
    }

    /// Returns the collections that meet a condition on $1, those with this name first.
    /// Returns the collections whose names match a pattern, in which `*` stands for any letters, in
    /// the order of their names.
    pub fn matching(pattern: &str) -> Result<Vec<Self>, Error> {
        let escaped = pattern
            .replace('\\', r"\\")
            .replace('%', r"\%")
            .replace('_', r"\_");
        let mut found = Self::query("name LIKE $1", &escaped.replace('*', "%"))?;
        found.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
        Ok(found)
    }

    fn query(condition: &str, name: &str) -> Result<Vec<Self>, Error> {
        Self::query_from("rag_internal.collection c", condition, name)
    }

    /// Returns the collections among the rows of a relation, which is called `c`.
    ///
    /// # Errors
    /// This server only has chunks for another one.
    fn query_from(relation: &str, condition: &str, name: &str) -> Result<Vec<Self>, Error> {
        shards::require_coordinator()?;
        as_owner(|owner| {
            owner.query_prepared(
                &format!(
                    "SELECT name, coalesce(ids_from, name) AS ids_from, retriever, {} AS definition,
                            model, model_fingerprint, model_identity, embedding_dimension,
                            embedding_baseline, model_precision, model_max_tokens, serial,
                            partition, index_strategy, rebuilds,
                            (SELECT r.spec FROM rag_internal.retriever r
                             WHERE r.name = c.retriever) AS retriever_spec, {}
                     FROM {relation} WHERE {condition} ORDER BY name = $1 DESC",
                    *DEFINITION,
                    CollectionRights::COLUMNS
                ),
                &[name.into()],
                |row| Self::read(&row),
            )
        })
    }

    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        let retriever: String = row.required("retriever")?;
        let settings = match row.get::<pgrx::JsonB>("retriever_spec")? {
            Some(spec) => retrievers::definition(&retriever, &spec.0)?,
            None => RetrieverDefinition::default(),
        };
        Ok(Self {
            name: Name::collection(&row.required::<String>("name")?)?,
            definition: read_definition(row)?,
            settings,
            ids_from: row.required("ids_from")?,
            serial: row.required("serial")?,
            partition: row.get::<String>("partition")?.map(Partition::new),
            index_strategy: row.get("index_strategy")?,
            model: StoredModel::read(row)?,
            rights: CollectionRights::read(row)?,
            rebuilds: row.required("rebuilds")?,
        })
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

/// An expression for the definition of a row `c` of `rag_internal.collection`, as a text of JSON.
pub static DEFINITION: LazyLock<String> = LazyLock::new(|| definition_of(|_| true));

/// [`DEFINITION`], but only the attributes that describe chunks.
pub static DEFINITION_OF_CHUNKS: LazyLock<String> =
    LazyLock::new(|| definition_of(CollectionDefinition::describes_chunks));

fn definition_of(is_part: impl Fn(&str) -> bool) -> String {
    let names = CollectionDefinition::names().into_iter();
    let members: Vec<String> = names
        .filter(|name| is_part(name))
        .map(|name| format!("'{name}', c.{name}"))
        .collect();
    format!("json_build_object({})::text", members.join(", "))
}

/// Reads the column `definition`: see [`DEFINITION`].
///
/// # Errors
/// Somebody has changed the table by hand.
pub fn read_definition(row: &Row<'_, '_>) -> Result<CollectionDefinition, Error> {
    let text: String = row.required("definition")?;
    let read = serde_json::from_str::<CollectionDefinition>(&text);
    let definition = read.map_err(|error| {
        Error::internal(format!(
            "rag_internal.collection has an unknown value: {error}"
        ))
    })?;
    Ok(CollectionDefinition {
        metadata_whitelist: definition
            .metadata_whitelist
            .filter(|keys| !keys.is_empty()),
        ..definition
    })
}
