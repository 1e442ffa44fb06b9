//! Problems of the collection that a new source fills. They are no errors: the source can be
//! created before they are solved.

use pgrx::{PgSqlErrorCode, pg_sys::panic::ErrorReport, prelude::PgLogLevel, spi::quote_literal};
use rag_protocol::spec::FieldProblem;

use crate::{
    catalog::{
        access::{self, CollectionPrivilege},
        collection_status,
        collections::Collection,
        name::Name,
    },
    error::Error,
    pg::transaction::subtransaction,
    settings,
};

/// Returns the problems of a collection, with remedies: it is damaged, waits for a rebuild, or is
/// of another model. There are none if the caller may not read the collection.
pub fn problems(name: &str) -> Vec<FieldProblem> {
    // what cannot be read must not keep the source from being created
    subtransaction(|| found(name)).unwrap_or_else(|error| {
        let message = format!("the state of collection \"{name}\" is unknown: {error}");
        vec![problem(message, "rag_status() returns the problems.")]
    })
}

fn found(name: &str) -> Result<Vec<FieldProblem>, Error> {
    let Some(collection) = Collection::find(name)? else {
        return Ok(vec![]);
    };
    if !access::has_privilege(&collection, CollectionPrivilege::Read) {
        return Ok(vec![]);
    }
    let mut found = vec![];
    for status in collection_status::of(&collection)? {
        if let (Some(remedy), Some(detail)) = (status.remedy(), status.detail()) {
            let state = status.state();
            let message = format!("collection \"{name}\" is {state}: {detail}");
            found.push(problem(message, remedy));
        }
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

fn problem(message: String, hint: impl Into<String>) -> FieldProblem {
    FieldProblem::new("collection", message).hint(hint)
}

/// Reports the problems of the collection of a new source, each as a WARNING.
pub fn warn(source: &Name, collection: &str) {
    for problem in problems(collection) {
        let message = format!("source \"{source}\": {}", problem.message());
        let report = ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, message, "rag");
        let report = match &problem.hint {
            Some(hint) => report.set_hint(hint),
            None => report,
        };
        report.report(PgLogLevel::WARNING);
    }
}
