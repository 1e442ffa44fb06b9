//! Sources: create, drop, sync.

use pgrx::{JsonB, datum::Interval, pg_extern, pg_sys::panic::ErrorReport};
use rag_protocol::spec::{SourceSpec, TableSpec, TableSync};

use super::required;
use crate::{
    catalog::{
        collections::Collection,
        documents,
        name::Name,
        roles, runs,
        sources::{self, NewSource, Source},
        table::{changes, relation::Relation, rows::Rows},
    },
    error::Error,
    secrets,
    workers::runner,
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
    runner::check_rights(&parsed, roles::current())?;
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
        timeout,
    })?;
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
    if matches!(source.spec, SourceSpec::Table(_)) {
        changes::forget(&source.name)?;
    }
    sources::drop(&source.name)?;
    if !keep_documents {
        let ids = documents::of_source(&source.collection, source.name.as_str())?;
        documents::delete(&source.collection, &ids)?;
    }
    Ok(())
}

#[pg_extern]
fn rag_sync(name: &str, wait: pgrx::default!(bool, "true")) -> Result<i64, ErrorReport> {
    super::require_writer(c"rag_sync()", "sync a source")?;
    let source = Source::get(name)?;
    if source.uncommitted {
        return Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
            format!("source \"{name}\" was made or changed in this transaction and is not committed"),
        )
        .detail("The run is another process's, which sees only what is committed.")
        .hint("COMMIT first, then call rag_sync.")
        .into());
    }
    if wait && runner::snapshot_is_fixed() {
        return Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
            "rag_sync cannot wait in a transaction whose snapshot is fixed",
        )
        .detail("It could not see what the run does.")
        .hint("Use isolation level READ COMMITTED, or wait => false.")
        .into());
    }
    if runner::lock_source(&source.name)? {
        runner::unlock_source(&source.name)?;
    } else {
        return Err(Error::in_use(format!("source \"{name}\" is being synced by another session"))
            .hint("rag.progress shows how far it is.")
            .into());
    }
    let run_id = runs::next_id()?;
    let worker = runner::start(&source.name, run_id)?;
    if wait {
        let status = runner::wait_for(worker, &source.name, run_id, |status| tell_progress(name, status))?;
        tell_end(name, run_id, status)?;
    }
    Ok(run_id)
}

fn tell_progress(source: &str, status: &runs::Status) {
    let counts = &status.counts;
    let total = counts.total.map_or_else(String::new, |total| format!(" of {total}"));
    pgrx::notice!("{source}: {}{total} documents done, {} chunks written", counts.done(), counts.chunks_written);
}

/// Says what the run did. A failed run is an error of the command that waited for it.
fn tell_end(source: &str, run_id: i64, status: runs::Status) -> Result<(), Error> {
    if let Some(error) = status.error {
        let context = format!("Run {run_id} of source \"{source}\" failed.");
        let detail = error.detail.as_ref().map_or_else(|| context.clone(), |detail| format!("{context} {detail}"));
        return Err(error.detail(detail));
    }
    let c = status.counts;
    pgrx::notice!(
        "{source}: {} added, {} updated, {} deleted, {} unchanged; {} chunks written, {} of them embedded anew",
        c.added,
        c.updated,
        c.deleted,
        c.unchanged,
        c.chunks_written,
        c.chunks_embedded
    );
    if c.failed > 0 {
        pgrx::warning!("{source}: {} documents could not be indexed; see rag.run_errors", c.failed);
    }
    Ok(())
}
