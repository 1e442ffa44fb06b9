//! Prepares a run of a source whose documents have drifted.

use rag_definition::source::SourceSpec;

use crate::{
    catalog::{collections::Collection, drift, sources::Source},
    error::Error,
    pg::spi::as_owner,
    source::table::changes,
    storage::remote::{comparison, replication},
};

/// If drift was found, makes the run fetch and embed the drifted documents as if they were new, and
/// only those. Chunks without a document are deleted. Chunks of drifted documents get new ids and
/// lose their embedding keys: they are no source of embeddings, and their ids conflict with no
/// others. All documents are replicated again to a server that has another number of chunks.
pub fn forget_drifted(source: &Source) -> Result<(), Error> {
    let (collection, name) = (source.collection.as_str(), source.name.as_str());
    if !as_owner(|owner| drift::was_found(owner, source))? {
        return Ok(());
    }
    let searched = Collection::get(collection)?;
    if comparison::difference(&searched)?.is_some() {
        replication::queue_again(&searched)?;
    }
    as_owner(|owner| drift::forget(owner, collection, name))?;
    match source.spec {
        SourceSpec::Table(_) => changes::set_incomplete(&source.name),
        _ => Ok(()),
    }
}
