//! Runs of sources: start, wait, cancel.

use std::time::Duration;

use pgrx::{datum::Interval, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use crate::{
    catalog::{
        name::canonical,
        runs::{self, Trigger},
        sources::{self, Source},
    },
    cluster::{
        self,
        lock::{self, Lock},
        news, slots,
    },
    error::Error,
    pg::{
        roles,
        snapshot::{fresh, snapshot_is_fixed},
        subtransaction::glance,
    },
    run::{
        end::{self, Cause, Ended},
        session::{self, Wanted},
    },
};

#[pg_extern]
fn rag_sync(name: &str, wait: pgrx::default!(bool, "true")) -> Result<i64, ErrorReport> {
    let name = canonical(name);
    let source = glance(|| super::source::manageable(c"rag_sync()", name, "sync a source"))?;
    if !wait {
        return Ok(ask_for_run(&source)?);
    }
    check_committed(&source)?;
    check_snapshot(c"rag_sync")?;
    lock::check_not_going(&source.name)?;
    let queued = glance(|| runs::active(name))?.filter(|run| run.is_pending);
    session::wait_for_check(&source.name, None)?;
    let wanted = match (queued, glance(|| runs::active(name))?) {
        (Some(run), _) => Wanted::Queued(run.run_id),
        (None, Some(run)) if run.is_pending => Wanted::Queued(run.run_id),
        (None, Some(run)) if !Lock::source_at_work(&source.name).is_free() => {
            // that of a source that has just been made
            if run.trigger == "create" {
                pgrx::notice!(
                    "{name}: run {}, which began when the source was made, is under way",
                    run.run_id
                );
                Wanted::Queued(run.run_id)
            } else {
                return Err(session::at_work(&source.name, Some(run.run_id)).into());
            }
        }
        _ => Wanted::New(runs::next_id()?),
    };
    let (run_id, status) =
        session::run(&source.name, wanted, |status| tell_progress(name, status))?;
    tell_end(name, run_id, status)?;
    Ok(run_id)
}

/// Asks for a run that nobody waits for: queued for the scheduler, or, where there is none, begun
/// at once.
fn ask_for_run(source: &Source) -> Result<i64, Error> {
    let name = source.name.as_str();
    lock::check_not_going(&source.name)?;
    if cluster::are_scheduling() {
        if let Some(run_id) = runs::queue(name, Trigger::Manual)? {
            news::wake_scheduler_at_commit();
            return Ok(run_id);
        }
        return match runs::active(name)? {
            Some(run) if run.is_pending => {
                // it may have rested because the source is suspended
                news::wake_scheduler_at_commit();
                pgrx::notice!("run {} of source \"{name}\" is queued already", run.run_id);
                Ok(run.run_id)
            }
            run => Err(session::at_work(&source.name, run.map(|run| run.run_id))),
        };
    }
    check_committed(source)?;
    if !snapshot_is_fixed() {
        // not for ever: other sources may be to come
        session::wait_for_check(&source.name, Some(session::PATIENCE))?;
    }
    let active = glance(|| runs::active(name))?;
    if let Some(run) = active
        .as_ref()
        .filter(|run| run.is_pending && !Lock::scheduler().is_free())
    {
        // the scheduler that was started for new sources does it
        pgrx::notice!("run {} of source \"{name}\" is queued already", run.run_id);
        return Ok(run.run_id);
    }
    if active.as_ref().is_none_or(|run| run.is_pending) && slots::are_taken() {
        return Err(session::no_slot());
    }
    // one may be left from a time with a scheduler
    match active {
        Some(run) if run.is_pending => session::begin(&source.name, Wanted::Queued(run.run_id)),
        run if !Lock::source_at_work(&source.name).is_free() => {
            Err(session::at_work(&source.name, run.map(|run| run.run_id)))
        }
        _ => session::begin(&source.name, Wanted::New(runs::next_id()?)),
    }
}

/// # Errors
/// The run's process would not see the source.
fn check_committed(source: &Source) -> Result<(), Error> {
    if !source.uncommitted {
        return Ok(());
    }
    Err(Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!("source \"{}\" was made, changed or locked in this transaction, which is not committed", source.name),
    )
    .detail("The run is another process's, which sees only what is committed, and waits for nobody's locks.")
    .hint("COMMIT first, then call rag_sync."))
}

/// # Errors
/// The session could not see what the run does.
fn check_snapshot(function: &std::ffi::CStr) -> Result<(), Error> {
    if !snapshot_is_fixed() {
        return Ok(());
    }
    let function = function.to_string_lossy();
    Err(Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!("{function} cannot wait in a transaction whose snapshot is fixed"),
    )
    .detail("It could not see what the run does.")
    .hint("Use isolation level READ COMMITTED, or wait => false."))
}

fn tell_progress(source: &str, status: &runs::Status) {
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

/// Says what the run did. A failed run is an error of the command that waited for it.
fn tell_end(source: &str, run_id: i64, status: runs::Status) -> Result<(), Error> {
    if let Some(error) = status.error {
        let context = format!("Run {run_id} of source \"{source}\" failed.");
        let detail = error
            .detail
            .as_ref()
            .map_or_else(|| context.clone(), |detail| format!("{context} {detail}"));
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
    if let Some(note) = status.note {
        pgrx::notice!("{source}: {note}");
    }
    if c.with_warnings > 0 {
        pgrx::notice!(
            "{source}: {} documents were indexed with warnings; see rag.run_errors",
            c.with_warnings
        );
    }
    if c.failed > 0 {
        pgrx::warning!(
            "{source}: {} documents could not be indexed; see rag.run_errors",
            c.failed
        );
    }
    Ok(())
}

#[pg_extern]
fn rag_sync_all(
    collection: pgrx::default!(Option<&str>, "NULL"),
) -> Result<TableIterator<'static, (name!(source, String), name!(run_id, i64))>, ErrorReport> {
    super::prevent_on_standby(c"rag_sync_all()");
    let mut asked = vec![];
    for name in sources::names_of(collection)? {
        // one that cannot be synced does not keep the others from it
        let run = Source::get(&name).and_then(|source| {
            match super::source::check_manageable(&source, "sync a source") {
                Ok(()) => ask_for_run(&source).map(Some),
                Err(_) => Ok(None),
            }
        });
        match run {
            Ok(Some(run_id)) => asked.push((name, run_id)),
            Ok(None) => {}
            Err(error) if error.code == pgrx::PgSqlErrorCode::ERRCODE_OBJECT_IN_USE => {
                pgrx::notice!("{error}")
            }
            Err(error) => pgrx::warning!("source \"{name}\" is not synced: {error}"),
        }
    }
    Ok(TableIterator::new(asked))
}

#[pg_extern]
fn rag_cancel_run(run_id: i64) -> Result<bool, ErrorReport> {
    super::prevent_on_standby(c"rag_cancel_run()");
    let (source, status) = find(run_id, "cancel a run")?;
    let status = match status.phase.as_str() {
        // nobody begins it from here on
        "Pending" => {
            sources::lock(source.name.as_str())?;
            fresh(|| runs::status(run_id))?.ok_or_else(|| missing(run_id))?
        }
        _ => status,
    };
    match status.phase.as_str() {
        "Pending" => {
            let error = Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_QUERY_CANCELED,
                "the run was cancelled before it began",
            );
            end::finish(Ended {
                run_id,
                generation: source.generation,
                source: &source,
                outcome: Err(&error),
                cause: Cause::Cancelled,
                commit: None,
                complete: false,
                note: None,
                failed: 0,
                with_warnings: 0,
                drift: None,
            })?;
            Ok(true)
        }
        "Running" => Ok(session::cancel(&source.name)?),
        _ => Ok(false),
    }
}

#[pg_extern]
fn rag_wait(
    run_id: i64,
    timeout: pgrx::default!(Option<Interval>, "NULL"),
) -> Result<String, ErrorReport> {
    check_snapshot(c"rag_wait")?;
    // what is longer than Duration takes is as good as for ever
    let timeout =
        timeout.map(|timeout| u64::try_from(timeout.as_micros().max(0)).unwrap_or(u64::MAX));
    let timeout = timeout.map(Duration::from_micros);
    let (source, status) = glance(|| find(run_id, "wait for a run"))?;
    if !status.has_ended() && (status.uncommitted || source.uncommitted) {
        return Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
            format!(
                "run {run_id} cannot begin or end before this transaction has, which queued it or has its source locked"
            ),
        )
        .detail(
            "It is carried out by another process, which sees only what is committed, and waits for nobody's locks.",
        )
        .hint("COMMIT first, then call rag_wait; or call rag_sync, which waits by itself.")
        .into());
    }
    let status = session::wait_for(run_id, timeout, |status| {
        tell_progress(&status.source, status)
    })?;
    Ok(status.ok_or_else(|| missing(run_id))?.phase)
}

/// A run's source, and how the run stands.
///
/// # Errors
/// There is no such run, or the caller may not. Who manages no sources is not told which of the
/// two.
fn find(run_id: i64, to_do: &str) -> Result<(Source, runs::Status), Error> {
    let Some(status) = fresh(|| runs::status(run_id))? else {
        roles::require_admin(to_do)?;
        return Err(missing(run_id));
    };
    let source = Source::get(&status.source)?;
    super::source::check_manageable(&source, to_do)?;
    Ok((source, status))
}

fn missing(run_id: i64) -> Error {
    Error::undefined(format!("run {run_id} does not exist")).hint(
        "rag.runs lists them; old runs are deleted (rag.successful_runs_history_limit, rag.failed_runs_history_limit).",
    )
}
