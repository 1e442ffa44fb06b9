//! Partitions of `rag.chunks` are created, attached and dropped.

use pgrx::spi::quote_literal;

use crate::{
    catalog::{
        partitions::Partition,
        rebuilds,
        shards::{self, Distribution},
    },
    error::Error,
    pg::spi::OwnerRights,
};

/// Creates a relation with its keys, not attached yet.
///
/// `rows_of` is the partition that the rows are for: the relation itself, or the one that it
/// becomes by [`attach_as`].
///
/// `only` is the collection that has it for itself. Its CHECKs let ATTACH skip its scan, and reject
/// vectors of other dimensions, which would make every search fail. They also let the planner skip
/// the partition if a statement of a user names another collection. The chunks of a collection
/// among others are found by an index.
pub fn create_detached(
    owner: &OwnerRights,
    relation: &Partition,
    rows_of: &Partition,
    only: Option<&str>,
    dimensions: usize,
) -> Result<(), Error> {
    let (partition, name) = (relation.qualified(), quote_literal(rows_of.name()));
    let distribution = shards::distribution()?;
    // an id says nothing outside of its collection
    let (key, of_one) = match only {
        Some(only) => (
            match distribution {
                Some(Distribution::ByCollection) => "document_id, chunk_id, collection",
                _ => "document_id, chunk_id",
            },
            format!(
                "CONSTRAINT partition_collection CHECK (collection = {}),",
                quote_literal(only)
            ),
        ),
        None => ("document_id, chunk_id, collection", String::new()),
    };
    owner.execute(
        &format!(
            "CREATE TABLE {partition} (
                 LIKE rag.chunks INCLUDING ALL EXCLUDING COMMENTS,
                 PRIMARY KEY ({key}),
                 CONSTRAINT partition_name CHECK (partition = {name}),
                 {of_one}
                 CONSTRAINT embedding_dimensions
                     CHECK (rag_functions.vector_dims(embedding) = {dimensions}))"
        ),
        &[],
    )?;
    owner.execute(
        &format!("ALTER TABLE {partition} ALTER COLUMN partition SET DEFAULT {name}"),
        &[],
    )?;
    owner.execute(&format!("CREATE INDEX ON {partition} (embedding_key)"), &[])?;
    if only.is_none() {
        owner.execute(&format!("CREATE INDEX ON {partition} (collection)"), &[])?;
    }
    match distribution {
        Some(distribution) => distribute(owner, relation, distribution),
        None => Ok(()),
    }
}

/// Distributes a relation over the servers as `rag.chunks` is.
fn distribute(
    owner: &OwnerRights,
    relation: &Partition,
    distribution: Distribution,
) -> Result<(), Error> {
    owner.execute_returning(
        "SELECT create_distributed_table($1::regclass, $2, colocate_with => 'rag.chunks')",
        &[relation.qualified().into(), distribution.column().into()],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Says whether PostgreSQL tries to compress the texts of rows that are written from now on.
/// Compressed ones stay compressed when rows are copied, and the others have been tried already.
/// That takes almost half of the time of a copy.
pub fn set_compresses(
    owner: &OwnerRights,
    relation: &Partition,
    compresses: bool,
) -> Result<(), Error> {
    // Citus has no such command
    if shards::is_distributed()? {
        return Ok(());
    }
    let storage = if compresses { "EXTENDED" } else { "EXTERNAL" };
    owner.execute(
        &format!(
            "ALTER TABLE {} ALTER COLUMN content SET STORAGE {storage}",
            relation.qualified()
        ),
        &[],
    )?;
    Ok(())
}

/// Attaches a relation to `rag.chunks`.
///
/// CREATE TABLE ... PARTITION OF would wait for all transactions that have read `rag.chunks`, and
/// they for it.
pub fn attach(owner: &OwnerRights, partition: &Partition) -> Result<(), Error> {
    owner.execute(
        &format!(
            "ALTER TABLE rag.chunks ATTACH PARTITION {} FOR VALUES IN ({})",
            partition.qualified(),
            quote_literal(partition.name())
        ),
        &[],
    )?;
    Ok(())
}

/// Gives a relation, which is not attached, the name of the partition that its rows are for, and
/// attaches it.
pub fn attach_as(
    owner: &OwnerRights,
    relation: &Partition,
    partition: &Partition,
) -> Result<(), Error> {
    if relation != partition {
        owner.execute(
            &format!(
                "ALTER TABLE {} RENAME TO {}",
                relation.qualified(),
                partition.quoted_name()
            ),
            &[],
        )?;
    }
    attach(owner, partition)
}

/// Drops a relation with all of its chunks.
pub fn drop(owner: &OwnerRights, relation: &Partition) -> Result<(), Error> {
    owner.execute(&format!("DROP TABLE {}", relation.qualified()), &[])?;
    Ok(())
}

/// Forgets the rebuild of a collection, and drops what it has built.
pub fn discard_rebuild(owner: &OwnerRights, collection: &str) -> Result<(), Error> {
    if let Some(rebuild) = rebuilds::find(owner, collection)?
        && rebuild.relation.oid().is_some()
    {
        drop(owner, &rebuild.relation)?;
    }
    rebuilds::forget(owner, collection)
}
