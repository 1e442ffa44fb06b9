//! Sources: create, drop.

use pgrx::{JsonB, datum::Interval, pg_extern, pg_sys::panic::ErrorReport};
use rag_protocol::spec::{SourceSpec, TableSpec, TableSync};

use super::required;
use crate::{
    catalog::{
        collections::Collection,
        conditions::Changes,
        documents,
        name::Name,
        roles,
        sources::{self, DriftPolicy, NewSource, Source},
        table::{changes, relation::Relation, rows::Rows},
    },
    error::Error,
    schedule, secrets,
    workers::{
        hooks,
        lock::Lock,
        runner::{self, rights, session},
    },
};

#[pg_extern]
fn rag_create_source(
    name: Option<&str>,
    kind: Option<&str>,
    spec: Option<JsonB>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    credentials: pgrx::default!(Option<&str>, "NULL"),
    timeout: pgrx::default!(Option<Interval>, "'1 hour'"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_create_source()", "create a source")?;
    let name = Name::parse("source", required("name", name)?)?;
    let (kind, spec) = (required("kind", kind)?, required("spec", spec)?);
    let timeout = required("timeout", timeout)?;
    let parsed =
        SourceSpec::parse(kind, &spec.0).map_err(|p| Error::invalid_spec(&format!("source \"{name}\""), &p))?;
    let collection = Collection::get(required("collection", collection)?)?;
    if timeout.as_micros() < 1_000_000 {
        return Err(Error::invalid_parameter("timeout must be at least 1 second").into());
    }
    rights::check(&parsed, roles::current())?;
    if let Some(secret) = credentials {
        secrets::check_use(secret, &parsed, roles::current())?;
    }
    let owner = roles::current_name()?;
    let table = match parsed {
        SourceSpec::Table(spec) => Some(NewTable::of(spec)?),
        _ => None,
    };
    let spec = table.as_ref().map_or(spec, |table| JsonB(table.spec.to_json()));
    sources::create(NewSource {
        name: &name,
        kind,
        spec,
        collection: collection.name.as_str(),
        owner: &owner,
        credentials,
        credentials_key: None,
        schedule: None,
        max_retries: 3,
        timeout,
        suspend: false,
        drift_policy: DriftPolicy::Auto,
        next_run: schedule::next_run(None, false)?,
        conditions: Changes::at(1),
    })?;
    hooks::wake_scheduler_at_commit();
    Ok(table.map_or(Ok(()), |table| table.prepare(&name))?)
}

/// A table or view that is to become a source.
struct NewTable {
    relation: Relation,
    /// With all that the user left out.
    spec: TableSpec,
    rows: Rows,
}

impl NewTable {
    /// Picks what the user left out and tries whether the rows can be read.
    fn of(given: TableSpec) -> Result<Self, Error> {
        let relation = Relation::find(&given.relation)?;
        let spec = relation.complete(given.clone())?;
        let rows = Rows::new(&relation, &spec, roles::current())?;
        rows.check()?;
        let list = |columns: &[String]| columns.join(", ");
        let mut picked = vec![];
        if given.id_columns.is_empty() {
            picked.push(format!("rows by {}", list(&spec.id_columns)));
        }
        if given.content_columns.is_empty() {
            picked.push(format!("text from {}", list(&spec.content_columns)));
        }
        if let (None, Some(title)) = (&given.title_column, &spec.title_column) {
            picked.push(format!("titles from {title}"));
        }
        if !picked.is_empty() {
            pgrx::notice!("{}: {}", spec.relation, picked.join(", "));
        }
        Ok(Self { relation, spec, rows })
    }

    /// Installs the triggers, where changes are to be noted by such.
    fn prepare(&self, source: &Name) -> Result<(), Error> {
        // a run of a dropped source of this name may have left something
        changes::forget(source)?;
        match self.spec.sync {
            TableSync::Scan => Ok(()),
            TableSync::Trigger => {
                let arguments = runner::table::arguments(source.as_str(), &self.spec, &self.rows)?;
                changes::create_triggers(source, &self.relation, &arguments)
            }
        }
    }
}

#[pg_extern]
fn rag_drop_source(
    name: &str,
    keep_documents: pgrx::default!(bool, "true"),
    if_exists: pgrx::default!(bool, "false"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_drop_source()", "drop a source")?;
    let Some(source) = Source::find(name)? else {
        if if_exists {
            pgrx::notice!("source \"{name}\" does not exist, skipping");
            return Ok(());
        }
        return Err(Source::missing(name).into());
    };
    end_runs(&source.name)?;
    if matches!(source.spec, SourceSpec::Table(_)) {
        changes::forget(&source.name)?;
    }
    sources::drop(&source.name)?;
    if !keep_documents {
        let ids = documents::of_source(&source.collection, source.name.as_str())?;
        documents::delete_for_good(&source.collection, &ids)?;
    }
    Ok(())
}

/// Has the run of a source that is about to be dropped stop, and keeps others from beginning until the transaction's end.
fn end_runs(source: &Name) -> Result<(), Error> {
    if !Lock::source_going(source).take_for_transaction() {
        return Err(Error::in_use(format!("source \"{source}\" is being dropped by another session")));
    }
    let at_work = Lock::source_at_work(source);
    if !at_work.take_for_transaction() {
        pgrx::warning!("source \"{source}\" is being synced: its run is asked to stop");
        session::cancel(source)?;
        at_work.wait_and_take_for_transaction();
    }
    Ok(())
}

/// The source of this name, which the caller may sync, suspend and cancel.
///
/// # Errors
/// The server is a standby (raised as Postgres does it), there is no such source, or the caller may not.
pub fn manageable(function: &std::ffi::CStr, name: &str, to_do: &str) -> Result<Source, Error> {
    super::prevent_on_standby(function);
    let found = Source::find(name)?;
    if found.is_none() {
        roles::require_admin(to_do)?;
    }
    let source = found.ok_or_else(|| Source::missing(name))?;
    check_manageable(&source, to_do)?;
    Ok(source)
}

/// # Errors
/// The caller is neither a member of rag_admin nor of the source's owner.
pub fn check_manageable(source: &Source, to_do: &str) -> Result<(), Error> {
    if roles::may_act_for(roles::current(), &source.owner) {
        return Ok(());
    }
    roles::require_admin(to_do)
}
