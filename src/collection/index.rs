//! The indexes of a collection's partition: on the embeddings, and on the columns that filters use.
//! They are created when the collection is large enough. The storage says which index on the
//! embeddings that is.

use pgrx::pg_sys;
use rag_definition::retriever::StorageType;

use super::keyword_index;
use crate::{
    catalog::{
        collections::Collection,
        partitions::{self, Partition},
        shards::{self, Distribution},
    },
    error::Error,
    pg::{
        lock::WriterLock,
        lookup::{self, lock_relation, try_lock_relation},
        spi::{OwnerRights, as_owner},
        transaction::with_latest_snapshot,
    },
    storage::{Storage, built_index},
};

/// The number of chunks from which a collection is indexed. A scan of fewer chunks takes about a
/// millisecond.
const MIN_CHUNKS: i64 = 3_000;
/// Chunks are not counted in partitions with a size below this. They hold fewer. A size of 0 says
/// nothing: the chunks may be on other servers, and counting none takes no time.
const MIN_BYTES: i64 = MIN_CHUNKS * 1500;

/// Returns true if the collection has an index on its embeddings that searches can use.
///
/// Every search calls this. It reads the relation cache, because planning a statement would take as
/// long as the search.
pub fn exists(collection: &Collection) -> bool {
    collection
        .partition_oid()
        .is_some_and(|partition| is_on(collection, partition))
}

fn is_on(collection: &Collection, partition: pg_sys::Oid) -> bool {
    built_index(collection.storage(), partition).is_some()
}

/// Creates the missing indexes if the collection is large enough: on the embeddings if its
/// retriever has an index, and on the columns that filters use. Building an index from existing
/// chunks is several times faster than maintaining it from the first chunk. A keyword index that is
/// missing, because the retriever did not need one before, is created in any case.
///
/// # Errors
/// A statement fails.
pub fn create_if_large_enough(collection: &Collection, writers: WriterLock) -> Result<(), Error> {
    as_owner(|owner| {
        // the collection may be older than its partition
        let Some(partition) = partitions::of_writer(owner, collection.name.as_str())? else {
            return Ok(());
        };
        let Some(relation) = partition.oid() else {
            return Ok(());
        };
        let needs_keywords = || keyword_index::is_missing(collection, relation);
        if missing(owner, collection, &partition, relation)?.is_empty() && !needs_keywords() {
            return Ok(());
        }
        // two transactions must not both create the indexes
        if !lock(relation, writers) {
            return Ok(());
        }
        if needs_keywords() {
            keyword_index::create(owner, collection, &partition)?;
        }
        let missing = with_latest_snapshot(|| missing(owner, collection, &partition, relation))?;
        let partition = partition.qualified();
        for index in &missing {
            owner.execute(&format!("CREATE INDEX ON {partition} {index}"), &[])?;
        }
        if !missing.is_empty() {
            // without statistics the planner expects a few rows, and sorts them
            owner.execute(&format!("ANALYZE {partition}"), &[])?;
        }
        Ok(())
    })
}

/// Drops the indexes on the embeddings, if there are any. Waits for statements that use the
/// partition.
///
/// # Errors
/// A statement fails.
pub fn drop(collection: &Collection) -> Result<(), Error> {
    let Some(partition) = collection.partition_oid() else {
        return Ok(());
    };
    as_owner(|owner| {
        for method in StorageType::ALL
            .iter()
            .filter_map(|storage| storage.access_method())
        {
            while let Some(index) = lookup::whole_index(partition, method) {
                let name = owner.query(
                    "SELECT $1::regclass::text AS name",
                    &[index.into()],
                    |row| row.required::<String>("name"),
                )?;
                for name in name {
                    owner.execute(&format!("DROP INDEX {name}"), &[])?;
                }
            }
        }
        Ok(())
    })
}

/// The columns that filters compare by equality or containment, and their indexes. Rows with NULL
/// are not indexed, because no such condition matches them.
const FILTER_INDEXES: [(&str, &str); 4] = [
    (
        "knowledge_id",
        "(knowledge_id) WHERE knowledge_id IS NOT NULL",
    ),
    ("category", "(category) WHERE category IS NOT NULL"),
    ("tags", "USING gin (tags) WHERE tags IS NOT NULL"),
    ("metadata", "USING gin (metadata jsonb_path_ops)"),
];

/// Returns the text after `CREATE INDEX ON ...` for each missing index, or nothing if the
/// collection is too small.
pub fn missing(
    owner: &OwnerRights,
    collection: &Collection,
    partition: &Partition,
    relation: pg_sys::Oid,
) -> Result<Vec<String>, Error> {
    let found = owner.query(
        "SELECT ARRAY(SELECT a.attname::text
                      FROM pg_index AS i
                      JOIN pg_attribute AS a
                          ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                      WHERE i.indrelid = p.oid AND i.indisvalid) AS columns
         FROM pg_class AS p
         WHERE p.oid = $1 AND pg_relation_size(p.oid) NOT BETWEEN 1 AND $2 - 1",
        &[relation.into(), MIN_BYTES.into()],
        |row| row.required::<Vec<String>>("columns"),
    )?;
    let Some(indexed) = found.into_iter().next() else {
        return Ok(vec![]);
    };
    let mut missing: Vec<String> = missing_vector_index(collection, relation)?
        .into_iter()
        .collect();
    let unindexed = FILTER_INDEXES
        .iter()
        .filter(|(column, _)| !indexed.iter().any(|indexed| indexed == column));
    missing.extend(unindexed.map(|(_, index)| (*index).to_string()));
    if missing.is_empty() {
        return Ok(missing);
    }
    if shards::is_distributed()? {
        let chunks = chunks_of_documents(owner, partition)?;
        return Ok(if chunks < MIN_CHUNKS { vec![] } else { missing });
    }
    let enough = owner.query(
        &format!("SELECT 1 FROM {} OFFSET $1 LIMIT 1", partition.qualified()),
        &[(MIN_CHUNKS - 1).into()],
        |_| Ok(()),
    )?;
    Ok(if enough.is_empty() { vec![] } else { missing })
}

/// Returns the number of chunks in a partition by its documents. Those on other servers are not
/// read.
fn chunks_of_documents(owner: &OwnerRights, partition: &Partition) -> Result<i64, Error> {
    let found = owner.query(
        "SELECT coalesce(sum(d.chunk_count), 0) AS chunks
         FROM rag_internal.collection c JOIN rag.documents d ON d.collection = c.name
         WHERE c.partition = $1",
        &[partition.name().into()],
        |row| row.required::<i64>("chunks"),
    )?;
    Ok(found.first().copied().unwrap_or(0))
}

/// Returns the text after `CREATE INDEX ON ...` for the index on the embeddings, if it is missing.
/// If this database cannot have it any more, there is a warning, and searches stay exact.
fn missing_vector_index(
    collection: &Collection,
    partition: pg_sys::Oid,
) -> Result<Option<String>, Error> {
    let Some(index) = Storage::of(collection).index() else {
        return Ok(None);
    };
    if is_on(collection, partition) {
        return Ok(None);
    }
    // the first document may have been stored since the collection was read
    let model = match &collection.model {
        Some(model) => Some(model.clone()),
        None => Collection::get(collection.name.as_str())?.model,
    };
    let Some(model) = model else {
        return Ok(None);
    };
    let definition = index.definition(collection.storage(), model.dimensions);
    definition.map(Some).or_else(|error| {
        let warning = error.like(format!(
            "the vector index of collection \"{}\" cannot be created: {}",
            collection.name, error.message
        ));
        let warning = error.hint.into_iter().fold(warning, Error::hint);
        warning.report(pgrx::PgLogLevel::WARNING);
        Ok(None)
    })
}

/// Creates the index that finds chunks by their ids alone, and keeps them unique in their
/// collection. Collections whose documents `rag` splits itself do not need it. Runs as the
/// extension's owner.
pub fn create_for_given_chunks(owner: &OwnerRights, collection: &Collection) -> Result<(), Error> {
    if let Some(partition) = partitions::of_writer(owner, collection.name.as_str())? {
        create_for_given_chunks_on(owner, &partition)?;
    }
    Ok(())
}

/// Creates that index on a partition. Returns false if it exists.
pub fn create_for_given_chunks_on(
    owner: &OwnerRights,
    partition: &Partition,
) -> Result<bool, Error> {
    let exists = owner.query(
        "SELECT FROM pg_index i
         JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
         WHERE i.indrelid = to_regclass($1) AND a.attname = 'chunk_id'",
        &[partition.qualified().into()],
        |_| Ok(()),
    )?;
    if exists.is_empty() {
        // Citus keeps values unique in a shard only; ids are looked up before they are written
        let unique = match shards::distribution()? {
            Some(Distribution::ByDocument) => "",
            _ => "UNIQUE ",
        };
        let statement = format!(
            "CREATE {unique}INDEX ON {} (chunk_id, collection)",
            partition.qualified()
        );
        owner.execute(&statement, &[])?;
    }
    Ok(exists.is_empty())
}

/// Locks the partition against writers and others that would create the indexes. Returns false if
/// it could not.
fn lock(partition: pg_sys::Oid, writers: WriterLock) -> bool {
    let mode = pg_sys::ShareRowExclusiveLock;
    match writers {
        WriterLock::Wait => {
            lock_relation(partition, mode);
            true
        }
        WriterLock::SkipIfBusy => try_lock_relation(partition, mode),
    }
}
