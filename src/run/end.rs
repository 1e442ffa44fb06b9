//! The end of a run: its row, its source's status and conditions, its retry, and a line of the log.

use pgrx::PgSqlErrorCode as Code;

use crate::{
    catalog::{
        conditions::{ConditionChanges, ConditionType},
        name::Name,
        run_phases::{self, CountedRun, IndexedSource, SourceState},
        runs::{Phase, prune},
        sources::{self, Source},
    },
    cluster::lock::Lock,
    drift::{self, DriftFindings},
    error::Error,
    pg::{
        spi::{OwnerRights, as_owner},
        transaction::{at_commit, with_latest_snapshot},
    },
};

use super::retry::{self, Retry};

/// How a run ended.
pub struct RunEnd<'a> {
    pub run_id: i64,
    /// The generation of the definition that it carried out.
    pub generation: i64,
    pub source: &'a Source,
    pub outcome: Result<(), &'a Error>,
    pub cause: EndCause,
    pub commit: Option<&'a str>,
    /// The whole source was listed.
    pub complete: bool,
    /// A note on a run that completed.
    pub note: Option<&'a str>,
    /// Number of documents that could not be indexed.
    pub failed: i64,
    /// Number of documents that were indexed incompletely.
    pub with_warnings: i64,
    /// What still differs from what was indexed, if drift was found before the run.
    pub drift: Option<&'a DriftFindings>,
}

impl<'a> RunEnd<'a> {
    /// Returns the end of a run that failed before it reported anything.
    pub fn failure(
        run_id: i64,
        generation: i64,
        source: &'a Source,
        error: &'a Error,
        cause: EndCause,
    ) -> Self {
        Self {
            run_id,
            generation,
            source,
            outcome: Err(error),
            cause,
            commit: None,
            complete: false,
            note: None,
            failed: 0,
            with_warnings: 0,
            drift: None,
        }
    }

    fn phase(&self) -> Phase {
        match self.outcome {
            Ok(()) => Phase::Completed,
            Err(_) => Phase::Failed,
        }
    }
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// The run itself: it completed or failed.
    Finished,
    /// It was cancelled, so there is no retry.
    Cancelled,
    /// Its process was lost.
    Lost,
}

impl EndCause {
    /// Returns the outcome as the log shows it.
    fn outcome(self, completed: bool) -> &'static str {
        match self {
            Self::Finished if completed => "completed",
            Self::Finished => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

/// Ends a run. The source's conditions change only if its definition is still the run's; the counts
/// of runs always change.
///
/// # Errors
/// The source's row is locked, for example.
pub fn finish(run: RunEnd<'_>) -> Result<(), Error> {
    as_owner(|owner| {
        if let Some(state) = run_phases::lock_state(owner, run.source)? {
            finish_source(owner, &run, &state)?;
        }
        // after the source, whose row the trigger that announces this reads
        let error = run.outcome.err();
        let counts = run_phases::end(owner, run.run_id, run.phase(), run.commit, error, run.note)?;
        let name = run.source.name.as_str();
        if let Some(counts) = counts {
            let outcome = run.cause.outcome(run.outcome.is_ok());
            log_at_commit(run.run_id, name, outcome, &counts, error);
        }
        prune(owner, name)
    })
}

/// Writes a line into the server's log once the transaction that ends the run has committed.
fn log_at_commit(run_id: i64, source: &str, outcome: &str, counts: &str, error: Option<&Error>) {
    let state = error.map_or_else(|| "00000".into(), Error::sqlstate);
    let mut line =
        format!("rag: source={source} run={run_id} outcome={outcome} sqlstate={state} {counts}");
    if let Some(error) = error {
        let why = [Some(error.message.as_str()), error.detail.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
        // on one line
        line.push_str(&format!(" error={:?}", why.join(": ")));
    }
    at_commit(move || pgrx::log!("{line}"));
}

fn finish_source(owner: &OwnerRights, run: &RunEnd<'_>, state: &SourceState) -> Result<(), Error> {
    let name = run.source.name.as_str();
    let completed = run.outcome.is_ok();
    let retry = match run.outcome {
        Err(error) if run.cause != EndCause::Cancelled => {
            retry::next_retry(error, state.max_retries, state.attempt, state.throttled)
        }
        _ => None,
    };
    let (attempt, throttled) = retry
        .as_ref()
        .map_or((0, 0), |retry| (retry.attempt, retry.throttled));
    let counted = CountedRun {
        run_id: run.run_id,
        completed,
        attempt,
        throttled,
        retry_at: retry.as_ref().map(|retry| retry.at),
    };
    run_phases::count(owner, name, &counted)?;
    if state.generation != run.generation {
        // no run has carried out the current definition: without a schedule the source is due
        run_phases::make_due(owner, name)?;
        let message = format!(
            "run {} carried out generation {}, which is not the current one",
            run.run_id, run.generation
        );
        let changes = ConditionChanges::at(state.generation).set(
            ConditionType::Indexing,
            Some(false),
            "DefinitionChanged",
            message,
        );
        return sources::set_conditions(owner, name, &changes);
    }
    let indexed = IndexedSource {
        generation: run.generation,
        completed,
        complete: run.complete,
        commit: run.commit,
        changes: outcome_conditions(run, retry.as_ref()),
    };
    run_phases::set_indexed(owner, name, &indexed)?;
    run.drift.map_or(Ok(()), |findings| {
        drift::record_after_run(owner, run.source, run.run_id, completed, findings)
    })
}

fn outcome_conditions(run: &RunEnd<'_>, retry: Option<&Retry>) -> ConditionChanges {
    use ConditionType::{Completed, Error as Failure, Indexing, ResourceReady};
    let (changes, id) = (ConditionChanges::at(run.generation), run.run_id);
    match run.outcome {
        Ok(()) => {
            let ready = "the last run could read the source";
            let ended = format!("run {id} completed");
            let changes = changes
                .set(ResourceReady, Some(true), "Ready", ready)
                .set(Indexing, Some(false), "RunCompleted", ended)
                .set(
                    Completed,
                    Some(true),
                    "RunCompleted",
                    completed_message(run),
                );
            match run.failed {
                0 => changes.set(Failure, Some(false), "NoError", ""),
                n => {
                    let message = format!("{n} documents could not be indexed, see rag.run_errors");
                    changes.set(Failure, Some(true), "DocumentsFailed", message)
                }
            }
        }
        Err(error) => {
            let reason = reason(error, run.cause);
            let next = match retry {
                Some(retry) => format!("; the next attempt is {}", retry.after()),
                None => String::new(),
            };
            let message = format!("run {id}: {}{next}", error.message);
            let changes = if error.cause().is_in_named() {
                changes.set(ResourceReady, Some(false), reason, error.message.clone())
            } else {
                changes
            };
            let ended = format!("run {id} failed");
            changes
                .set(Indexing, Some(false), reason, ended.clone())
                .set(Completed, Some(false), reason, ended)
                .set(Failure, Some(true), reason, message)
        }
    }
}

/// Returns the message of a run that completed.
fn completed_message(run: &RunEnd<'_>) -> String {
    let note = run
        .note
        .map_or_else(String::new, |note| format!("; {note}"));
    let warnings = match run.with_warnings {
        0 => String::new(),
        n => format!("; {n} documents were indexed with warnings, see rag.run_errors"),
    };
    format!("run {} completed{note}{warnings}", run.run_id)
}

/// Returns why a run failed, as the reason of a condition.
fn reason(error: &Error, cause: EndCause) -> &'static str {
    match cause {
        EndCause::Cancelled => "Cancelled",
        _ => error.cause().reason(),
    }
}

/// Ends a queued run of a source whose definition cannot be read.
pub fn fail_unreadable(run_id: i64, source: &str, error: &Error) -> Result<(), Error> {
    as_owner(|owner| {
        if !sources::lock_at_once(owner, source)? {
            return Ok(());
        }
        let Some(counts) = run_phases::fail_queued(owner, run_id, source, error)? else {
            return Ok(());
        };
        run_phases::count_failed(owner, run_id, source)?;
        log_at_commit(run_id, source, "failed", &counts, Some(error));
        prune(owner, source)
    })
}

/// Ends the runs of a source whose process was lost. Returns false if the source is busy or is
/// being dropped. Views show such a run as Failed before and after this, and meanwhile.
///
/// # Errors
/// The source's row is locked, for example.
pub fn end_lost_runs_if_idle(name: &Name) -> Result<bool, Error> {
    if !Lock::source_busy(name).try_acquire_unlisted_for_transaction() {
        return Ok(false);
    }
    if let Some(source) = with_latest_snapshot(|| Source::find(name.as_str()))? {
        end_lost_runs(&source)?;
    }
    Ok(true)
}

/// Ends the runs of a source whose process was lost. The caller holds the source's lock, so none of
/// the processes is alive.
pub fn end_lost_runs(source: &Source) -> Result<(), Error> {
    // a run that ended just before the lock was acquired has stored that
    let name = source.name.as_str();
    let lost = with_latest_snapshot(|| as_owner(|owner| run_phases::running(owner, name)))?;
    for (run_id, generation) in &lost {
        let error = Error::new(
            Code::ERRCODE_ADMIN_SHUTDOWN,
            "the run's process ended before the run did",
        )
        .hint("The documents that it has stored stay. The next run processes the rest.");
        finish(RunEnd::failure(
            *run_id,
            *generation,
            source,
            &error,
            EndCause::Lost,
        ))?;
    }
    Ok(())
}

/// Queues a run again that has given its slot to another one. The documents that it has stored
/// stay.
///
/// # Errors
/// The source's row is locked, for example.
pub fn requeue(run_id: i64, source: &Source) -> Result<(), Error> {
    let name = source.name.as_str();
    as_owner(|owner| {
        if !sources::lock_at_once(owner, name)? || !run_phases::requeue(owner, run_id)? {
            return Ok(());
        }
        let message = format!(
            "run {run_id} gave its slot to a run of another database or owner and is queued again"
        );
        let changes = ConditionChanges::at(source.generation).set(
            ConditionType::Indexing,
            Some(false),
            "GaveWay",
            message,
        );
        sources::set_conditions(owner, name, &changes)
    })
}
