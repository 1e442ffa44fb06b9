//! Sources: create, alter, suspend, drop, and whether a definition is right.

use pgrx::{
    JsonB, datum::Interval, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport,
};

use crate::{
    catalog::{
        access,
        collections::Collection,
        documents,
        name::{Name, canonical},
        runs,
        sources::{self, Source},
    },
    cluster::{lock::Lock, news},
    engine::clones,
    error::Error,
    pg::{roles, snapshot::fresh},
    run::session,
    source::{
        definition::{self, Faults, Given},
        table::changes,
    },
};

#[pg_extern]
#[allow(clippy::too_many_arguments)] // a source's
fn rag_create_source(
    name: Option<&str>,
    kind: Option<&str>,
    spec: Option<JsonB>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    schedule: pgrx::default!(Option<&str>, "NULL"),
    credentials: pgrx::default!(Option<&str>, "NULL"),
    max_retries: pgrx::default!(Option<i32>, "3"),
    timeout: pgrx::default!(Option<Interval>, "'1 hour'"),
    suspend: pgrx::default!(Option<bool>, "false"),
    drift_policy: pgrx::default!(Option<&str>, "'auto'"),
    owner: pgrx::default!(Option<&str>, "NULL"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_create_source()", "create a source")?;
    let spec = spec.map(|spec| spec.0);
    let given = Given {
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
        owner,
    };
    let mut faults = Faults::default();
    definition::create(&given, &mut faults)?;
    Ok(refuse(name, faults)?)
}

/// # Errors
/// There are faults.
fn refuse(name: Option<&str>, faults: Faults) -> Result<(), Error> {
    if faults.is_empty() {
        return Ok(());
    }
    let name = name
        .unwrap_or_default()
        .chars()
        .take(80)
        .collect::<String>();
    Err(faults
        .in_arguments()
        .to_error(format!("invalid definition of source \"{name}\"")))
}

#[pg_extern]
#[allow(clippy::too_many_arguments)] // a source's
fn rag_alter_source(
    name: Option<&str>,
    kind: pgrx::default!(Option<&str>, "NULL"),
    spec: pgrx::default!(Option<JsonB>, "NULL"),
    collection: pgrx::default!(Option<&str>, "NULL"),
    schedule: pgrx::default!(Option<&str>, "NULL"),
    credentials: pgrx::default!(Option<&str>, "NULL"),
    max_retries: pgrx::default!(Option<i32>, "NULL"),
    timeout: pgrx::default!(Option<Interval>, "NULL"),
    suspend: pgrx::default!(Option<bool>, "NULL"),
    drift_policy: pgrx::default!(Option<&str>, "NULL"),
    owner: pgrx::default!(Option<&str>, "NULL"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_alter_source()");
    let spec = spec.map(|spec| spec.0);
    let given = Given {
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
        owner,
    };
    let mut faults = Faults::default();
    definition::alter(&given, &mut faults)?;
    Ok(refuse(name, faults)?)
}

#[pg_extern]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // a source's; the columns of the result
fn rag_validate_source(
    kind: Option<&str>,
    spec: Option<JsonB>,
    schedule: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
    credentials: pgrx::default!(Option<&str>, "NULL"),
    max_retries: pgrx::default!(Option<i32>, "3"),
    timeout: pgrx::default!(Option<Interval>, "'1 hour'"),
    name: pgrx::default!(Option<&str>, "NULL"),
    drift_policy: pgrx::default!(Option<&str>, "'auto'"),
    owner: pgrx::default!(Option<&str>, "NULL"),
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
    let spec = spec.map(|spec| spec.0);
    let given = Given {
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
        owner,
    };
    let mut faults = Faults::default();
    definition::validate(&given, &mut faults);
    let warnings = faults
        .take_warnings()
        .into_iter()
        .map(|problem| (problem, "warning"));
    let errors = faults
        .in_arguments()
        .into_problems()
        .into_iter()
        .map(|problem| (problem, "error"));
    Ok(TableIterator::new(errors.chain(warnings).map(
        |(problem, severity)| {
            (
                problem.field,
                problem.problem,
                problem.hint,
                severity.to_owned(),
            )
        },
    )))
}

#[pg_extern]
fn rag_suspend(name: &str) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_suspend()");
    Ok(definition::suspend(canonical(name))?)
}

#[pg_extern]
fn rag_resume(name: &str) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_resume()");
    Ok(definition::resume(canonical(name))?)
}

#[pg_extern]
fn rag_drop_source(
    name: &str,
    keep_documents: pgrx::default!(bool, "true"),
    if_exists: pgrx::default!(bool, "false"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_drop_source()");
    if drop_source(name, keep_documents)? {
        return Ok(());
    }
    if if_exists {
        pgrx::notice!("source \"{name}\" does not exist, skipping");
        return Ok(());
    }
    Err(Source::missing(name).into())
}

/// Drops a source; whether there was one.
///
/// # Errors
/// The caller may not.
pub fn drop_source(name: &str, keep_documents: bool) -> Result<bool, Error> {
    const TO_DO: &str = "drop a source";
    let name = canonical(name);
    let Some(source) = Source::find(name)? else {
        access::require_source_manager(None, TO_DO)?;
        return Ok(false);
    };
    check_manageable(&source, TO_DO)?;
    end_runs(&source.name)?;
    // it may have been dropped, given to another owner, or a table be read since
    let Some(source) = definition::lock(name, TO_DO)? else {
        return Ok(false);
    };
    // a run that had to be stopped has announced it
    if !fresh(|| runs::was_stopped(name))? {
        sources::announce_going(name)?;
    }
    changes::forget(
        &source.name,
        source.relation.map(|relation| relation.relation),
    )?;
    if keep_documents {
        documents::detach(name)?;
    } else {
        // in whatever collections: it may have been altered, and not synced since
        for (collection, ids) in documents::by_collection(name, None)? {
            access::require_write(&Collection::get(&collection)?)?;
            documents::delete_for_good(&collection, &ids)?;
        }
    }
    if let Some(uid) = sources::drop(&source.name)? {
        clones::forget_source_at_commit(uid);
    }
    news::wake_scheduler_at_commit();
    Ok(true)
}

/// Has the run of a source that is about to be dropped stop, and keeps others from beginning until
/// the transaction's end.
fn end_runs(source: &Name) -> Result<(), Error> {
    if !Lock::source_going(source).take_for_transaction_patiently() {
        return Err(Error::in_use(format!(
            "source \"{source}\" is being dropped by another session"
        )));
    }
    let at_work = Lock::source_at_work(source);
    if !at_work.take_for_transaction_patiently() {
        pgrx::warning!("source \"{source}\" is being synced: its run is asked to stop");
        session::cancel(source)?;
        at_work.wait_and_take_for_transaction();
    }
    Ok(())
}

/// The source of this name, which the caller may sync, suspend and cancel.
///
/// # Errors
/// The server is a standby (raised as Postgres does it), there is no such source, or the caller may
/// not.
pub fn manageable(function: &std::ffi::CStr, name: &str, to_do: &str) -> Result<Source, Error> {
    super::prevent_on_standby(function);
    let found = Source::find(canonical(name))?;
    access::require_source_manager(
        found
            .as_ref()
            .map(|source| (&source.owner, source.collection.as_str())),
        to_do,
    )?;
    found.ok_or_else(|| Source::missing(name))
}

/// # Errors
/// The caller may not manage the source: [`access::require_source_manager`].
pub fn check_manageable(source: &Source, to_do: &str) -> Result<(), Error> {
    access::require_source_manager(Some((&source.owner, &source.collection)), to_do)
}
