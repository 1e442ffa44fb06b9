//! Partitions of `rag.chunks` are created, attached and dropped. All functions run as the
//! extension's owner.

use pgrx::spi::quote_literal;

use crate::{
    catalog::{partitions::Partition, rebuilds},
    error::Error,
    pg::spi::execute,
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
    relation: &Partition,
    rows_of: &Partition,
    only: Option<&str>,
    dimensions: usize,
) -> Result<(), Error> {
    let (partition, name) = (relation.qualified(), quote_literal(rows_of.name()));
    // an id says nothing outside of its collection
    let (key, of_one) = match only {
        Some(only) => (
            "document_id, chunk_id",
            format!(
                "CONSTRAINT partition_collection CHECK (collection = {}),",
                quote_literal(only)
            ),
        ),
        None => ("document_id, chunk_id, collection", String::new()),
    };
    execute(
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
    execute(
        &format!("ALTER TABLE {partition} ALTER COLUMN partition SET DEFAULT {name}"),
        &[],
    )?;
    execute(&format!("CREATE INDEX ON {partition} (embedding_key)"), &[])?;
    if only.is_none() {
        execute(&format!("CREATE INDEX ON {partition} (collection)"), &[])?;
    }
    Ok(())
}

/// Says whether PostgreSQL tries to compress the texts of rows that are written from now on.
/// Compressed ones stay compressed when rows are copied, and the others have been tried already.
/// That takes almost half of the time of a copy.
pub fn set_compresses(relation: &Partition, compresses: bool) -> Result<(), Error> {
    let storage = if compresses { "EXTENDED" } else { "EXTERNAL" };
    execute(
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
pub fn attach(partition: &Partition) -> Result<(), Error> {
    execute(
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
pub fn attach_as(relation: &Partition, partition: &Partition) -> Result<(), Error> {
    if relation != partition {
        execute(
            &format!(
                "ALTER TABLE {} RENAME TO {}",
                relation.qualified(),
                partition.quoted_name()
            ),
            &[],
        )?;
    }
    attach(partition)
}

/// Drops a relation with all of its chunks.
pub fn drop(relation: &Partition) -> Result<(), Error> {
    execute(&format!("DROP TABLE {}", relation.qualified()), &[])?;
    Ok(())
}

/// Forgets the rebuild of a collection, and drops what it has built.
pub fn discard_rebuild(collection: &str) -> Result<(), Error> {
    if let Some(rebuild) = rebuilds::find(collection)?
        && rebuild.relation.oid().is_some()
    {
        drop(&rebuild.relation)?;
    }
    rebuilds::forget(collection)
}
