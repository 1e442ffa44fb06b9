//! Which partition a collection gets, and which collections may share one.
//!
//! The strategy of the retriever names the partition when the first document is stored. It stays
//! the collection's partition: a later change of the strategy concerns collections without
//! documents. A partition that several collections share has one vector index and one keyword
//! index, so these collections must agree in all that the indexes are made of.

use pgrx::PgSqlErrorCode;
use rag_definition::{collection::Difference, retriever::OWN_PARTITION};

use super::{keyword_index, partition as relations};
use crate::{
    catalog::{
        access::{CollectionPrivilege, has_privilege},
        chunks,
        collections::Collection,
        partitions::{self, Member, Partition, others},
    },
    error::Error,
    pg::spi::{OwnerRights, as_owner},
    storage::Storage,
};

/// Returns the partition that the strategy of the retriever names for a collection.
pub fn wanted(collection: &Collection) -> Partition {
    let (name, serial) = (collection.name.as_str(), collection.serial);
    Partition::new(collection.strategy().partition(name, serial))
}

/// Creates the partition of a collection if it has none, with what must be there before the first
/// chunk, in the transaction that writes the first document.
///
/// # Errors
/// The partition is of another strategy, or its indexes are made in another way.
pub fn ensure(
    owner: &OwnerRights,
    collection: &Collection,
    dimensions: usize,
) -> Result<(), Error> {
    if collection.partition_oid().is_some() {
        return Ok(());
    }
    let Some(new) = join(owner, collection, dimensions)? else {
        return Ok(());
    };
    if collection.methods().uses_keywords() {
        keyword_index::create(owner, collection, &new)?;
    }
    Storage::of(collection).watch(owner, &new)
}

/// Creates the partition that the row of the collection names, if it does not exist: the row comes
/// from a dump of data alone. Its retriever may not be restored yet, and then counts as one without
/// settings.
///
/// # Errors
/// The text search configuration does not exist.
pub fn restore(collection: &Collection) -> Result<(), Error> {
    let dimensions = collection.model.as_ref().map(|model| model.dimensions);
    match dimensions.filter(|_| collection.partition.is_some()) {
        Some(dimensions) => as_owner(|owner| ensure(owner, collection, dimensions)),
        None => Ok(()),
    }
}

/// Puts a collection that has no partition into the one that its strategy names, which is created
/// if it does not exist. Returns the partition if it is new.
fn join(
    owner: &OwnerRights,
    collection: &Collection,
    dimensions: usize,
) -> Result<Option<Partition>, Error> {
    let (name, strategy) = (collection.name.as_str(), collection.strategy());
    let known = partitions::of_first_writer(owner, name)?;
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
        None => free(owner, collection, wanted(collection))?,
    };
    if is_shared {
        partitions::lock_all(owner)?;
    }
    let is_new = partition.oid().is_none();
    if is_new {
        let only = (!is_shared).then_some(name);
        relations::create_detached(owner, &partition, &partition, only, dimensions)?;
        relations::attach(owner, &partition)?;
    } else {
        check_place(owner, collection, &partition, Some(dimensions))?;
    }
    partitions::set(owner, name, &partition, mode)?;
    Ok(is_new.then_some(partition))
}

/// Returns the partition, or another one if a collection that was renamed has it for itself.
fn free(
    owner: &OwnerRights,
    collection: &Collection,
    partition: Partition,
) -> Result<Partition, Error> {
    let is_own = !collection.strategy().is_shared() && partition.oid().is_some();
    match is_own && is_of_renamed(&others(owner, collection.name.as_str(), &partition)?) {
        true => partitions::free_name(owner, partition.name()),
        false => Ok(partition),
    }
}

/// Returns true if one collection has the partition for itself. Only this collection would need the
/// partition's name, if it had not been renamed: `rag_manifest` reserves such names.
fn is_of_renamed(others: &[Member]) -> bool {
    matches!(others, [other] if other.mode == OWN_PARTITION)
}

/// Deletes the chunks of a collection that is dropped. The partition is dropped with its last
/// collection.
pub fn remove(owner: &OwnerRights, collection: &Collection) -> Result<(), Error> {
    leave(owner, collection)?.map_or(Ok(()), |partition| relations::drop(owner, &partition))
}

/// Returns true if no other collection is in the partition of a collection.
pub fn is_alone(owner: &OwnerRights, collection: &Collection) -> Result<bool, Error> {
    match &collection.partition {
        Some(partition) => Ok(others(owner, collection.name.as_str(), partition)?.is_empty()),
        None => Ok(true),
    }
}

/// Returns true if the partition that the strategy of the retriever names does not exist, or has no
/// other collection than this one.
pub fn is_wanted_alone(owner: &OwnerRights, collection: &Collection) -> Result<bool, Error> {
    let partition = wanted(collection);
    match partition.oid() {
        None => Ok(true),
        Some(_) if collection.partition.as_ref() == Some(&partition) => {
            Ok(others(owner, collection.name.as_str(), &partition)?.is_empty())
        }
        Some(_) => Ok(false),
    }
}

/// Deletes the chunks of a collection from a partition that others share. Otherwise deletes
/// nothing, and returns the partition, which is to be dropped.
pub fn leave(owner: &OwnerRights, collection: &Collection) -> Result<Option<Partition>, Error> {
    let name = collection.name.as_str();
    let Some(partition) = partitions::of_writer(owner, name)?.filter(|of| of.oid().is_some())
    else {
        return Ok(None);
    };
    // a collection that joins the partition waits until it is dropped, and creates it again
    partitions::lock_all(owner)?;
    if others(owner, name, &partition)?.is_empty() {
        return Ok(Some(partition));
    }
    chunks::delete_all(owner, &partition, name)?;
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
    as_owner(|owner| match &collection.partition {
        Some(partition) => {
            let others = others(owner, collection.name.as_str(), partition)?;
            let mut others = others.iter();
            others.try_for_each(|other| check_agreement(collection, partition, other, None))
        }
        None => match wanted(collection) {
            partition if partition.oid().is_some() => {
                check_place(owner, collection, &partition, None)
            }
            _ => Ok(()),
        },
    })
}

/// Checks that a collection may join a relation that exists.
fn check_place(
    owner: &OwnerRights,
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
    let others = others(owner, collection.name.as_str(), partition)?;
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

/// Checks that the indexes of a partition, which another collection has, are made as those of a
/// collection would be.
fn check_agreement(
    collection: &Collection,
    partition: &Partition,
    other: &Member,
    dimensions: Option<usize>,
) -> Result<(), Error> {
    let stored = collection.model.as_ref().map(|model| model.dimensions);
    let dimensions = match (dimensions.or(stored), other.dimensions) {
        (Some(own), Some(other)) => Some((own.to_string(), other.to_string())),
        _ => None,
    };
    let dimensions = dimensions.filter(|(own, other)| own != other);
    let difference = dimensions.map(|(own, other)| Difference {
        part: "dimensions",
        own,
        other,
    });
    let layouts = || collection.layout().difference(&other.layout);
    let Some(Difference { part, own, other }) = difference.or_else(layouts) else {
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
        "The partition has {part} {other}, and the collection has {own}. One index has the chunks \
         of all collections of the partition."
    ))
    .hint(format!(
        "Use the {part} of the partition, or a retriever with another indexStrategy."
    )))
}
