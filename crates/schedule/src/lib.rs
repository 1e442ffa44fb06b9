//! Schedules of sources: their grammar, their times, and the delays between retries.
//!
//! * [`Schedule::parse`] parses a schedule, and reports the position of a problem;
//! * [`Schedule::next`] returns the first time after a given one;
//! * [`zone`] returns a time zone;
//! * [`duration()`] parses a duration, such as that of `@every`;
//! * [`backoff::delay`] returns the delay before a retry;
//! * [`fair`] distributes slots for runs.
//!
//! The current time is always a parameter, and nothing here depends on Postgres.
//!
//! ```
//! use rag_schedule::{Schedule, Timestamp, zone};
//!
//! let schedule = Schedule::parse("CRON_TZ=Europe/Berlin 30 6 * * mon-fri")?;
//! let friday: Timestamp = "2026-05-29T12:00:00Z".parse()?;
//! let monday: Timestamp = "2026-06-01T04:30:00Z".parse()?;
//! assert_eq!(schedule.next(friday, &zone("UTC").unwrap()), Some(monday));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Grammar
//!
//! The grammar is that of `ParseStandard` in robfig/cron v3, which Kubernetes uses too, and
//! `@reboot`.
//!
//! * **Fields**: minute (0-59), hour (0-23), day of month (1-31), month (1-12, `jan`-`dec`), day of
//!   week (0-6 from Sunday, `sun`-`sat`), separated by white space. Each is a comma-separated list
//!   of `*` or `?` (the same), `N` or `N-M`, each with an optional `/step`. `N/step` is
//!   `N-max/step`.
//! * **Days**: if both day of month and day of week are restricted, one of them must match;
//!   otherwise both must match. A field is unrestricted if it has a `*` or `?` without a step, or
//!   with step 1. `*/2` is a restriction.
//! * **Descriptors**: `@yearly` = `@annually`, `@monthly`, `@weekly`, `@daily` = `@midnight`,
//!   `@hourly`, and `@every` with a duration of Go: `1h30m`, `1.5h`; whole seconds, at least one,
//!   counted from the given time.
//! * **Time zone**: `CRON_TZ=Zone` or `TZ=Zone` at the beginning. The default is the caller's zone.
//!
//! robfig accepts the following, which are refused here as probable mistakes: empty items of a list
//! (`1,,2`), `*-5`, signs (`+5`), dates that do not exist (`0 0 30 2 *`), durations that are not
//! positive (`@every 0` and `@every -5m`, 1 s in robfig), and a time zone without a name (`TZ= 0 0
//! *
//! * *`, UTC in robfig). robfig refuses the following, which are accepted here: white space around
//!   a descriptor and before a time zone, any white space right after a time zone, and any after
//!   `@every`.
//!
//! # Daylight saving time
//!
//! Local times that a clock change skips have no run. A schedule for 02:30 has no run on the night
//! when 03:00 follows 02:00, and `@daily` has none on a day that begins at 01:00.
//!
//! Local times that a clock change repeats have one run, at the first occurrence, if the hours are
//! restricted. A schedule of every hour (`*` or `0-23`) follows real time instead: it runs in both
//! of the repeated hours. robfig runs both kinds at both occurrences, so a nightly job runs twice.
//!
//! # Why not a cron crate
//!
//! croner 4, the best maintained one, runs skipped times later as Vixie cron does, supports neither
//! `@every` nor `CRON_TZ=`, and reports no positions of errors. The hard part, time zones, is done
//! by jiff.
//!
//! # How the next time is found
//!
//! Real time is divided into stretches with one offset from UTC, which jiff lists. Within a
//! stretch, local time is real time plus a constant. The first matching local time is found with
//! bit sets, one month per step. It is the result if it is within the stretch and not a repetition.
//! The cost is that of some months, and of two stretches a year.

#![forbid(unsafe_code)]

pub mod backoff;
mod calendar;
mod duration;
mod error;
pub mod fair;
mod field;
mod next;
mod parse;
mod text;
mod zone;

pub use duration::duration;
pub use error::ParseError;
pub use jiff::{Timestamp, tz::TimeZone};
pub use zone::zone;

use calendar::Calendar;

/// Maximum number of characters of a schedule.
pub const MAX_LENGTH: usize = 1000;

/// A schedule. Displays as the text it was parsed from.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    text: String,
    zone: Option<TimeZone>,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Calendar(Calendar),
    /// This number of seconds after the last time.
    Every(i64),
    Reboot,
}

impl Schedule {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::schedule(text)
    }

    /// Returns the first time strictly after `after`, in `zone` unless the schedule names one.
    ///
    /// Returns `None` for `@reboot`, after the year 9999, and if the zone skips every such time for
    /// 40 years.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.rule {
            Rule::Calendar(calendar) => {
                next::in_calendar(calendar, after, self.zone.as_ref().unwrap_or(zone))
            }
            Rule::Every(seconds) => next::in_seconds(*seconds, after),
            Rule::Reboot => None,
        }
    }

    /// Returns true if the times depend on a zone that the schedule does not name.
    pub fn needs_zone(&self) -> bool {
        self.zone.is_none() && matches!(self.rule, Rule::Calendar(_))
    }

    /// Returns true if the schedule runs only at the start of the server.
    pub fn is_reboot(&self) -> bool {
        self.rule == Rule::Reboot
    }
}

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Schedule {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Schedule::parse(text)
    }
}
