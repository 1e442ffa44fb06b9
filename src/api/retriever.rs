//! Retrievers: create, alter, drop, test.

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_definition::retriever::RetrieverDefinition;

use super::{parsed, required};
use crate::{
    catalog::{name::Name, retrievers},
    collection::retriever::{self, RetrieverChanges, RetrieverTest},
    error::Error,
    pg::json::JsonbText,
};

fn named(name: Option<&str>) -> Result<Name, Error> {
    Name::retriever(required("name", name)?)
}

#[pg_extern]
fn rag_create_retriever(
    name: Option<&str>,
    spec: pgrx::default!(Option<JsonbText>, "'{}'"),
    display_name: pgrx::default!(Option<&str>, "NULL"),
    description: pgrx::default!(Option<&str>, "NULL"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_create_retriever()");
    let changes = RetrieverChanges {
        spec: Some(required("spec", parsed("spec", spec)?)?),
        display_name,
        description,
    };
    Ok(retriever::create(&named(name)?, &changes)?)
}

#[pg_extern]
fn rag_alter_retriever(
    name: Option<&str>,
    spec: pgrx::default!(Option<JsonbText>, "NULL"),
    display_name: pgrx::default!(Option<&str>, "NULL"),
    description: pgrx::default!(Option<&str>, "NULL"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_alter_retriever()");
    let changes = RetrieverChanges {
        spec: parsed("spec", spec)?,
        display_name,
        description,
    };
    Ok(retriever::alter(&named(name)?, &changes)?)
}

#[pg_extern]
fn rag_drop_retriever(
    name: Option<&str>,
    if_exists: pgrx::default!(Option<bool>, "false"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_drop_retriever()");
    let name = named(name)?;
    let if_exists = required("if_exists", if_exists)?;
    if retriever::drop(name.as_str())? {
        return Ok(());
    }
    if if_exists {
        pgrx::notice!("retriever \"{name}\" does not exist, skipping");
        return Ok(());
    }
    Err(retrievers::missing(name.as_str()).into())
}

#[pg_extern(volatile)]
fn rag_test_retriever(
    name: Option<&str>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(success, bool),
            name!(message, String),
            name!(storage_type, String),
            name!(latency_ms, f64),
        ),
    >,
    ErrorReport,
> {
    let test = retriever::test(named(name)?.as_str())?;
    Ok(TableIterator::once(columns(test)))
}

#[pg_extern(name = "rag_test_retriever", volatile)]
fn test_unsaved_retriever(
    spec: Option<JsonbText>,
    name: pgrx::default!(Option<&str>, "'unsaved'"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(success, bool),
            name!(message, String),
            name!(storage_type, String),
            name!(latency_ms, f64),
        ),
    >,
    ErrorReport,
> {
    let spec = required("spec", parsed("spec", spec)?)?;
    let test = retriever::test_unsaved(&named(name)?, &spec)?;
    Ok(TableIterator::once(columns(test)))
}

/// Returns the methods that a stored spec enables, or NULL if somebody has broken it by hand.
#[pg_extern(immutable, strict, parallel_safe, sql = false)]
fn enabled_methods(spec: JsonB) -> Option<Vec<String>> {
    let definition = RetrieverDefinition::parse(&spec.0).ok()?;
    let modes = definition.methods().enabled_modes().into_iter();
    Some(modes.map(|mode| mode.name().to_owned()).collect())
}

/// The columns of the result of a test.
fn columns(test: RetrieverTest) -> (bool, String, String, f64) {
    (
        test.success,
        test.message,
        test.storage_type.name().to_owned(),
        test.latency.as_micros() as f64 / 1e3,
    )
}
