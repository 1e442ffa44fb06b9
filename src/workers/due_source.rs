//! What a scheduler does with one source that is due. Each function runs in a transaction of its
//! own, and fails if the row of the source is locked.

use pgrx::datum::TimestampWithTimeZone;

use crate::{
    catalog::{
        conditions::{ConditionChanges, ConditionType},
        due::{self, DueSource, PlannedSource},
        runs::{self, Trigger},
        sources,
    },
    error::Error,
    pg::{spi::OwnerRights, transaction::with_latest_snapshot},
    run::schedule,
};

/// Locks the row of a source that was due and may have been changed since. Returns why it is due
/// now, if it is.
fn lock_due(owner: &OwnerRights, name: &str) -> Result<Option<DueSource>, Error> {
    if !sources::lock_at_once(owner, name)? {
        return Ok(None);
    }
    let due = with_latest_snapshot(|| due::due(owner, Some(name)))?;
    Ok(due.into_iter().next())
}

/// Queues the run of a source that is due, and stores when it is due next.
pub fn queue(owner: &OwnerRights, name: &str) -> Result<(), Error> {
    let Some(due) = lock_due(owner, name)? else {
        return Ok(());
    };
    if due.run {
        let schedule = due.schedule.as_deref().map(schedule::parse).transpose();
        let schedule = schedule.map_err(|problem| {
            Error::invalid_spec(&format!("source \"{}\"", due.name), &[problem])
        })?;
        let next = schedule::next_run(schedule.as_ref(), true)?;
        due::set_next_run(owner, &due.name, next)?;
        let trigger = if schedule.is_some() {
            Trigger::Schedule
        } else {
            Trigger::Create
        };
        // if a run is queued or in progress, this one is skipped
        runs::queue(owner, &due.name, trigger)?;
    } else if due.retry {
        runs::queue(owner, &due.name, Trigger::Retry)?;
    }
    Ok(())
}

/// Plans the next run of a source again if it lies beyond the next time of its schedule.
pub fn move_back(owner: &OwnerRights, planned: &PlannedSource) -> Result<(), Error> {
    let Ok(parsed) = schedule::parse(&planned.schedule) else {
        return Ok(());
    };
    let is_later = |next: Option<TimestampWithTimeZone>| {
        next.is_some_and(|next| {
            schedule::microseconds(next) < schedule::microseconds(planned.next_run)
        })
    };
    if !is_later(schedule::next_run(Some(&parsed), true)?)
        || !sources::lock_at_once(owner, &planned.name)?
    {
        return Ok(());
    }
    let next = schedule::next_run(Some(&parsed), true)?;
    pgrx::log!(
        "rag: the clock was set back: the next run of source \"{}\" is planned again",
        planned.name
    );
    due::set_next_run(owner, &planned.name, next)
}

/// Queues the run of a source whose table was changed.
pub fn queue_changed(owner: &OwnerRights, name: &str) -> Result<(), Error> {
    if sources::lock_at_once(owner, name)? {
        runs::queue(owner, name, Trigger::Change)?;
    }
    Ok(())
}

/// Stops scheduling a source with an invalid schedule until its definition is changed.
pub fn set_invalid_schedule(
    owner: &OwnerRights,
    due: &DueSource,
    error: &Error,
) -> Result<(), Error> {
    if lock_due(owner, &due.name)?.is_none_or(|now| now != *due) {
        return Ok(());
    }
    due::set_next_run(owner, &due.name, None)?;
    let Some(source) = sources::lock(&due.name)? else {
        return Ok(());
    };
    let why = error.detail.as_deref().unwrap_or(&error.message);
    let changes = ConditionChanges::at(source.generation).set(
        ConditionType::Scheduled,
        Some(false),
        "InvalidSchedule",
        why,
    );
    sources::set_conditions(owner, &due.name, &changes)
}
