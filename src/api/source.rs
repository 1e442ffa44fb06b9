//! Sources: create, alter, validate, suspend, drop.

use pgrx::{datum::Interval, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::{parsed, required};
use crate::{
    catalog::{name::canonical, sources::Source},
    collection::damage::explained,
    error::{Error, definition::DefinitionErrors},
    pg::{json::JsonbText, roles},
    source::{
        alter::alter,
        definition::{self, SourceArguments},
        drop::drop_source,
        rename, timing,
    },
};

#[pg_extern]
#[allow(clippy::too_many_arguments)] // the function's signature in SQL
fn rag_create_source(
    name: Option<&str>,
    kind: Option<&str>,
    spec: Option<JsonbText>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    schedule: pgrx::default!(Option<&str>, "NULL"),
    credentials: pgrx::default!(Option<&str>, "NULL"),
    max_retries: pgrx::default!(Option<i32>, "3"),
    timeout: pgrx::default!(Option<Interval>, "'1 hour'"),
    suspend: pgrx::default!(Option<bool>, "false"),
    drift_policy: pgrx::default!(Option<&str>, "'auto'"),
    owner: pgrx::default!(Option<&str>, "NULL"),
    max_documents: pgrx::default!(Option<i64>, "NULL"),
    max_bytes: pgrx::default!(Option<i64>, "NULL"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_create_source()", "create a source")?;
    let spec = parsed("spec", spec)?;
    let arguments = SourceArguments {
        name,
        kind,
        spec: spec.as_ref(),
        collection,
        schedule,
        credentials,
        max_retries,
        timeout,
        suspend,
        drift_policy,
        max_documents,
        max_bytes,
        owner,
    };
    let mut errors = DefinitionErrors::default();
    definition::create(&arguments, &mut errors)?;
    Ok(raise(name, errors)?)
}

/// # Errors
/// The definition has errors.
fn raise(name: Option<&str>, errors: DefinitionErrors) -> Result<(), Error> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = name
        .unwrap_or_default()
        .chars()
        .take(80)
        .collect::<String>();
    Err(errors
        .in_arguments()
        .to_error(format!("invalid definition of source \"{name}\"")))
}

#[pg_extern]
#[allow(clippy::too_many_arguments)] // the function's signature in SQL
fn rag_alter_source(
    name: Option<&str>,
    kind: pgrx::default!(Option<&str>, "NULL"),
    spec: pgrx::default!(Option<JsonbText>, "NULL"),
    collection: pgrx::default!(Option<&str>, "NULL"),
    schedule: pgrx::default!(Option<&str>, "NULL"),
    credentials: pgrx::default!(Option<&str>, "NULL"),
    max_retries: pgrx::default!(Option<i32>, "NULL"),
    timeout: pgrx::default!(Option<Interval>, "NULL"),
    suspend: pgrx::default!(Option<bool>, "NULL"),
    drift_policy: pgrx::default!(Option<&str>, "NULL"),
    owner: pgrx::default!(Option<&str>, "NULL"),
    max_documents: pgrx::default!(Option<i64>, "NULL"),
    max_bytes: pgrx::default!(Option<i64>, "NULL"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_alter_source()");
    let spec = parsed("spec", spec)?;
    let arguments = SourceArguments {
        name,
        kind,
        spec: spec.as_ref(),
        collection,
        schedule,
        credentials,
        max_retries,
        timeout,
        suspend,
        drift_policy,
        max_documents,
        max_bytes,
        owner,
    };
    let mut errors = DefinitionErrors::default();
    alter(&arguments, &mut errors)?;
    Ok(raise(name, errors)?)
}

#[pg_extern]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_validate_source(
    kind: Option<&str>,
    spec: Option<JsonbText>,
    schedule: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
    credentials: pgrx::default!(Option<&str>, "NULL"),
    max_retries: pgrx::default!(Option<i32>, "3"),
    timeout: pgrx::default!(Option<Interval>, "'1 hour'"),
    name: pgrx::default!(Option<&str>, "NULL"),
    drift_policy: pgrx::default!(Option<&str>, "'auto'"),
    owner: pgrx::default!(Option<&str>, "NULL"),
    max_documents: pgrx::default!(Option<i64>, "NULL"),
    max_bytes: pgrx::default!(Option<i64>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(field, String),
            name!(problem, String),
            name!(hint, Option<String>),
            name!(severity, String),
        ),
    >,
    ErrorReport,
> {
    roles::require_admin("validate the definition of a source")?;
    let spec = parsed("spec", spec)?;
    let arguments = SourceArguments {
        name,
        kind,
        spec: spec.as_ref(),
        collection,
        schedule,
        credentials,
        max_retries,
        timeout,
        suspend: Some(false),
        drift_policy,
        max_documents,
        max_bytes,
        owner,
    };
    let mut errors = DefinitionErrors::default();
    definition::validate(&arguments, &mut errors)?;
    let warnings = errors
        .take_warnings()
        .into_iter()
        .map(|problem| (problem, "warning"));
    let errors = errors
        .in_arguments()
        .into_problems()
        .into_iter()
        .map(|problem| (problem, "error"));
    Ok(TableIterator::new(errors.chain(warnings).map(
        |(problem, severity)| {
            let message = problem.message.clone();
            (problem.field, message, problem.hint, severity.to_owned())
        },
    )))
}

#[pg_extern]
fn rag_suspend(name: &str) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_suspend()");
    Ok(timing::suspend(canonical(name))?)
}

#[pg_extern]
fn rag_resume(name: &str) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_resume()");
    Ok(timing::resume(canonical(name))?)
}

#[pg_extern]
fn rag_rename_source(name: Option<&str>, new_name: Option<&str>) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_rename_source()");
    Ok(rename::rename_source(
        required("name", name)?,
        required("new_name", new_name)?,
    )?)
}

#[pg_extern]
fn rag_drop_source(
    name: &str,
    keep_documents: pgrx::default!(bool, "true"),
    if_exists: pgrx::default!(bool, "false"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_drop_source()");
    if explained(|| drop_source(name, keep_documents))? {
        return Ok(());
    }
    if if_exists {
        pgrx::notice!("source \"{name}\" does not exist, skipping");
        return Ok(());
    }
    Err(Source::missing(name).into())
}

/// Returns the comment of `rag.sources.kind`, for the install script.
#[pg_extern(sql = false)]
fn source_kinds_comment() -> String {
    rag_definition::source::kinds_comment()
}
