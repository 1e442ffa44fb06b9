//! The conditions and the next run of a source that follow from its schedule, and the warnings if
//! schedules are not active.

use pgrx::{
    PgSqlErrorCode, datum::TimestampWithTimeZone, pg_sys::panic::ErrorReport, prelude::PgLogLevel,
};
use rag_definition::{
    FieldProblem,
    source::{SourceSpec, TableSync},
};
use rag_schedule::Schedule;

use super::manage;
use crate::{
    catalog::{
        conditions::{ConditionChanges, ConditionType},
        due,
        name::Name,
        sources::{self, Source, SourceRow},
    },
    cluster::{news, shared},
    error::Error,
    pg::spi::as_owner,
    run::schedule,
    settings,
};

/// Sets the condition Scheduled from the definition. The view `rag.sources` shows if no schedule is
/// active at all. `follows_table`: triggers record changes of the source's table.
pub fn scheduled(
    changes: ConditionChanges,
    schedule: Option<&str>,
    suspend: bool,
    follows_table: bool,
) -> ConditionChanges {
    let set = |status, reason, message: String| {
        changes.set(ConditionType::Scheduled, Some(status), reason, message)
    };
    match schedule {
        _ if suspend => set(
            false,
            "Suspended",
            "schedule, retries and drift checks are suspended until rag_resume is called".into(),
        ),
        None if follows_table => set(
            true,
            "Triggered",
            "synced soon after its table changes".into(),
        ),
        None => set(
            false,
            "NoSchedule",
            "synced when created or altered, and by rag_sync".into(),
        ),
        Some(schedule) if follows_table => set(
            true,
            "Scheduled",
            format!("synced by the schedule {schedule}, and soon after its table changes"),
        ),
        Some(schedule) => set(
            true,
            "Scheduled",
            format!("synced by the schedule {schedule}"),
        ),
    }
}

/// Sets the condition ResourceReady from the checks of the definition.
pub fn ready(changes: ConditionChanges, missing: Option<&FieldProblem>) -> ConditionChanges {
    match missing {
        Some(missing) => changes.set(
            ConditionType::ResourceReady,
            Some(false),
            "NotReady",
            &missing.message,
        ),
        None => changes.set(
            ConditionType::ResourceReady,
            Some(true),
            "Ready",
            "everything that the definition names exists",
        ),
    }
}

/// Returns true if triggers record changes of the table that a source reads.
pub fn follows_table(spec: Option<&SourceSpec>) -> bool {
    matches!(spec, Some(SourceSpec::Table(table)) if table.sync == TableSync::Trigger)
}

/// Returns the conditions of a new source.
pub fn conditions_of_new(
    schedule: Option<&str>,
    suspend: bool,
    follows_table: bool,
    missing: Option<&FieldProblem>,
) -> ConditionChanges {
    const NOT_RUN: &str = "NotRun";
    let changes = ready(ConditionChanges::at(1), missing);
    scheduled(changes, schedule, suspend, follows_table)
        .set(
            ConditionType::Indexing,
            Some(false),
            NOT_RUN,
            "not synced yet",
        )
        .set(
            ConditionType::Completed,
            Some(false),
            NOT_RUN,
            "not synced yet",
        )
        .set(ConditionType::Error, Some(false), "NoError", "")
        .set(
            ConditionType::DriftDetected,
            None,
            "NotChecked",
            "not checked yet",
        )
}

/// Sets the next run of a source whose schedule was invalid before.
///
/// # Errors
/// The schedule is still invalid, or another session has locked the source's row. A scheduler must
/// not wait for that lock.
pub fn reschedule(name: &str) -> Result<(), Error> {
    as_owner(|owner| {
        if !sources::lock_at_once(owner, name)? {
            return Ok(());
        }
        let Some(source) = sources::lock(name)? else {
            return Ok(());
        };
        // it may have been altered since it was found
        if source.definition.schedule.is_none()
            || source.next_run.is_some()
            || source.definition.suspend
        {
            return Ok(());
        }
        let next_run = next_time(parse(&source)?.as_ref())?;
        let changes = scheduled(
            ConditionChanges::at(source.generation),
            source.definition.schedule.as_deref(),
            source.definition.suspend,
            follows(&source),
        );
        due::set_next_run(owner, name, next_run)?;
        sources::set_conditions(owner, name, &changes)
    })
}

/// Parses the schedule of a source, which another version of the extension may have stored.
fn parse(source: &SourceRow) -> Result<Option<Schedule>, Error> {
    let schedule = source
        .definition
        .schedule
        .as_deref()
        .map(schedule::parse)
        .transpose();
    schedule
        .map_err(|problem| Error::invalid_spec(&format!("source \"{}\"", source.name), &[problem]))
}

fn follows(source: &SourceRow) -> bool {
    follows_table(source.definition.parsed().as_ref())
}

/// Warns if schedules or changes of tables do not start runs. `what` is what should start them.
/// Returns true if it has warned.
pub fn warn_of_idle(source: &Name, what: &str) -> bool {
    if !shared::is_present() {
        let message = format!(
            "source \"{source}\" is not synced {what}: rag is not in shared_preload_libraries"
        );
        ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, message, "rag")
            .set_hint(
                "Add rag to shared_preload_libraries and restart the server, or call rag_sync.",
            )
            .report(PgLogLevel::WARNING);
        true
    } else if !settings::scheduler() {
        pgrx::notice!("source \"{source}\" is not synced {what} while rag.scheduler is off");
        true
    } else {
        false
    }
}

/// Suspends schedule, retries and drift checks of a source. A running sync continues.
///
/// # Errors
/// The source does not exist, or the caller has no permission.
pub fn suspend(name: &str) -> Result<(), Error> {
    let source = manage::lock(name, "suspend a source")?.ok_or_else(|| Source::missing(name))?;
    if source.definition.suspend {
        return Ok(());
    }
    let changes = scheduled(
        ConditionChanges::at(source.generation),
        source.definition.schedule.as_deref(),
        true,
        follows(&source),
    );
    as_owner(|owner| sources::suspend(owner, &source.name, &changes))?;
    news::wake_scheduler_at_commit();
    Ok(())
}

/// Ends [`suspend`]. Missed runs are not made up for.
///
/// # Errors
/// The source does not exist, or the caller has no permission.
pub fn resume(name: &str) -> Result<(), Error> {
    let source = manage::lock(name, "resume a source")?.ok_or_else(|| Source::missing(name))?;
    if !source.definition.suspend {
        return Ok(());
    }
    let schedule = parse(&source)?;
    let next_run = next_time(schedule.as_ref())?;
    let changes = scheduled(
        ConditionChanges::at(source.generation),
        source.definition.schedule.as_deref(),
        false,
        follows(&source),
    );
    as_owner(|owner| sources::resume(owner, &source.name, schedule.is_some(), next_run, &changes))?;
    news::start_new_at_commit();
    news::wake_scheduler_at_commit();
    Ok(())
}

/// Returns the next time of a schedule after now, or None without a schedule.
pub fn next_time(schedule: Option<&Schedule>) -> Result<Option<TimestampWithTimeZone>, Error> {
    schedule::next_run(schedule, true)
}
