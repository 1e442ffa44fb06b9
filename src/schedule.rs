//! When sources are synced: schedules by the server's clock and the database's time zone, and
//! retries.
//!
//! The grammar, the calendar and the backoff are in `crates/schedule`, whose clock is an argument;
//! here is the clock.
#![allow(unsafe_code)] // the server's clock, settings and random numbers

use std::{ffi::CStr, time::Duration};

use pgrx::{datum::TimestampWithTimeZone, pg_sys};
use rag_protocol::spec::Problem;
use rag_schedule::{Schedule, TimeZone, Timestamp, backoff};

use crate::{catalog, error::Error, settings, workers};

/// Between PostgreSQL's epoch, 2000-01-01, and Unix's.
const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;
/// A server that keeps asking to be left alone is asked so often in a row before the run counts as
/// failed for good.
const MOST_THROTTLED: u32 = 10;
/// No server is given more time than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

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
fn from_microseconds(microseconds: i64) -> TimestampWithTimeZone {
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
    let setting = match catalog::database_setting("timezone")? {
        Some(setting) => setting,
        None => workers::shared::zone().unwrap_or_else(|| {
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

/// When and as what a run that failed is tried again.
#[derive(Debug, Clone)]
pub struct Again {
    pub at: TimestampWithTimeZone,
    pub delay: Duration,
    /// Tries that have failed, this one included, and tries that were put off.
    pub attempt: u32,
    pub throttled: u32,
}

impl Again {
    /// For a message: `in 12 s`.
    pub fn after(&self) -> String {
        match self.delay.as_secs() {
            0 => "at once".to_string(),
            seconds => format!("in {seconds} s"),
        }
    }
}

/// Whether a run that failed with `error` is tried again, after `attempt` tries that failed and
/// `throttled` ones that the other side asked to put off. The latter do not use up retries.
pub fn try_again(error: &Error, max_retries: u32, attempt: u32, throttled: u32) -> Option<Again> {
    if !workers::are_scheduling() {
        return None;
    }
    let (attempt, throttled) = match error.retry_after {
        Some(_) => (attempt, throttled + 1),
        None => (attempt + 1, throttled),
    };
    if attempt > max_retries || throttled > MOST_THROTTLED || max_retries == 0 {
        return None;
    }
    let backoff = backoff::delay(settings::retry_delay(), attempt + throttled, random());
    let delay = error
        .retry_after
        .map_or(backoff, |asked| backoff.max(asked.min(LONGEST_PAUSE)));
    let at = microseconds(now()).saturating_add(delay.as_micros().try_into().unwrap_or(i64::MAX));
    Some(Again {
        at: from_microseconds(at),
        delay,
        attempt,
        throttled,
    })
}

/// In 0..1, to keep sources apart; nothing secret depends on it.
fn random() -> f64 {
    let mut bytes = [0; 4];
    // SAFETY: fills as many bytes as there are.
    let filled = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    if filled {
        f64::from(u32::from_ne_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    } else {
        0.5
    }
}
