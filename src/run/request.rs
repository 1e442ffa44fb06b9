//! Requests of sessions: sync sources, wait for runs, cancel runs.

use std::time::Duration;

use crate::{
    catalog::{
        collections::Collection,
        runs::{self, Phase, Trigger},
        sources::{self, Source},
    },
    cluster::{
        self,
        lock::{self, Lock},
        news, slots,
    },
    collection::rights,
    error::{Cause, Error},
    pg::{
        roles,
        spi::as_owner,
        transaction::{read_without_keeping_locks, snapshot_is_fixed, with_latest_snapshot},
        version,
    },
    run::{
        end::{self, EndCause, RunEnd},
        session::{self, RequestedRun},
    },
};

/// Runs a source, or waits for its queued run. Returns the run and its status at the end.
///
/// # Errors
/// The session cannot wait for a run of the source, or the run could not be started.
pub fn sync(
    source: &Source,
    report: impl FnMut(&runs::RunStatus),
) -> Result<(i64, runs::RunStatus), Error> {
    let name = source.name.as_str();
    check_committed(source)?;
    check_snapshot("rag_sync")?;
    version::require_equal()?;
    lock::check_not_being_dropped(&source.name)?;
    let queued = read_without_keeping_locks(|| as_owner(|owner| runs::active(owner, name)))?
        .filter(|run| run.is_pending());
    session::wait_while_checked(&source.name, None)?;
    let wanted = match (
        queued,
        read_without_keeping_locks(|| as_owner(|owner| runs::active(owner, name)))?,
    ) {
        (Some(run), _) => RequestedRun::Queued(run.run_id),
        (None, Some(run)) if run.is_pending() => RequestedRun::Queued(run.run_id),
        (None, Some(run)) if !Lock::source_busy(&source.name).is_free() => {
            // the first run of a new source does what was asked for
            if run.trigger != Trigger::Create {
                return Err(session::busy_error(&source.name, Some(run.run_id)));
            }
            pgrx::notice!(
                "{name}: waiting for run {}, which started when the source was created",
                run.run_id
            );
            RequestedRun::Queued(run.run_id)
        }
        _ => RequestedRun::New(as_owner(runs::next_id)?),
    };
    session::run(&source.name, wanted, report)
}

/// Requests a run without waiting for its end: queues it for the scheduler, or starts it if there
/// is no scheduler. Returns the run, which may have been queued before.
///
/// # Errors
/// Another run of the source is running, or no slot is free.
pub fn queue_or_start(source: &Source) -> Result<i64, Error> {
    let name = source.name.as_str();
    lock::check_not_being_dropped(&source.name)?;
    if cluster::are_scheduling() {
        if let Some(run_id) = as_owner(|owner| runs::queue(owner, name, Trigger::Manual))? {
            news::wake_scheduler_at_commit();
            return Ok(run_id);
        }
        return match as_owner(|owner| runs::active(owner, name))? {
            Some(run) if run.is_pending() => {
                // the scheduler skips queued runs of a suspended source until it is woken
                news::wake_scheduler_at_commit();
                notice_queued(name, run.run_id);
                Ok(run.run_id)
            }
            run => Err(session::busy_error(&source.name, run.map(|run| run.run_id))),
        };
    }
    check_committed(source)?;
    if !snapshot_is_fixed() {
        // with a limit, because the caller may request runs of other sources
        session::wait_while_checked(&source.name, Some(session::MAX_WAIT_FOR_CHECK))?;
    }
    let active = read_without_keeping_locks(|| as_owner(|owner| runs::active(owner, name)))?;
    if let Some(run) = active
        .as_ref()
        .filter(|run| run.is_pending() && !Lock::scheduler().is_free())
    {
        // a scheduler that was started for new sources carries it out
        notice_queued(name, run.run_id);
        return Ok(run.run_id);
    }
    if active.as_ref().is_none_or(|run| run.is_pending()) && slots::are_all_taken() {
        return Err(session::no_free_slot());
    }
    match active {
        // left by a scheduler that no longer runs
        Some(run) if run.is_pending() => {
            session::begin(&source.name, RequestedRun::Queued(run.run_id))
        }
        run if !Lock::source_busy(&source.name).is_free() => {
            Err(session::busy_error(&source.name, run.map(|run| run.run_id)))
        }
        _ => session::begin(&source.name, RequestedRun::New(as_owner(runs::next_id)?)),
    }
}

fn notice_queued(source: &str, run_id: i64) {
    pgrx::notice!("run {run_id} of source \"{source}\" is already queued");
}

/// Requests runs of all sources that the caller may sync, or of those of one collection. Returns
/// the sources with their runs. A source that fails does not affect the others.
///
/// # Errors
/// The collection does not exist.
pub fn queue_or_start_all(collection: Option<&str>) -> Result<Vec<(String, i64)>, Error> {
    if let Some(collection) = collection {
        Collection::get(collection)?;
    }
    let mut requested = vec![];
    for name in as_owner(|owner| sources::names_of(owner, collection))? {
        let run = Source::get(&name).and_then(|source| {
            if check_manager(&source, "sync a source").is_err() {
                return Ok(None);
            }
            queue_or_start(&source).map(Some)
        });
        match run {
            Ok(Some(run_id)) => requested.push((name, run_id)),
            Ok(None) => {}
            Err(error) if error.is(Cause::InUse) => {
                pgrx::notice!("{error}")
            }
            Err(error) => pgrx::warning!("source \"{name}\" is not synced: {error}"),
        }
    }
    Ok(requested)
}

/// Cancels a run. Returns false if it has already ended.
///
/// # Errors
/// The run does not exist, or the caller may not cancel it.
pub fn cancel(run_id: i64) -> Result<bool, Error> {
    let (source, status) = find(run_id, "cancel a run")?;
    let status = match status.phase {
        // with the row locked, no process can begin the run
        Phase::Pending => {
            sources::lock(source.name.as_str())?;
            with_latest_snapshot(|| as_owner(|owner| runs::status(owner, run_id)))?
                .ok_or_else(|| missing(run_id))?
        }
        _ => status,
    };
    match status.phase {
        Phase::Pending => {
            let error = Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_QUERY_CANCELED,
                "the run was cancelled before it began",
            );
            end::finish(RunEnd::failure(
                run_id,
                source.generation,
                &source,
                &error,
                EndCause::Cancelled,
            ))?;
            Ok(true)
        }
        Phase::Running => Ok(session::cancel(&source.name)?),
        Phase::Completed | Phase::Failed => Ok(false),
    }
}

/// Waits for the end of a run, and returns its status. With a timeout, the run may not have ended.
///
/// # Errors
/// The run does not exist, or the caller may not wait for it, or it cannot end before the current
/// transaction.
pub fn wait(
    run_id: i64,
    timeout: Option<Duration>,
    report: impl FnMut(&runs::RunStatus),
) -> Result<runs::RunStatus, Error> {
    check_snapshot("rag_wait")?;
    let (source, status) = read_without_keeping_locks(|| find(run_id, "wait for a run"))?;
    if !status.has_ended() && (status.uncommitted || source.uncommitted) {
        return Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
            format!(
                "run {run_id} cannot begin or end before this transaction, which queued it or \
                 locked its source"
            ),
        )
        .detail(
            "This transaction queued the run, or locked its source. Another process carries out \
             the run. It sees only committed changes and does not wait for locks.",
        )
        .hint("COMMIT first, then call rag_wait. rag_sync waits automatically."));
    }
    session::wait_for(run_id, timeout, report)?.ok_or_else(|| missing(run_id))
}

/// # Errors
/// The current transaction has changes of the source, which the process of the run would not see.
fn check_committed(source: &Source) -> Result<(), Error> {
    if !source.uncommitted {
        return Ok(());
    }
    Err(Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!(
            "source \"{}\" was created, changed or locked in this transaction, which is not \
             committed",
            source.name
        ),
    )
    .detail(
        "Another process carries out the run. It sees only committed changes and does not wait \
         for locks.",
    )
    .hint("COMMIT first, then call rag_sync."))
}

/// # Errors
/// The snapshot is fixed, so that the session would not see changes of the run.
fn check_snapshot(function: &str) -> Result<(), Error> {
    if !snapshot_is_fixed() {
        return Ok(());
    }
    Err(Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!("{function} cannot wait in a transaction with a fixed snapshot"),
    )
    .detail("The session would not see the end of the run.")
    .hint("Use isolation level READ COMMITTED, or wait => false."))
}

/// Returns the source and the status of a run.
///
/// # Errors
/// The run does not exist, or the caller may not manage its source. Callers that manage no sources
/// get the same error in both cases.
fn find(run_id: i64, action: &str) -> Result<(Source, runs::RunStatus), Error> {
    let Some(status) = with_latest_snapshot(|| as_owner(|owner| runs::status(owner, run_id)))?
    else {
        roles::require_admin(action)?;
        return Err(missing(run_id));
    };
    let source = Source::get(&status.source)?;
    check_manager(&source, action)?;
    Ok((source, status))
}

fn check_manager(source: &Source, action: &str) -> Result<(), Error> {
    rights::require_source_manager(Some((&source.owner, &source.collection)), action)
}

fn missing(run_id: i64) -> Error {
    Error::undefined(format!("run {run_id} does not exist")).hint(
        "The view rag.runs lists all runs. Old runs are deleted as \
         rag.successful_runs_history_limit and rag.failed_runs_history_limit say.",
    )
}
