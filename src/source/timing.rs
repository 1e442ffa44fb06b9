//! What a schedule means for a source's row, and what is said where nobody keeps it.

use pgrx::{
    PgSqlErrorCode, datum::TimestampWithTimeZone, pg_sys::panic::ErrorReport, prelude::PgLogLevel,
};
use rag_protocol::spec::{Problem, SourceSpec, TableSync};
use rag_schedule::Schedule;

use super::definition::lock;
use crate::{
    catalog::{
        conditions::{Changes, Type},
        due,
        name::Name,
        sources::{self, Source, Stored},
    },
    cluster::{news, shared},
    error::Error,
    run::schedule,
    settings,
};

/// Notes whether the source is synced by itself, as far as anything is: what is so where nothing
/// is, `rag.sources` says. `follows_table`: triggers note changes of the table that it reads.
pub fn scheduled(
    changes: Changes,
    schedule: Option<&str>,
    suspend: bool,
    follows_table: bool,
) -> Changes {
    let set = |status, reason, message: String| {
        changes.set(Type::Scheduled, Some(status), reason, message)
    };
    match schedule {
        _ if suspend => set(
            false,
            "Suspended",
            "schedule, retries and drift checks rest until rag_resume".into(),
        ),
        None if follows_table => set(
            true,
            "Triggered",
            "it is synced soon after its table has changed".into(),
        ),
        None => set(
            false,
            "NoSchedule",
            "it is synced when it is made or altered, and by rag_sync".into(),
        ),
        Some(schedule) if follows_table => set(
            true,
            "Scheduled",
            format!(
                "it is synced by the schedule {schedule}, and soon after its table has changed"
            ),
        ),
        Some(schedule) => set(
            true,
            "Scheduled",
            format!("it is synced by the schedule {schedule}"),
        ),
    }
}

/// Notes whether what a definition names is there, as far as that is looked at when it is made.
pub fn ready(changes: Changes, missing: Option<&Problem>) -> Changes {
    match missing {
        Some(missing) => changes.set(
            Type::ResourceReady,
            Some(false),
            "NotReady",
            missing.problem.clone(),
        ),
        None => changes.set(
            Type::ResourceReady,
            Some(true),
            "Ready",
            "what the definition names is there",
        ),
    }
}

/// Whether triggers note changes of the table that a source reads.
pub fn follows_table(spec: Option<&SourceSpec>) -> bool {
    matches!(spec, Some(SourceSpec::Table(table)) if table.sync == TableSync::Trigger)
}

/// How a source is that has never been synced.
pub fn conditions_of_new(
    schedule: Option<&str>,
    suspend: bool,
    follows_table: bool,
    missing: Option<&Problem>,
) -> Changes {
    const NOT_RUN: &str = "NotRun";
    let changes = ready(Changes::at(1), missing);
    scheduled(changes, schedule, suspend, follows_table)
        .set(
            Type::Indexing,
            Some(false),
            NOT_RUN,
            "it has not been synced yet",
        )
        .set(
            Type::Completed,
            Some(false),
            NOT_RUN,
            "it has not been synced yet",
        )
        .set(Type::Error, Some(false), "NoError", "")
        .set(
            Type::DriftDetected,
            None,
            "NotChecked",
            "it has not been looked for yet",
        )
}

/// Has a source be synced by its schedule that could not be kept before.
///
/// # Errors
/// It still cannot, or someone has the source's row locked; a scheduler must not wait for them.
pub fn reschedule(name: &str) -> Result<(), Error> {
    if !sources::lock_at_once(name)? {
        return Ok(());
    }
    let Some(source) = sources::lock(name)? else {
        return Ok(());
    };
    // it may have been altered since it was found
    if source.schedule.is_none() || source.next_run.is_some() || source.suspend {
        return Ok(());
    }
    let next_run = next_time(parse(&source)?.as_ref())?;
    let changes = scheduled(
        Changes::at(source.generation),
        source.schedule.as_deref(),
        source.suspend,
        follows(&source),
    );
    due::set_next_run(name, next_run)?;
    sources::set_conditions(name, &changes)
}

/// The schedule of a source, which may be of another version of the extension.
fn parse(source: &Stored) -> Result<Option<Schedule>, Error> {
    let schedule = source.schedule.as_deref().map(schedule::parse).transpose();
    schedule
        .map_err(|problem| Error::invalid_spec(&format!("source \"{}\"", source.name), &[problem]))
}

fn follows(source: &Stored) -> bool {
    follows_table(source.parsed().as_ref())
}

/// Says that a schedule is not kept, or that changes of a table are not followed, if so. `what`: by
/// what or when it is to be synced.
pub fn warn_of_idle(source: &Name, what: &str) {
    if !shared::is_present() {
        let message = format!(
            "source \"{source}\" is not synced {what}: rag is not in shared_preload_libraries"
        );
        ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, message, "rag")
            .set_hint(
                "Add rag to shared_preload_libraries and restart the server, or call rag_sync.",
            )
            .report(PgLogLevel::WARNING);
    } else if !settings::scheduler() {
        pgrx::notice!("source \"{source}\" is not synced {what} as long as rag.scheduler is off");
    }
}

/// Has the schedule, retries and drift checks of a source rest; a run under way goes on.
///
/// # Errors
/// There is no such source, or the caller may not.
pub fn suspend(name: &str) -> Result<(), Error> {
    let source = lock(name, "suspend a source")?.ok_or_else(|| Source::missing(name))?;
    if source.suspend {
        return Ok(());
    }
    let changes = scheduled(
        Changes::at(source.generation),
        source.schedule.as_deref(),
        true,
        follows(&source),
    );
    sources::suspend(&source.name, &changes)?;
    news::wake_scheduler_at_commit();
    Ok(())
}

/// The end of [`suspend`]. Times that came meanwhile are not caught up with.
///
/// # Errors
/// There is no such source, or the caller may not.
pub fn resume(name: &str) -> Result<(), Error> {
    let source = lock(name, "resume a source")?.ok_or_else(|| Source::missing(name))?;
    if !source.suspend {
        return Ok(());
    }
    let schedule = parse(&source)?;
    let next_run = next_time(schedule.as_ref())?;
    let changes = scheduled(
        Changes::at(source.generation),
        source.schedule.as_deref(),
        false,
        follows(&source),
    );
    sources::resume(&source.name, schedule.is_some(), next_run, &changes)?;
    news::start_new_at_commit();
    news::wake_scheduler_at_commit();
    Ok(())
}

/// The next time of a schedule from now on; `None` without one.
pub fn next_time(schedule: Option<&Schedule>) -> Result<Option<TimestampWithTimeZone>, Error> {
    schedule::next_run(schedule, true)
}
