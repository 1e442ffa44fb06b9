//! What a schedule means for a source's row, and what is said where nobody keeps it.

use pgrx::{PgSqlErrorCode, datum::TimestampWithTimeZone, pg_sys::panic::ErrorReport, prelude::PgLogLevel};
use rag_schedule::Schedule;

use super::lock;
use crate::{
    catalog::{
        conditions::{Changes, Type},
        due,
        name::Name,
        sources::{self, Source, Stored},
    },
    error::Error,
    schedule, settings,
    workers::{hooks, shared},
};

/// Notes whether the source is synced by itself, as long as a scheduler is at work: what is so where none is, `rag.sources` says.
pub fn scheduled(changes: Changes, schedule: Option<&str>, suspend: bool) -> Changes {
    let set = |status, reason, message: String| changes.set(Type::Scheduled, Some(status), reason, message);
    match schedule {
        _ if suspend => set(false, "Suspended", "schedule, retries and drift checks rest until rag_resume".into()),
        None => set(false, "NoSchedule", "it is synced when it is made or altered, and by rag_sync".into()),
        Some(schedule) => set(true, "Scheduled", format!("it is synced by the schedule {schedule}")),
    }
}

/// How a source is that has never been synced.
pub fn conditions_of_new(schedule: Option<&str>, suspend: bool) -> Changes {
    const NOT_RUN: &str = "NotRun";
    let changes = Changes::at(1).set(Type::ResourceReady, Some(true), "Ready", "what the definition names is there");
    scheduled(changes, schedule, suspend)
        .set(Type::Indexing, Some(false), NOT_RUN, "it has not been synced yet")
        .set(Type::Completed, Some(false), NOT_RUN, "it has not been synced yet")
        .set(Type::Error, Some(false), "NoError", "")
        .set(Type::DriftDetected, None, "NotChecked", "it has not been looked for yet")
}

/// Has a source be synced by its schedule that could not be kept before.
///
/// # Errors
/// It still cannot, or someone has the source's row locked; a scheduler must not wait for them.
pub fn reschedule(name: &str) -> Result<(), Error> {
    if !sources::lock_at_once(name)? {
        return Ok(());
    }
    let Some(source) = sources::lock(name)? else { return Ok(()) };
    // it may have been altered since it was found
    if source.schedule.is_none() || source.next_run.is_some() || source.suspend {
        return Ok(());
    }
    let next_run = next_time(parse(&source)?.as_ref())?;
    let changes = scheduled(Changes::at(source.generation), source.schedule.as_deref(), source.suspend);
    due::set_next_run(name, next_run)?;
    sources::set_conditions(name, &changes)
}

/// The schedule of a source, which may be of another version of the extension.
fn parse(source: &Stored) -> Result<Option<Schedule>, Error> {
    let schedule = source.schedule.as_deref().map(schedule::parse).transpose();
    schedule.map_err(|problem| Error::invalid_spec(&format!("source \"{}\"", source.name), &[problem]))
}

/// Says that a schedule is not kept, if so.
pub fn warn_of_idle_schedule(source: &Name) {
    if !shared::is_present() {
        let message =
            format!("source \"{source}\" is not synced by its schedule: rag is not in shared_preload_libraries");
        ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, message, "rag")
            .set_hint("Add rag to shared_preload_libraries and restart the server, or call rag_sync.")
            .report(PgLogLevel::WARNING);
    } else if !settings::scheduler() {
        pgrx::notice!("source \"{source}\" is not synced by its schedule as long as rag.scheduler is off");
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
    let changes = scheduled(Changes::at(source.generation), source.schedule.as_deref(), true);
    sources::suspend(&source.name, &changes)?;
    hooks::wake_scheduler_at_commit();
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
    let changes = scheduled(Changes::at(source.generation), source.schedule.as_deref(), false);
    sources::resume(&source.name, schedule.is_some(), next_run, &changes)?;
    hooks::wake_scheduler_at_commit();
    Ok(())
}

/// The next time of a schedule from now on; `None` without one.
pub fn next_time(schedule: Option<&Schedule>) -> Result<Option<TimestampWithTimeZone>, Error> {
    schedule::next_run(schedule, true)
}
