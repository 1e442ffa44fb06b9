//! The SQL functions, one file for each noun. A function converts its arguments, calls the domain,
//! and converts the result. `sql/privileges.sql` has the comments and grants of all functions.
//!
//! | file | functions for |
//! |---|---|
//! | [`collection`], [`access`], [`rebuild`] | collections, their owners and grants, rebuilds |
//! | [`document`], [`chunks`], [`knowledge`], [`bundle`] | documents, chunks and knowledge items that users add; bundles |
//! | [`extract`] | what is read of a document |
//! | [`source`], [`run`], [`schedule`], [`drift`] | sources, their runs, schedules and drift |
//! | [`retriever`], [`storage`] | retrievers, and storage on other servers |
//! | [`search`], [`find`] | `rag_search`, and `rag_find` for people |
//! | [`highlight`] | words of queries in texts |
//! | [`facets`], [`duplicates`] | counts beside a search; chunks with nearly equal texts |
//! | [`explain_search`], [`search_stats`] | explanation and statistics of searches |
//! | [`context`], [`answer`], [`rerank`] | what follows a search: contexts, answers, reranking |
//! | [`evaluate`] | measures of searches |
//! | [`retrieval`] | requests of applications in JSON |
//! | [`model`], [`models`] | `rag_embed`; definitions of models |
//! | [`index`], [`bm25`] | indexes of the access methods |
//! | [`secret`] | secrets and their keys |
//! | [`api_key`] | keys of `rag-gateway` |
//! | [`manifest`] | manifests |
//! | [`language`] | languages of texts |
//! | [`query`] | the query language |
//! | [`status`], [`metrics`], [`operation_stats`] | `rag_status()`, `rag.metrics` and its text |
//! | [`version`] | the version of the library |

mod access;
mod answer;
mod api_key;
mod bm25;
mod bundle;
mod chunks;
mod collection;
mod context;
mod document;
mod drift;
mod duplicates;
mod evaluate;
mod explain_search;
mod extract;
mod facets;
mod find;
mod highlight;
mod index;
mod knowledge;
mod language;
mod manifest;
mod metrics;
mod model;
mod models;
mod operation_stats;
mod query;
mod rebuild;
mod rerank;
mod retrieval;
mod retriever;
mod run;
mod schedule;
mod search;
mod search_stats;
mod secret;
mod source;
mod status;
mod storage;
mod version;

use std::ffi::CStr;

use pgrx::PgSqlErrorCode;

use serde_json::Value;

use crate::{
    catalog::collections::Collection,
    collection::rights::{require_read, require_write},
    error::Error,
    pg::{json::JsonbText, roles},
};

/// The maximum number of collections of a search.
const MAX_COLLECTIONS: usize = 100;

/// Returns the value of an argument that must not be NULL.
///
/// # Errors
/// The argument is NULL.
fn required<T>(name: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::null_not_allowed(format!("{name} must not be NULL")))
}

/// Returns the value of a `jsonb` argument.
///
/// # Errors
/// A number is too large, or the value is nested too deeply.
fn parsed(name: &str, value: Option<JsonbText>) -> Result<Option<Value>, Error> {
    value
        .map(|value| value.parse())
        .transpose()
        .map_err(|e| Error::invalid_parameter(format!("{name}: {e}")))
}

/// Returns the collection with a name or external id that the caller may read.
///
/// # Errors
/// The collection does not exist, or the caller may not read it. Names are no secret, but what an
/// external id stands for is one.
fn readable(name: Option<&str>) -> Result<Collection, Error> {
    known(name, require_read)
}

/// Returns the collections that are named: by names, external ids, or patterns with `*`, which
/// stand for those that the caller may read.
///
/// # Errors
/// A collection does not exist, or the caller may not read it; a pattern matches none; there are
/// too many.
fn all_readable(names: &[Option<&str>]) -> Result<Vec<Collection>, Error> {
    let mut all: Vec<Collection> = vec![];
    for name in names {
        let name = required("an element of collection", *name)?;
        let found = match Collection::known_as(name)? {
            None if name.contains('*') => matching(name)?,
            _ => vec![readable(Some(name))?],
        };
        for collection in found {
            if all.iter().all(|known| known.name != collection.name) {
                all.push(collection);
            }
        }
    }
    if all.is_empty() {
        return Err(Error::invalid_parameter(
            "collection must name a collection",
        ));
    }
    if all.len() > MAX_COLLECTIONS {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!(
                "a search must not have more than {MAX_COLLECTIONS} collections, not {}",
                all.len()
            ),
        )
        .hint("Put documents that are searched together into one collection, and use a filter."));
    }
    Ok(all)
}

/// Returns the collections that match a pattern and that the caller may read.
fn matching(pattern: &str) -> Result<Vec<Collection>, Error> {
    let mut found = Collection::matching(pattern)?;
    found.retain(|collection| require_read(collection).is_ok());
    if found.is_empty() {
        return Err(Error::undefined(format!(
            "no collection that you may read matches \"{pattern}\""
        ))
        .hint("The view rag.collections lists all collections."));
    }
    Ok(found)
}

/// Returns the collection with a name or external id that the caller may write to.
///
/// # Errors
/// The collection does not exist, or the caller may not write to it.
fn writable(name: Option<&str>) -> Result<Collection, Error> {
    known(name, require_write)
}

fn known(
    name: Option<&str>,
    check: fn(&Collection) -> Result<(), Error>,
) -> Result<Collection, Error> {
    let name = required("collection", name)?;
    let collection = Collection::by_name_or_external_id(name)?;
    match check(&collection) {
        Err(_) if collection.name.as_str() != name => Err(Collection::missing(name)),
        checked => checked.map(|()| collection),
    }
}

/// Returns the elements of an array argument. The array may be NULL, but not its elements.
///
/// # Errors
/// An element is NULL.
fn without_nulls(
    name: &str,
    array: Option<Vec<Option<String>>>,
) -> Result<Option<Vec<String>>, Error> {
    array
        .map(|elements| {
            required(
                &format!("an element of {name}"),
                elements.into_iter().collect(),
            )
        })
        .transpose()
}

/// Returns the elements of an array argument. NULL has none.
fn elements(array: &Option<Vec<Option<String>>>) -> Vec<Option<&str>> {
    let elements = array.iter().flatten();
    elements.map(Option::as_deref).collect()
}

/// Checks that the caller may run a function that writes.
///
/// # Errors
/// The server is a standby (raised by PostgreSQL), or the caller is not a member of rag_admin.
fn require_writer(function: &CStr, action: &str) -> Result<(), Error> {
    prevent_on_standby(function);
    roles::require_admin(action)
}

/// Raises an error if the server is a standby, or has chunks for another one only.
fn prevent_on_standby(function: &CStr) {
    crate::pg::process::prevent_in_recovery(function);
    crate::catalog::shards::require_coordinator().unwrap_or_else(|error| error.raise());
}
