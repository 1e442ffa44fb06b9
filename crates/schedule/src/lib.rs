//! When a source is synced: the grammar of schedules, the times they name, and the delays between
//! retries.
//!
//! [`Schedule::parse`] reads a text once and says what is wrong with it and where;
//! [`Schedule::next`] finds the first time after a given one; [`zone`] looks a time zone up;
//! [`duration()`] reads what `@every` takes, also for others; [`backoff::delay`] spaces retries;
//! [`fair`] shares places for runs. The clock is always a parameter, and nothing here knows
//! Postgres.
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
//! That of `ParseStandard` in robfig/cron v3, which Kubernetes speaks too, and `@reboot`.
//!
//! * **Fields**: minute (0-59), hour (0-23), day of month (1-31), month (1-12, `jan`-`dec`), day of
//!   week (0-6 from Sunday, `sun`-`sat`), separated by white space. Each is a list, by commas, of
//!   `*` or `?` (the same), `N`, `N-M`, each also with `/step`; `N/step` is `N-max/step`.
//! * **Days**: where both day of month and day of week are restricted, one of them must match,
//!   otherwise both. A field is unrestricted if it has a `*` or `?` without a step, or with step 1:
//!   `*/2` restricts.
//! * **Descriptors**: `@yearly` = `@annually`, `@monthly`, `@weekly`, `@daily` = `@midnight`,
//!   `@hourly`, and `@every` with a duration of Go: `1h30m`, `1.5h`; whole seconds, at least one,
//!   counted from the time that is asked about.
//! * **Time zone**: `CRON_TZ=Zone` or `TZ=Zone` before either; otherwise that of the caller.
//!
//! Refused although robfig takes them, since they are slips: empty items of a list (`1,,2`), `*-5`,
//! signs (`+5`), times that never come (`0 0 30 2 *`), durations that are not positive (`@every 0`
//! and `@every -5m`, which are 1 s to robfig), and a time zone without a name (`TZ= 0 0 * * *`,
//! which is UTC to robfig). Accepted although robfig refuses them: white space around a descriptor
//! and before a time zone, other white space than a blank right after a time zone, and any white
//! space after `@every`.
//!
//! # Daylight saving time
//!
//! Local times that a change of the clocks skips do not run, which may be a whole day: a schedule
//! for 02:30 has no run on the night when 02:00 is followed by 03:00, and `@daily` none on a day
//! that begins at 01:00.
//!
//! Local times that a change repeats run once, the first time, if the hours are restricted. A
//! schedule of every hour follows real time instead: it runs in both of the repeated hours and
//! never pauses for two. robfig runs either kind at both, a nightly job twice. Every hour is what
//! names all 24 of them, be it `*` or `0-23`.
//!
//! # Why not a cron crate
//!
//! croner 4, the best kept one, makes up for skipped times as Vixie cron does, knows neither
//! `@every` nor `CRON_TZ=`, and its errors have no positions. What is hard here, the zones, is
//! jiff's.
//!
//! # How the next time is found
//!
//! Real time falls into stretches of one offset from UTC, which jiff lists. Within a stretch, local
//! time is real time plus a constant: the first matching local time is found by sets of bits, a
//! month in one step, and is the answer if it is within the stretch and is no repetition. So the
//! cost is that of some months and of two stretches a year.

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

/// How many characters a schedule may have.
pub const MAX_LENGTH: usize = 1000;

/// When something is to happen; displayed as the text it was parsed from.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    text: String,
    zone: Option<TimeZone>,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Calendar(Calendar),
    /// So many seconds after the last time.
    Every(i64),
    Reboot,
}

impl Schedule {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::schedule(text)
    }

    /// The first time strictly after `after`; `zone` holds unless the schedule names one.
    ///
    /// None for `@reboot`, beyond the year 9999, and where the zone skips each such time for 40
    /// years.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.rule {
            Rule::Calendar(calendar) => {
                next::in_calendar(calendar, after, self.zone.as_ref().unwrap_or(zone))
            }
            Rule::Every(seconds) => next::in_seconds(*seconds, after),
            Rule::Reboot => None,
        }
    }

    /// Whether its times depend on a zone that it does not name.
    pub fn needs_zone(&self) -> bool {
        self.zone.is_none() && matches!(self.rule, Rule::Calendar(_))
    }

    /// Whether it runs when the server starts, and at no other time.
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
