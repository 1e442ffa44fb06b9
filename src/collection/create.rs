//! Creates collections. Functions, bundles and manifests all come here, so that the same is
//! checked.

use rag_definition::collection::CollectionDefinition;

use super::{definition, names, placement};
use crate::{
    catalog::{
        collections::{self, Collection},
        name::Name,
        retrievers,
    },
    error::{Error, definition::DefinitionErrors},
    models::users,
    pg::{
        roles::{self, Owner},
        spi::as_owner,
    },
};

/// Creates a collection. `owner` names its owner. None: the current role.
///
/// # Errors
/// The definition is wrong, the current role may not use the model, the name or the external id is
/// in use, or the retriever does not exist.
pub fn create(
    name: &str,
    definition: CollectionDefinition,
    owner: Option<&str>,
) -> Result<Collection, Error> {
    let created = create_if_missing(name, definition, owner)?;
    created.ok_or_else(|| Error::duplicate(format!("collection \"{name}\" already exists")))
}

/// Creates a collection. Returns None if a collection of this name exists.
///
/// # Errors
/// See [`create`].
pub fn create_if_missing(
    name: &str,
    definition: CollectionDefinition,
    owner: Option<&str>,
) -> Result<Option<Collection>, Error> {
    let mut errors = DefinitionErrors::default();
    let checked_name = errors.note("name", Name::collection(name));
    let owner = match owner {
        Some(name) => roles::future_owner(name, "collection"),
        None => Owner::current(),
    };
    let owner = errors.note("owner", owner);
    let definition = definition::checked(definition, None, &mut errors);
    let (Some(name), Some(owner), Some(definition)) = (checked_name, owner, definition) else {
        return Err(errors.to_error(format!("invalid definition of collection \"{name}\"")));
    };
    users::require_use_of(&definition.retriever, definition.embedding_model.as_deref())?;
    as_owner(|rights| {
        names::claim(rights, &name, None)?;
        let external_id = definition.external_id.as_deref();
        if let Some(id) = external_id.filter(|id| *id != name.as_str()) {
            names::claim_external_id(rights, id, None)?;
        }
        if retrievers::find(&definition.retriever)?.is_none() {
            return Err(retrievers::missing(&definition.retriever));
        }
        if !collections::insert(rights, &name, &definition, &owner)? {
            return Ok(None);
        }
        let collection = Collection::get(name.as_str())?;
        placement::check(&collection)?;
        Ok(Some(collection))
    })
}
