//! Problems of the collection that a new source fills. They are no errors: the source can be
//! created before they are solved.

use pgrx::spi::quote_literal;
use rag_definition::FieldProblem;

use crate::{
    catalog::{
        access::{self, CollectionPrivilege},
        collections::Collection,
    },
    collection::status,
    error::{Cause, Error},
    pg::transaction::subtransaction,
    settings,
};

/// Returns the problems of a collection, with remedies: it is damaged, waits for a rebuild, or is
/// of another model. There are none if the caller may not read the collection.
///
/// # Errors
/// A statement fails for another reason than damage.
pub fn problems(name: &str) -> Result<Vec<FieldProblem>, Error> {
    match subtransaction(|| found(name)) {
        // what cannot be read must not keep the source from being created
        Err(error) if error.is(Cause::Corrupt) => {
            let message = format!("the state of collection \"{name}\" is unknown: {error}");
            Ok(vec![problem(message, "rag_status() returns the problems.")])
        }
        found => found,
    }
}

fn found(name: &str) -> Result<Vec<FieldProblem>, Error> {
    let Some(collection) = Collection::find(name)? else {
        return Ok(vec![]);
    };
    if !access::has_privilege(&collection, CollectionPrivilege::Read) {
        return Ok(vec![]);
    }
    let mut found = vec![];
    if let Some(status) = status::of(&collection)?
        && let (state @ ("damaged" | "stale"), Some(detail)) = (status.state(), status.detail())
    {
        found.push(problem(
            format!("collection \"{name}\" is {state}"),
            sentence(&detail),
        ));
    }
    let current = settings::default_model_name();
    if let Some(stored) = &collection.model
        && collection.wanted_model().is_none()
        && stored.name != current
    {
        found.push(problem(
            format!(
                "collection \"{name}\" was embedded with model {}, but the current model is \
                 {current}",
                stored.name
            ),
            format!(
                "Restore rag.model_dir, or embed it with the current model: CALL \
                 rag_rebuild_collection({}).",
                quote_literal(name)
            ),
        ));
    }
    Ok(found)
}

/// Returns a reason and a remedy as a hint.
fn sentence(detail: &str) -> String {
    let mut chars = detail.chars();
    let first = chars.next().map(char::to_uppercase);
    first
        .into_iter()
        .flatten()
        .chain(chars)
        .chain(['.'])
        .collect()
}

fn problem(message: String, hint: impl Into<String>) -> FieldProblem {
    FieldProblem::new("collection", message).hint(hint)
}
