//! Writes rows of `rag_internal.collection`.
//!
//! Lists of columns come from [`CollectionDefinition`], so that a new attribute changes no
//! statement.

use pgrx::datum::DatumWithOid;
use rag_definition::{collection::CollectionDefinition, model::Precision};
use rag_protocol::embed::ModelInfo;
use serde_json::{Map, Value};

use super::Collection;
use crate::{
    catalog::name::Name,
    error::Error,
    pg::{
        roles::Owner,
        spi::{OwnerRights, as_owner},
        transaction::with_latest_snapshot,
    },
};

/// Returns the columns of a definition as a list.
fn columns() -> String {
    CollectionDefinition::names().join(", ")
}

fn json(attributes: Map<String, Value>) -> pgrx::JsonB {
    pgrx::JsonB(Value::Object(attributes))
}

/// Creates a row. Returns false if there is one of this name.
pub fn insert(
    rights: &OwnerRights,
    name: &Name,
    definition: &CollectionDefinition,
    owner: &Owner,
) -> Result<bool, Error> {
    let inserted = rights.execute(
        &format!(
            "INSERT INTO rag_internal.collection (name, owner, owner_id, {columns})
             SELECT $1, $2, $3, {columns}
                 FROM jsonb_populate_record(NULL::rag_internal.collection, $4)
             ON CONFLICT (name) DO NOTHING",
            columns = columns()
        ),
        &[
            name.as_str().into(),
            owner.name.as_str().into(),
            owner.id.into(),
            json(definition.attributes()).into(),
        ],
    )?;
    Ok(inserted > 0)
}

/// Changes attributes, and records those that wait for a rebuild.
pub fn change(
    owner: &OwnerRights,
    collection: &Collection,
    attributes: Map<String, Value>,
    wanted: Map<String, Value>,
) -> Result<(), Error> {
    let wanted = (!wanted.is_empty()).then(|| json(wanted));
    owner.execute(
        &format!(
            "UPDATE rag_internal.collection c
             SET ({columns}) = (SELECT {columns} FROM jsonb_populate_record(c, $2) AS w),
                 wanted = $3, updated_at = now()
             WHERE c.name = $1",
            columns = columns()
        ),
        &[
            collection.name.as_str().into(),
            json(attributes).into(),
            wanted.into(),
        ],
    )?;
    Ok(())
}

/// Makes the attributes that wait for a rebuild those of the collection.
pub fn adopt_wanted(owner: &OwnerRights, collection: &str) -> Result<(), Error> {
    owner.execute(
        &format!(
            "UPDATE rag_internal.collection c
             SET ({columns}) = (SELECT {columns} FROM jsonb_populate_record(
                                    c, coalesce(c.wanted, '{{}}')) AS w),
                 wanted = NULL, updated_at = clock_timestamp()
             WHERE c.name = $1",
            columns = columns()
        ),
        &[collection.into()],
    )?;
    Ok(())
}

/// The columns of a model, for [`arguments_of`].
const SET_MODEL: &str = "model = $2, model_fingerprint = $3, embedding_dimension = $4,
    model_identity = $5, embedding_baseline = $6, model_precision = $7, model_max_tokens = $8,
    updated_at = now()";

fn arguments_of<'a>(collection: &'a str, model: &'a ModelInfo) -> Vec<DatumWithOid<'a>> {
    vec![
        collection.into(),
        model.name.as_str().into(),
        model.fingerprint.as_str().into(),
        (model.dimensions as i32).into(),
        model.identity.as_str().into(),
        model.baseline.into(),
        model.precision.map(Precision::name).into(),
        (model.max_tokens as i32).into(),
    ]
}

/// Records the model of the stored embeddings, unless it is recorded already.
pub fn note_model(owner: &OwnerRights, collection: &str, model: &ModelInfo) -> Result<(), Error> {
    owner.execute(
        &format!(
            "UPDATE rag_internal.collection SET {SET_MODEL}
             WHERE name = $1 AND model_fingerprint IS DISTINCT FROM $3"
        ),
        &arguments_of(collection, model),
    )?;
    Ok(())
}

/// Records the model after a rebuild. If the chunks are others than before, writers that began
/// before fail.
pub fn replace_model(
    owner: &OwnerRights,
    collection: &str,
    model: &ModelInfo,
    has_other_chunks: bool,
) -> Result<(), Error> {
    let mut arguments = arguments_of(collection, model);
    arguments.push(i64::from(has_other_chunks).into());
    owner.execute(
        &format!(
            "UPDATE rag_internal.collection SET {SET_MODEL}, rebuilds = rebuilds + $9
             WHERE name = $1"
        ),
        &arguments,
    )?;
    Ok(())
}

/// What tells a writer that the collection is still the one that it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub rebuilds: i64,
    pub serial: i64,
}

/// Returns the version of a collection, which stays the same until the transaction ends.
pub fn version_of_writer(owner: &OwnerRights, collection: &str) -> Result<Option<Version>, Error> {
    let found = owner.execute_prepared(
        "SELECT rebuilds, serial FROM rag_internal.collection WHERE name = $1 FOR KEY SHARE",
        &[collection.into()],
        |row| {
            Ok(Version {
                rebuilds: row.required("rebuilds")?,
                serial: row.required("serial")?,
            })
        },
    )?;
    Ok(found.into_iter().next())
}

/// Returns true if a name is the external id of another collection than `of`.
pub fn is_external_id_of_another(
    owner: &OwnerRights,
    name: &Name,
    of: Option<&Collection>,
) -> Result<bool, Error> {
    let others = with_latest_snapshot(|| {
        owner.query(
            "SELECT FROM rag_internal.collection
             WHERE external_id = $1 AND name <> $1 AND name IS DISTINCT FROM $2",
            &[name.as_str().into(), name_of(of).into()],
            |_| Ok(()),
        )
    })?;
    Ok(!others.is_empty())
}

/// What an external id is of another collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherUse {
    ExternalId,
    Name,
}

/// Returns what an external id is of another collection than `of`, if it is anything.
pub fn other_use(
    owner: &OwnerRights,
    id: &str,
    of: Option<&Collection>,
) -> Result<Option<OtherUse>, Error> {
    let others = with_latest_snapshot(|| {
        owner.query(
            "SELECT name = $1 AS is_name FROM rag_internal.collection
             WHERE (name = $1 OR external_id = $1) AND name IS DISTINCT FROM $2",
            &[id.into(), name_of(of).into()],
            |row| {
                Ok(match row.required("is_name")? {
                    true => OtherUse::Name,
                    false => OtherUse::ExternalId,
                })
            },
        )
    })?;
    Ok(others.into_iter().max())
}

fn name_of(collection: Option<&Collection>) -> Option<&str> {
    collection.map(|collection| collection.name.as_str())
}

/// Returns the collections whose storage is on another server.
pub fn with_server() -> Result<Vec<String>, Error> {
    as_owner(|owner| {
        owner.query(
            "SELECT c.name FROM rag_internal.collection c JOIN rag_internal.retriever r
                ON r.name = c.retriever
             WHERE r.server_url IS NOT NULL
             ORDER BY 1",
            &[],
            |row| row.required("name"),
        )
    })
}

/// The tables with rows of a collection, and the column with its name, in the order in which they
/// are deleted.
const TABLES: [(&str, &str); 10] = [
    ("rag.documents", "collection"),
    ("rag_internal.document_digest", "collection"),
    ("rag_internal.knowledge_item", "collection"),
    ("rag_internal.queued_document", "collection"),
    ("rag_internal.collection_grant", "collection"),
    ("rag_internal.collection", "name"),
    ("rag_internal.content_change", "collection"),
    ("rag_internal.embedding_place", "collection"),
    ("rag_internal.planned_hash", "collection"),
    ("rag_internal.knowledge_run", "collection"),
];

/// Deletes a collection with all that is recorded of it, but for its chunks.
pub fn delete(owner: &OwnerRights, collection: &str) -> Result<(), Error> {
    for (table, column) in TABLES {
        let statement = format!("DELETE FROM {table} WHERE {column} = $1");
        owner.execute(&statement, &[collection.into()])?;
    }
    Ok(())
}
