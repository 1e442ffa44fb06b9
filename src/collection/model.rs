//! The model of the stored embeddings of a collection. All of them are of one model.

use pgrx::PgSqlErrorCode;
use rag_protocol::embed::ModelInfo;

use super::placement;
use crate::{
    catalog::{
        collections::{self, Collection},
        partitions,
    },
    error::{Cause, Error},
    pg::spi::OwnerRights,
};

/// Checks that a model is the one of the stored embeddings. Distances between embeddings of
/// different models mean nothing.
///
/// The same model with another precision passes: the two are close enough until the next sync
/// embeds the documents again. The name of its folder does not matter.
///
/// # Errors
/// Weights, tokenizer or pooling differ.
pub fn check(collection: &Collection, model: &ModelInfo) -> Result<(), Error> {
    let Some(stored) = &collection.model else {
        return Ok(());
    };
    if stored.fingerprint == model.fingerprint || stored.identity == model.identity {
        return Ok(());
    }
    let described = |name: &str, dimensions: usize, identity: &str| {
        format!(
            "{name} with {dimensions} dimensions (identity {}...)",
            &identity[..identity.len().min(12)]
        )
    };
    let error = Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "collection \"{}\" was embedded with another model",
            collection.name
        ),
    )
    .detail(format!(
        "The stored embeddings are from {}. The current model is {}. The identity is a hash of \
         weights, tokenizer and pooling.",
        described(&stored.name, stored.dimensions, &stored.identity),
        described(&model.name, model.dimensions, &model.identity),
    ))
    .hint(format!(
        "To embed it by the current model, run CALL rag_rebuild_collection({}). Otherwise \
         restore the former model (rag.model_dir, or the settings of the model that the \
         collection names).",
        pgrx::spi::quote_literal(collection.name.as_str())
    ));
    Err(error.because(Cause::OtherModel))
}

/// Prepares a collection for chunks with embeddings of a model: stores the model, and creates the
/// partition if it does not exist, in the transaction that writes the collection's documents.
///
/// # Errors
/// The retriever names another model, or the collection is not what it was when it was read.
pub fn prepare_for(
    owner: &OwnerRights,
    collection: &Collection,
    model: &ModelInfo,
) -> Result<(), Error> {
    if let Some(wanted) = collection.wanted_model().filter(|name| *name != model.name) {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "collection \"{}\" is for model \"{wanted}\", and not for \"{}\"",
                collection.name, model.name
            ),
        )
        .hint("Its own setting or its retriever names the model."));
    }
    check_not_rebuilt(owner, collection)?;
    let is_same = collection
        .model
        .as_ref()
        .is_some_and(|stored| stored.fingerprint == model.fingerprint);
    if !is_same {
        collections::note_model(owner, collection.name.as_str(), model)?;
    }
    placement::ensure(owner, collection, model.dimensions)
}

/// Checks that the collection exists, and that chunks made by the settings at hand are still what
/// it has. Its storage is not replaced before the transaction ends.
fn check_not_rebuilt(owner: &OwnerRights, collection: &Collection) -> Result<(), Error> {
    let name = collection.name.as_str();
    partitions::join_writers(name);
    let what = match collections::version_of_writer(owner, name)? {
        // it was dropped while the writer waited for the lock
        None => return Err(Collection::missing(name)),
        Some(now) if now.serial != collection.serial => "dropped and created again",
        Some(now) if now.rebuilds != collection.rebuilds => "rebuilt",
        Some(_) => return Ok(()),
    };
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!("collection \"{name}\" was {what} meanwhile"),
    )
    .hint("Try again. A run of a source is repeated automatically."))
}
