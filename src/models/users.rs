//! Collections and retrievers that name a model.

use pgrx::PgSqlErrorCode;

use super::embedding::EmbeddingModel;
use crate::{
    catalog::{
        access,
        models::{self, Model},
        retrievers,
    },
    error::Error,
    pg::{roles, spi::as_owner},
};

/// Checks that the current role may create a collection with a retriever and a model. A model of
/// the registry is locked against being dropped until the transaction ends.
///
/// # Errors
/// The model does not exist, embeds no texts, or the role may not use it.
pub fn require_use_of(retriever: &str, model: Option<&str>) -> Result<(), Error> {
    let retriever = retrievers::find(retriever)?;
    let named = retriever
        .as_ref()
        .and_then(|found| found.definition.model());
    let Some(name) = model.or(named) else {
        return Ok(());
    };
    as_owner(|owner| models::lock_shared(owner, name))?;
    EmbeddingModel::usable(Some(name)).map(drop)
}

/// # Errors
/// Collections or retrievers name the model.
pub fn check_unused(model: &Model) -> Result<(), Error> {
    let name = &model.name;
    let refuse = |why: &str| {
        Error::new(
            PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop model \"{name}\" because {why}"),
        )
    };
    let collections = models::collections_with(name)?;
    if !collections.is_empty() {
        let known = access::readable_among(roles::current(), collections)?;
        return Err(refuse("collections depend on it")
            .detail(named(&known))
            .hint(
                "Give the collections another model with rag_alter_collection and \
                 rag_rebuild_collection, or drop them.",
            ));
    }
    let retrievers = models::retrievers_with(name)?;
    if !retrievers.is_empty() {
        return Err(refuse("retrievers name it")
            .detail(format!("Retrievers: {}.", retrievers.join(", ")))
            .hint("Change them first with rag_alter_retriever."));
    }
    Ok(())
}

/// Returns a sentence that names collections. An error names only those that the caller may read.
pub fn named(readable: &[String]) -> String {
    if readable.is_empty() {
        "Collections: some that belong to other owners.".into()
    } else {
        format!("Collections: {}.", readable.join(", "))
    }
}

/// # Errors
/// Collections have embeddings of the model, and the change would give other ones.
pub fn check_change(model: &Model) -> Result<(), Error> {
    let filled = models::filled_collections_with(&model.name)?;
    if filled.is_empty() {
        return Ok(());
    }
    let known = access::readable_among(roles::current(), filled)?;
    Err(Error::in_use(format!(
        "cannot change what the vectors of model \"{}\" depend on because collections have \
         embeddings of it",
        model.name
    ))
    .detail(named(&known))
    .hint("Create another model, and collections with it."))
}
