//! Documents that dropped sources have left: they have no source, and the name of a former one.

use std::collections::HashSet;

use super::{chunks, documents::document_id, partitions};
use crate::{error::Error, pg::spi::OwnerRights};

/// Leaves the chunks of a source in a collection without a source.
///
/// # Errors
/// The chunks are damaged.
pub fn detach_chunks(owner: &OwnerRights, collection: &str, source: &str) -> Result<(), Error> {
    partitions::join_writers(collection);
    let rows = partitions::rows_of_writer(owner, collection, "")?;
    let statement = format!(
        "UPDATE rag.chunks SET source = NULL, former_source = $1 WHERE {rows} AND source = $1"
    );
    owner.execute(&statement, &[source.into()])?;
    Ok(())
}

/// Leaves the documents of a source without a source, and deletes its digests.
///
/// The hash of such a document is deleted, so that no run takes it for an unchanged document of its
/// own. Documents that were never indexed are deleted.
pub fn detach_documents(owner: &OwnerRights, source: &str) -> Result<(), Error> {
    for statement in [
        "DELETE FROM rag.documents d USING rag_internal.collection c
         WHERE d.collection = c.name AND d.source = $1 AND d.content_hash IS NULL",
        "UPDATE rag.documents d SET source = NULL, former_source = d.source, status = 'active',
             error = NULL, raw_hash = NULL, validator = NULL
         FROM rag_internal.collection c WHERE d.collection = c.name AND d.source = $1",
        "DELETE FROM rag_internal.document_digest m USING rag_internal.collection c
         WHERE m.collection = c.name AND m.source = $1",
    ] {
        owner.execute(statement, &[source.into()])?;
    }
    Ok(())
}

/// Removes documents of these uris that dropped sources have left: nobody else would. Returns the
/// uris that there were.
pub fn remove(
    owner: &OwnerRights,
    collection: &str,
    uris: Vec<&str>,
) -> Result<HashSet<String>, Error> {
    let kept = owner.execute_prepared(
        "DELETE FROM rag.documents
         WHERE collection = $1 AND md5(uri) = ANY (ARRAY(SELECT md5(u) FROM unnest($2) AS u))
           AND uri = ANY ($2) AND source IS NULL AND former_source IS NOT NULL
         RETURNING document_id, uri",
        &[collection.into(), uris.into()],
        |row| Ok((document_id(&row)?, row.required("uri")?)),
    )?;
    let (ids, uris): (Vec<_>, HashSet<_>) = kept.into_iter().unzip();
    if !ids.is_empty() {
        chunks::delete(owner, collection, &ids)?;
    }
    Ok(uris)
}
