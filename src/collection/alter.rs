//! Changes the definition of a collection: what happens, from top to bottom.
//!
//! | change | what happens |
//! |---|---|
//! | description, external id, limits | at once |
//! | anything, before the first document | at once |
//! | another retriever with the same strategy, model and index options | at once; a vector index that does not fit any more is dropped, and vectors move to the storage |
//! | another retriever otherwise | waits for a rebuild |
//! | sizes and unit of chunks, metadata of chunks, model, text search configuration, weight of titles | waits for a rebuild |
//!
//! What waits is the column `wanted`. A value that is as before is no longer wanted.

use rag_definition::collection::CollectionDefinition;
use serde_json::{Map, Value};

use super::{definition, names, placement, retriever};
use crate::{
    catalog::{
        collections::{self, Collection},
        retrievers,
    },
    error::{Error, definition::DefinitionErrors},
    models::users,
    pg::spi::as_owner,
};

/// The attribute whose change may be followed at once although there are chunks.
const RETRIEVER: &str = "retriever";

/// Gives a collection, whose row is locked, another definition.
///
/// # Errors
/// A value is wrong, the retriever does not exist, the current role may not use the model, the
/// external id is in use, or the collection would not fit into its shared partition.
pub fn alter(collection: &Collection, definition: CollectionDefinition) -> Result<(), Error> {
    let name = collection.name.as_str();
    let (present, before) = (&collection.definition, Collection::wanted(name)?);
    let mut errors = DefinitionErrors::default();
    let checked = definition::checked(definition, Some(&before.definition), &mut errors);
    let Some(definition) = checked else {
        return Err(errors.to_error(format!("invalid definition of collection \"{name}\"")));
    };
    // a member of the owner's role may have no right to use a model that others have named
    let named = retrievers::find(&definition.retriever)?
        .ok_or_else(|| retrievers::missing(&definition.retriever))?;
    if definition.model(&named.definition) != collection.wanted_model() {
        users::require_use_of(&definition.retriever, definition.embedding_model.as_deref())?;
    }
    let external_id = definition.external_id.as_deref();
    if let Some(id) = external_id.filter(|_| definition.external_id != present.external_id) {
        as_owner(|owner| names::claim_external_id(owner, id, Some(collection)))?;
    }

    let changes = definition.changes_since(present);
    let is_followed =
        changes.contains_key(RETRIEVER) && retriever::follow(collection, &named.definition)?;
    let has_chunks = collection.model.is_some();
    let waits = |attribute: &str| {
        has_chunks
            && CollectionDefinition::describes_chunks(attribute)
            && !(is_followed && attribute == RETRIEVER)
    };
    let (wanted, at_once): (Map<String, Value>, Map<String, Value>) = changes
        .into_iter()
        .partition(|(attribute, _)| waits(attribute));
    let is_told = !wanted.is_empty() && {
        let since = definition.changes_since(&before.definition);
        since
            .keys()
            .any(|it| CollectionDefinition::describes_chunks(it))
    };
    as_owner(|owner| collections::change(owner, collection, at_once, wanted))?;

    if is_followed {
        placement::check(&Collection::get(name)?)?;
    }
    placement::check_wanted(&Collection::wanted(name)?)?;
    if is_told {
        pgrx::notice!(
            "changes of collection \"{name}\" take effect with CALL rag_rebuild_collection({})",
            pgrx::spi::quote_literal(name),
        );
    }
    Ok(())
}
