//! When sources are synced: schedules by the server's clock and the database's time zone.
//!
//! `crates/schedule` has the grammar, the calendar and the backoff, and gets the clock as an
//! argument. This module provides the clock.

use pgrx::datum::TimestampWithTimeZone;
use rag_definition::FieldProblem;
use rag_schedule::{Schedule, TimeZone, Timestamp};

use crate::{
    cluster::shared,
    error::Error,
    pg::{guc, process},
};

/// PostgreSQL's epoch, 2000-01-01, in Unix time.
const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;

/// # Errors
/// `text` is not a schedule. The problem names the position.
pub fn parse(text: &str) -> Result<Schedule, FieldProblem> {
    Schedule::parse(text).map_err(|error| {
        let problem = FieldProblem::new("schedule", error.to_string());
        error.hint.into_iter().fold(problem, FieldProblem::hint)
    })
}

/// Returns the server's clock.
pub fn now() -> TimestampWithTimeZone {
    from_microseconds(process::now())
}

/// Returns a time, or infinity if it is out of Postgres's range.
pub fn from_microseconds(microseconds: i64) -> TimestampWithTimeZone {
    TimestampWithTimeZone::try_from(microseconds)
        .unwrap_or_else(|_| TimestampWithTimeZone::positive_infinity())
}

pub fn microseconds(time: TimestampWithTimeZone) -> i64 {
    time.into()
}

/// Returns the first time of `schedule` after `after`, or `None` if there is none (@reboot).
pub fn next(
    schedule: &Schedule,
    after: TimestampWithTimeZone,
    zone: &TimeZone,
) -> Option<TimestampWithTimeZone> {
    let after = microseconds(after).saturating_add(EPOCH_MICROSECONDS);
    let next = schedule.next(Timestamp::from_microsecond(after).ok()?, zone)?;
    Some(from_microseconds(
        next.as_microsecond() - EPOCH_MICROSECONDS,
    ))
}

/// Returns when a source with this schedule is synced next. Without a schedule a source is due
/// once, when it is created.
pub fn next_run(
    schedule: Option<&Schedule>,
    has_run: bool,
) -> Result<Option<TimestampWithTimeZone>, Error> {
    match schedule {
        Some(schedule) => Ok(next(schedule, now(), &zone_of(schedule)?)),
        None => Ok((!has_run).then(now)),
    }
}

/// Returns the time zone of a schedule. If the schedule names none, it is the setting of the
/// database, or else of the server. Settings of clients, sessions and roles do not count if the
/// library was loaded with the server: a schedule must mean the same to every role.
///
/// # Errors
/// The zone is unknown.
pub fn zone_of(schedule: &Schedule) -> Result<TimeZone, Error> {
    if !schedule.needs_zone() {
        return Ok(TimeZone::UTC);
    }
    let setting = match guc::database_setting("timezone")? {
        Some(setting) => setting,
        None => shared::zone().unwrap_or_else(|| guc::reset_setting(c"timezone")),
    };
    zone(&setting).ok_or_else(|| {
        Error::unsupported(format!(
            "time zone \"{setting}\" is not supported for schedules"
        ))
        .hint(
            "Name a zone in the schedule, as in \"CRON_TZ=Europe/Berlin 0 2 * * *\", or set \
             another time zone for the database.",
        )
    })
}

/// Returns the zone of a setting: a name, or a number of hours east of UTC.
fn zone(setting: &str) -> Option<TimeZone> {
    let Ok(hours) = setting.trim().parse::<f64>() else {
        return rag_schedule::zone(setting);
    };
    if !(-24.0..=24.0).contains(&hours) {
        return None;
    }
    let seconds = (hours.abs() * 3600.0) as u32;
    let west = if hours > 0.0 { "-" } else { "" };
    rag_schedule::zone(&format!(
        "<>{west}{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    ))
}
