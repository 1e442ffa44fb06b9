//! When sources are synced: schedules by the server's clock and the database's time zone, and
//! retries.
//!
//! The grammar, the calendar and the backoff are in `crates/schedule`, whose clock is an argument;
//! here is the clock.
#![allow(unsafe_code)] // the server's clock, settings and random numbers

use std::ffi::CStr;

use pgrx::{datum::TimestampWithTimeZone, pg_sys};
use rag_protocol::spec::Problem;
use rag_schedule::{Schedule, TimeZone, Timestamp};

use crate::{cluster::shared, error::Error};

/// Between PostgreSQL's epoch, 2000-01-01, and Unix's.
const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;
/// # Errors
/// `text` is no schedule; field and position say where.
pub fn parse(text: &str) -> Result<Schedule, Problem> {
    Schedule::parse(text).map_err(|error| {
        let problem = Problem::new("schedule", error.to_string());
        error.hint.into_iter().fold(problem, Problem::hint)
    })
}

/// The server's clock.
pub fn now() -> TimestampWithTimeZone {
    // SAFETY: reads the clock.
    from_microseconds(unsafe { pg_sys::GetCurrentTimestamp() })
}

/// The times of Postgres that are out of its range are made its largest.
pub fn from_microseconds(microseconds: i64) -> TimestampWithTimeZone {
    TimestampWithTimeZone::try_from(microseconds)
        .unwrap_or_else(|_| TimestampWithTimeZone::positive_infinity())
}

pub fn microseconds(time: TimestampWithTimeZone) -> i64 {
    time.into()
}

/// The first time of `schedule` after `after`; `None`: never, or not by the clock (@reboot).
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

/// When a source with this definition is synced next, from now on. Without a schedule that is once,
/// when it is made.
pub fn next_run(
    schedule: Option<&Schedule>,
    has_run: bool,
) -> Result<Option<TimestampWithTimeZone>, Error> {
    match schedule {
        Some(schedule) => Ok(next(schedule, now(), &zone_of(schedule)?)),
        None => Ok((!has_run).then(now)),
    }
}

/// The zone of a schedule that may name none: then it is the database's setting, else the server's.
/// What a client, session or role has set does not count, as far as the library was loaded with the
/// server: the same schedule must mean the same to everyone.
///
/// # Errors
/// There is no zone of that name here.
pub fn zone_of(schedule: &Schedule) -> Result<TimeZone, Error> {
    if !schedule.needs_zone() {
        return Ok(TimeZone::UTC);
    }
    let setting = match crate::pg::guc::database_setting("timezone")? {
        Some(setting) => setting,
        None => shared::zone().unwrap_or_else(|| {
            // SAFETY: a setting that exists; the text is copied.
            let text =
                unsafe { CStr::from_ptr(pg_sys::GetConfigOptionResetString(c"timezone".as_ptr())) };
            text.to_string_lossy().into_owned()
        }),
    };
    zone(&setting).ok_or_else(|| {
        Error::unsupported(format!("schedules cannot be kept in the time zone \"{setting}\"")).hint(
            "Name a zone in the schedule, as in \"CRON_TZ=Europe/Berlin 0 2 * * *\", or give the database another one.",
        )
    })
}

/// The zone of a setting: a name, or a number, which is hours eastward.
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
