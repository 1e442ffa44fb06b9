//! Prepares a run of a source whose documents have drifted.

use rag_definition::source::SourceSpec;

use crate::{
    catalog::{collections::Collection, partitions, sources::Source},
    drift::{was_found, without_jit},
    error::Error,
    pg::{
        security::as_owner,
        spi::{execute, execute_returning, query},
    },
    source::table::changes,
    storage::remote::{comparison, replication},
};

/// If drift was found, makes the run fetch and embed the drifted documents as if they were new, and
/// only those. Chunks without a document are deleted. Chunks of drifted documents get new ids and
/// lose their embedding keys: they are no source of embeddings, and their ids conflict with no
/// others. All documents are replicated again to a server that has another number of chunks.
pub fn forget_drifted(source: &Source) -> Result<(), Error> {
    let (collection, name) = (source.collection.as_str(), source.name.as_str());
    if !was_found(source)? {
        return Ok(());
    }
    let searched = Collection::get(collection)?;
    if comparison::difference(&searched)?.is_some() {
        replication::queue_again(&searched)?;
    }
    as_owner(|| {
        let drifted: Vec<(pgrx::Uuid, bool)> = without_jit(|| {
            execute_returning(
                "SELECT document_id, is_stored FROM rag_internal.drifted_documents($1, $2)",
                &[collection.into(), name.into()],
                |row| Ok((row.required(1)?, row.required(2)?)),
            )
        })?;
        let all: Vec<pgrx::Uuid> = drifted.iter().map(|(id, _)| *id).collect();
        let (stored, strays): (Vec<_>, Vec<_>) =
            drifted.into_iter().partition(|(_, is_stored)| *is_stored);
        let ids = |documents: Vec<(pgrx::Uuid, bool)>| {
            documents.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        // also rows that now name another source
        execute(
            "UPDATE rag.documents SET raw_hash = NULL, validator = NULL
             WHERE collection = $1 AND document_id = ANY ($2)",
            &[collection.into(), all.into()],
        )?;
        let rows = partitions::rows_of_writer(collection, "")?;
        execute(
            &format!(
                "DELETE FROM rag.chunks WHERE {rows} AND source = $1 AND document_id = ANY ($2)"
            ),
            &[name.into(), ids(strays).into()],
        )?;
        // The ids are random because one number is. The UPDATE itself has no volatile function,
        // with which it could not be distributed over servers.
        let random = query("SELECT pg_catalog.gen_random_uuid()", &[], |row| {
            row.required::<pgrx::Uuid>(1)
        })?;
        execute(
            &format!(
                "UPDATE rag.chunks SET embedding_key = '00000000-0000-0000-0000-000000000000',
                     chunk_id = pg_catalog.encode(pg_catalog.substr(pg_catalog.sha256(
                         pg_catalog.uuid_send($2) || pg_catalog.uuid_send(chunk_id)), 1, 16),
                         'hex')::pg_catalog.uuid
                 WHERE {rows} AND document_id = ANY ($1)"
            ),
            &[ids(stored).into(), random.first().copied().into()],
        )?;
        match source.spec {
            SourceSpec::Table(_) => changes::set_incomplete(&source.name),
            _ => Ok(()),
        }
    })
}
