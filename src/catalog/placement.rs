//! Which partition a collection gets, and which collections may share one.
//!
//! The strategy of the retriever names the partition when the first document is stored. It stays
//! the collection's partition: a later change of the strategy concerns collections without
//! documents. A partition that several collections share has one vector index and one keyword
//! index, so these collections must agree in all that the indexes are made of.

use pgrx::PgSqlErrorCode;
use rag_definition::retriever::{OWN_PARTITION, Quantization, StorageDefinition};

use super::{
    access::{CollectionPrivilege, has_privilege},
    collections::Collection,
    partitions::{self, Partition},
    retrievers,
};
use crate::{
    error::Error,
    pg::{
        security::as_owner,
        spi::{execute, execute_prepared, execute_returning},
    },
};

/// Returns the partition that the strategy of the retriever names for a collection.
pub fn wanted(collection: &Collection) -> Partition {
    let (name, serial) = (collection.name.as_str(), collection.serial);
    Partition::new(collection.strategy().partition(name, serial))
}

/// Puts a collection that has no partition into the one that its strategy names, which is created
/// if it does not exist. Runs as the extension's owner, in the transaction that writes the first
/// document. Returns the partition if it is new.
///
/// # Errors
/// The partition is of another strategy, or its indexes are made in another way.
pub fn ensure(collection: &Collection, dimensions: usize) -> Result<Option<Partition>, Error> {
    let (name, strategy) = (collection.name.as_str(), collection.strategy());
    // The row lock serializes two first writers. They have locked the row FOR KEY SHARE before, so
    // a stronger lock would make them wait for each other.
    let known = execute_prepared(
        "SELECT partition FROM rag_internal.collection WHERE name = $1 FOR NO KEY UPDATE",
        &[name.into()],
        |row| row.get::<String>(1),
    )?;
    let known = known.into_iter().flatten().next().map(Partition::new);
    if known.as_ref().is_some_and(|known| known.oid().is_some()) {
        return Ok(None);
    }
    // somebody may have dropped the relation of a collection that has documents
    let (is_shared, mode) = match (&known, &collection.index_strategy) {
        (Some(_), Some(mode)) => (collection.shares_partition(), mode.as_str()),
        _ => (strategy.is_shared(), strategy.mode()),
    };
    let partition = match known {
        Some(known) => known,
        None => free(collection, wanted(collection))?,
    };
    if is_shared {
        lock_partitions()?;
    }
    let is_new = partition.oid().is_none();
    if is_new {
        partition.create_detached(&partition, (!is_shared).then_some(name), dimensions)?;
        partition.attach()?;
    } else {
        check_place(collection, &partition, Some(dimensions))?;
    }
    partitions::set(name, &partition, mode)?;
    Ok(is_new.then_some(partition))
}

/// Returns the partition, or another one if a collection that was renamed has it for itself.
fn free(collection: &Collection, partition: Partition) -> Result<Partition, Error> {
    let is_own = !collection.strategy().is_shared() && partition.oid().is_some();
    match is_own && is_of_renamed(&others(collection.name.as_str(), &partition)?) {
        true => partitions::free_name(partition.name()),
        false => Ok(partition),
    }
}

/// Returns true if one collection has the partition for itself. Only this collection would need the
/// partition's name, if it had not been renamed: `rag_manifest` reserves such names.
fn is_of_renamed(others: &[Member]) -> bool {
    matches!(others, [other] if other.mode == OWN_PARTITION)
}

/// Keeps out others that create, join or drop partitions, until the transaction ends. Searches and
/// writers of documents go on.
fn lock_partitions() -> Result<(), Error> {
    // ONLY: a VACUUM of some partition does not matter
    execute(
        "LOCK TABLE ONLY rag.chunks IN SHARE UPDATE EXCLUSIVE MODE",
        &[],
    )?;
    Ok(())
}

/// Deletes the chunks of a collection that is dropped. The partition is dropped with its last
/// collection. Runs as the extension's owner.
pub fn remove(collection: &Collection) -> Result<(), Error> {
    leave(collection)?.map_or(Ok(()), |partition| partition.drop())
}

/// Returns true if no other collection is in the partition of a collection.
pub fn is_alone(collection: &Collection) -> Result<bool, Error> {
    match &collection.partition {
        Some(partition) => Ok(others(collection.name.as_str(), partition)?.is_empty()),
        None => Ok(true),
    }
}

/// Returns true if the partition that the strategy of the retriever names does not exist, or has no
/// other collection than this one.
pub fn is_wanted_alone(collection: &Collection) -> Result<bool, Error> {
    let partition = wanted(collection);
    match partition.oid() {
        None => Ok(true),
        Some(_) if collection.partition.as_ref() == Some(&partition) => {
            Ok(others(collection.name.as_str(), &partition)?.is_empty())
        }
        Some(_) => Ok(false),
    }
}

/// Deletes the chunks of a collection from a partition that others share. Otherwise deletes
/// nothing, and returns the partition, which is to be dropped. Runs as the extension's owner.
pub fn leave(collection: &Collection) -> Result<Option<Partition>, Error> {
    let name = collection.name.as_str();
    let Some(partition) = partitions::of_writer(name)?.filter(|of| of.oid().is_some()) else {
        return Ok(None);
    };
    // a collection that joins the partition waits until it is dropped, and creates it again
    lock_partitions()?;
    if others(name, &partition)?.is_empty() {
        return Ok(Some(partition));
    }
    let rows = partition.rows(name, "");
    execute(&format!("DELETE FROM rag.chunks WHERE {rows}"), &[])?;
    Ok(None)
}

/// Checks that a collection fits into its partition, or into the one that its strategy names. The
/// error names the collection if the current role may read it.
///
/// # Errors
/// The partition is of another strategy, or its indexes are made in another way.
pub fn check(collection: &Collection) -> Result<(), Error> {
    let checked = check_as_owner(collection);
    match has_privilege(collection, CollectionPrivilege::Read) {
        true => checked,
        false => checked.map_err(|error| {
            error.message("a collection with the retriever does not fit into its shared partition")
        }),
    }
}

/// Checks that a collection with wanted settings will fit into a shared partition, if its strategy
/// names one.
///
/// # Errors
/// See [`check`].
pub fn check_wanted(collection: &Collection) -> Result<(), Error> {
    if !collection.strategy().is_shared() {
        return Ok(());
    }
    let stays = collection.partition.as_ref() == Some(&wanted(collection));
    let mut placed = collection.clone();
    placed.partition = placed.partition.filter(|_| stays);
    check(&placed)
}

fn check_as_owner(collection: &Collection) -> Result<(), Error> {
    as_owner(|| match &collection.partition {
        Some(partition) => {
            let others = others(collection.name.as_str(), partition)?;
            let mut others = others.iter();
            others.try_for_each(|other| check_agreement(collection, partition, other, None))
        }
        None => match wanted(collection) {
            partition if partition.oid().is_some() => check_place(collection, &partition, None),
            _ => Ok(()),
        },
    })
}

/// Checks that a collection may join a relation that exists.
fn check_place(
    collection: &Collection,
    partition: &Partition,
    dimensions: Option<usize>,
) -> Result<(), Error> {
    let refuse = |detail: String| {
        let (name, partition) = (&collection.name, partition.name());
        Error::duplicate(format!(
            "the partition of collection \"{name}\" cannot be named \"{partition}\""
        ))
        .detail(detail)
        .hint("Use a retriever with another prefix or fixedName in its indexStrategy.")
    };
    let others = others(collection.name.as_str(), partition)?;
    let Some(other) = others.first() else {
        let partition = partition.qualified();
        return Err(refuse(format!(
            "Relation {partition} exists, and is no partition of a collection."
        )));
    };
    let mode = collection.strategy().mode();
    if dimensions.is_none() && mode == OWN_PARTITION && is_of_renamed(&others) {
        return Ok(());
    }
    if other.mode != mode || !collection.strategy().is_shared() {
        return Err(refuse(format!(
            "A partition of strategy \"{}\" has this name. The strategy of the collection is \
             \"{mode}\".",
            other.mode
        )));
    }
    let mut others = others.iter();
    others.try_for_each(|other| check_agreement(collection, partition, other, dimensions))
}

/// A collection of a shared partition, and what the partition's indexes are made of.
struct Member {
    mode: String,
    layout: Layout,
    dimensions: Option<i32>,
}

/// What the collections of a partition agree in.
struct Layout {
    text_config: String,
    title_weight: i32,
    uses_keywords: bool,
    storage: StorageDefinition,
}

impl Layout {
    /// Returns name and value of each part.
    fn parts(&self) -> [(&'static str, String); 11] {
        let keywords = if self.uses_keywords { "on" } else { "off" };
        let option = |value: Option<i32>| value.map_or("default".to_owned(), |n| n.to_string());
        let options = self.storage.options();
        let on_disk = options
            .on_disk
            .map_or("default", |is_on_disk| match is_on_disk {
                true => "on",
                false => "off",
            });
        let quantization = options.quantization.map_or("default", Quantization::name);
        [
            ("text_config", self.text_config.clone()),
            ("title_weight", self.title_weight.to_string()),
            ("keyword search", keywords.to_owned()),
            (
                "storage type",
                self.storage.storage_type().name().to_owned(),
            ),
            ("metric", self.storage.metric().name().to_owned()),
            ("index option m", option(options.m)),
            (
                "index option ef_construction",
                option(options.ef_construction),
            ),
            ("index option shards", option(options.shards)),
            ("index option replicas", option(options.replicas)),
            ("index option on_disk", on_disk.to_owned()),
            ("index option quantization", quantization.to_owned()),
        ]
    }
}

/// Returns what the other collections are like whose chunks are in a partition, each kind once.
fn others(name: &str, partition: &Partition) -> Result<Vec<Member>, Error> {
    execute_returning(
        "SELECT DISTINCT c.index_strategy, c.embedding_dimension, c.text_config, c.title_weight,
                         c.retriever, r.spec
         FROM rag_internal.collection c JOIN rag_internal.retriever r ON r.name = c.retriever
         WHERE c.partition = $1 AND c.name <> $2",
        &[partition.name().into(), name.into()],
        |row| {
            let spec = row.required::<pgrx::JsonB>("spec")?.0;
            let retriever = retrievers::definition(&row.required::<String>("retriever")?, &spec)?;
            Ok(Member {
                mode: row.required("index_strategy")?,
                dimensions: row.get("embedding_dimension")?,
                layout: Layout {
                    text_config: row.required("text_config")?,
                    title_weight: row.required("title_weight")?,
                    uses_keywords: retriever.methods().uses_keywords(),
                    storage: retriever.storage().clone(),
                },
            })
        },
    )
}

fn check_agreement(
    collection: &Collection,
    partition: &Partition,
    other: &Member,
    dimensions: Option<usize>,
) -> Result<(), Error> {
    let own = Layout {
        text_config: collection.text_config.clone(),
        title_weight: collection.title_weight,
        uses_keywords: collection.methods().uses_keywords(),
        storage: collection.storage().clone(),
    };
    let stored = collection.model.as_ref().map(|model| model.dimensions);
    let dimensions = match (dimensions.or(stored), other.dimensions) {
        (Some(own), Some(other)) => Some(("dimensions", own.to_string(), other.to_string())),
        _ => None,
    };
    let parts = own.parts().into_iter().zip(other.layout.parts());
    let parts = parts.map(|((what, own), (_, other))| (what, own, other));
    let Some((what, own, other)) = dimensions
        .into_iter()
        .chain(parts)
        .find(|(_, own, other)| own != other)
    else {
        return Ok(());
    };
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "collection \"{}\" does not fit into the shared partition \"{}\"",
            collection.name,
            partition.name()
        ),
    )
    .detail(format!(
        "The partition has {what} {other}, and the collection has {own}. One index has the chunks \
         of all collections of the partition."
    ))
    .hint(format!(
        "Use the {what} of the partition, or a retriever with another indexStrategy."
    )))
}
