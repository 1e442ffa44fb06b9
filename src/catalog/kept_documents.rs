//! Documents that dropped sources have left: they have no source, and the name of a former one.

use super::{
    chunks, damage,
    documents::{StoredDocument, document_id, ids_by_collection},
    partitions,
};
use crate::{
    error::{Cause, Error},
    pg::{
        security::as_owner,
        spi::{execute, execute_prepared},
        transaction::subtransaction,
    },
};

/// Keeps the documents of a dropped source in their collections, without a source.
///
/// A later source of the same name does not delete them. A document of any source with the same uri
/// replaces the kept document. The hash of a kept document is deleted, so that no run takes it for
/// an unchanged document of its own. Documents that were never indexed are deleted.
///
/// Where the chunks are damaged, only the documents are changed: the next sync or rebuild makes the
/// chunks from them.
pub fn detach(source: &str) -> Result<(), Error> {
    for collection in ids_by_collection(source, None)?.into_keys() {
        partitions::join_writers(&collection);
        match subtransaction(|| detach_chunks(&collection, source)) {
            Err(error) if error.is(Cause::Corrupt) => damage::mark(&error),
            detached => detached?,
        }
    }
    as_owner(|| {
        for statement in [
            "DELETE FROM rag.documents d USING rag_internal.collection c
          WHERE d.collection = c.name AND d.source = $1 AND d.content_hash IS NULL",
            "UPDATE rag.documents d SET source = NULL, former_source = d.source, status = 'active',
                 error = NULL, raw_hash = NULL, validator = NULL
             FROM rag_internal.collection c WHERE d.collection = c.name AND d.source = $1",
            "DELETE FROM rag_internal.document_digest m USING rag_internal.collection c
          WHERE m.collection = c.name AND m.source = $1",
        ] {
            execute(statement, &[source.into()])?;
        }
        Ok(())
    })
}

fn detach_chunks(collection: &str, source: &str) -> Result<(), Error> {
    as_owner(|| {
        let rows = partitions::rows_of_writer(collection, "")?;
        let statement = format!(
            "UPDATE rag.chunks SET source = NULL, former_source = $1 WHERE {rows} AND source = $1"
        );
        execute(&statement, &[source.into()])?;
        Ok(())
    })
}

/// Removes documents of the same uri that dropped sources have left: nobody else would. Returns
/// false if there is none.
pub fn remove(document: &StoredDocument<'_>) -> Result<bool, Error> {
    let kept = execute_prepared(
        "DELETE FROM rag.documents
      WHERE collection = $1 AND pg_catalog.md5(uri) = pg_catalog.md5($2) AND uri = $2
           AND source IS NULL AND former_source IS NOT NULL
         RETURNING document_id",
        &[document.collection.into(), document.uri.into()],
        |row| document_id(&row),
    )?;
    if !kept.is_empty() {
        chunks::delete(document.collection, &kept)?;
    }
    Ok(!kept.is_empty())
}
