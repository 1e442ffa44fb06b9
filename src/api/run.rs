//! Runs of sources: start, wait, cancel.

use std::time::Duration;

use pgrx::{datum::Interval, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::{
    catalog::{name::canonical, runs},
    error::Error,
    pg::transaction::read_without_keeping_locks,
    run::request,
    source::manage,
};

#[pg_extern]
fn rag_sync(name: &str, wait: pgrx::default!(bool, "true")) -> Result<i64, ErrorReport> {
    let name = canonical(name);
    super::prevent_on_standby(c"rag_sync()");
    let source = read_without_keeping_locks(|| manage::find(name, "sync a source"))?;
    if !wait {
        return Ok(request::queue_or_start(&source)?);
    }
    let (run_id, status) = request::sync(&source, |status| report_progress(name, status))?;
    report_end(name, run_id, status)?;
    Ok(run_id)
}

fn report_progress(source: &str, status: &runs::RunStatus) {
    let counts = &status.counts;
    let total = counts
        .total
        .map_or_else(String::new, |total| format!(" of {total}"));
    pgrx::notice!(
        "{source}: {}{total} documents done, {} chunks written",
        counts.done(),
        counts.chunks_written
    );
}

/// Reports the result of a run.
///
/// # Errors
/// The run failed.
fn report_end(source: &str, run_id: i64, status: runs::RunStatus) -> Result<(), Error> {
    if let Some(error) = status.error {
        let context = format!("Run {run_id} of source \"{source}\" failed.");
        let detail = error
            .detail
            .as_ref()
            .map_or_else(|| context.clone(), |detail| format!("{context} {detail}"));
        return Err(error.detail(detail));
    }
    let counts = status.counts;
    pgrx::notice!(
        "{source}: {} added, {} updated, {} deleted, {} unchanged; {} chunks written, {} of them \
         embedded",
        counts.added,
        counts.updated,
        counts.deleted,
        counts.unchanged,
        counts.chunks_written,
        counts.chunks_embedded
    );
    if let Some(note) = status.note {
        pgrx::notice!("{source}: {note}");
    }
    if counts.with_warnings > 0 {
        pgrx::notice!(
            "{source}: {} documents were indexed with warnings; see rag.run_errors",
            counts.with_warnings
        );
    }
    if counts.failed > 0 {
        pgrx::warning!(
            "{source}: {} documents could not be indexed; see rag.run_errors",
            counts.failed
        );
    }
    Ok(())
}

#[pg_extern]
fn rag_sync_all(
    collection: pgrx::default!(Option<&str>, "NULL"),
) -> Result<TableIterator<'static, (name!(source, String), name!(run_id, i64))>, ErrorReport> {
    super::prevent_on_standby(c"rag_sync_all()");
    Ok(TableIterator::new(request::queue_or_start_all(collection)?))
}

#[pg_extern]
fn rag_cancel_run(run_id: i64) -> Result<bool, ErrorReport> {
    super::prevent_on_standby(c"rag_cancel_run()");
    Ok(request::cancel(run_id)?)
}

#[pg_extern]
fn rag_wait(
    run_id: Option<i64>,
    timeout: pgrx::default!(Option<Interval>, "NULL"),
) -> Result<String, ErrorReport> {
    let run_id = required("run_id", run_id)?;
    // a timeout that does not fit a Duration is as good as none
    let timeout = timeout.map(|timeout| {
        Duration::from_micros(u64::try_from(timeout.as_micros().max(0)).unwrap_or(u64::MAX))
    });
    let status = request::wait(run_id, timeout, |status| {
        report_progress(&status.source, status)
    })?;
    Ok(status.phase.name().to_string())
}
