//! Time zones by the names that PostgreSQL accepts.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// The default rule of daylight saving time for POSIX zones, as in PostgreSQL.
const DEFAULT_RULE: &str = ",M3.2.0,M11.1.0";

/// Replaces any abbreviation: schedules do not use it.
const ABBREVIATION: &str = "STD";

const MAX_BYTES: usize = 255;

/// Returns the zone of an IANA name (ignoring case), `localtime`, or a POSIX string (`<+03>-03`,
/// `PST8PDT`, `GMT0`). Returns `None` for an unknown name.
///
/// The system's zoneinfo takes precedence over the built-in copy. A POSIX offset counts westward,
/// as in PostgreSQL.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name.len() > MAX_BYTES {
        return None;
    }
    named(name.strip_prefix("posix/").unwrap_or(name))
        .filter(|zone| !zone.is_unknown())
        .or_else(|| posix(name))
}

fn named(name: &str) -> Option<TimeZone> {
    let known = TimeZone::get(name)
        .or_else(|_| TimeZoneDatabase::bundled().get(name))
        .ok();
    known.or_else(|| {
        if name.eq_ignore_ascii_case("localtime") {
            TimeZone::try_system().ok()
        } else {
            None
        }
    })
}

/// A name such as `UTC+2`. People mean hours east of UTC by it, and POSIX hours west.
#[derive(Debug, PartialEq, Eq)]
pub struct OffsetOfUtc {
    /// As people mean it.
    is_east: bool,
    hours: u32,
    minutes: u32,
}

impl OffsetOfUtc {
    /// Returns `None` for other names, and for those that mean UTC itself (`GMT0`, `UTC+0`).
    pub fn parse(name: &str) -> Option<Self> {
        let letters = name.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (of, offset) = name.split_at(letters);
        let is_utc = ["UTC", "GMT", "UT", "UCT", "Z", "Zulu"]
            .iter()
            .any(|utc| utc.eq_ignore_ascii_case(of));
        if !is_utc {
            return None;
        }
        let number = offset.strip_prefix(['+', '-']).unwrap_or(offset);
        let (hours, minutes) = match number.split_once(':') {
            Some((hours, rest)) => (hours, rest.split(':').next().unwrap_or_default()),
            // `UTC+0530`
            None if number.len() == 4 && number.is_ascii() => number.split_at(2),
            None => (number, "0"),
        };
        let (hours, minutes) = (hours.parse().ok()?, minutes.parse().ok()?);
        let is_east = !offset.starts_with('-');
        let is_offset = hours <= 24 && minutes < 60 && (hours, minutes) != (0, 0);
        is_offset.then_some(Self {
            is_east,
            hours,
            minutes,
        })
    }

    /// Returns a name for what people mean that says so to everyone.
    pub fn clear_name(&self) -> String {
        let (sign, opposite) = if self.is_east { ('+', '-') } else { ('-', '+') };
        let Self { hours, minutes, .. } = self;
        let last = if self.is_east { 14 } else { 12 };
        if *minutes == 0 && *hours <= last {
            // PostgreSQL and the zoneinfo have the signs of POSIX there
            format!("Etc/GMT{opposite}{hours}")
        } else {
            let offset = format!("{hours:02}:{minutes:02}");
            format!("<{sign}{offset}>{opposite}{offset}")
        }
    }
}

/// In PostgreSQL, unlike POSIX, an abbreviation may be short, missing, or `<+05:30>`.
fn posix(name: &str) -> Option<TimeZone> {
    let after_abbreviation = match name.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?.1,
        None => name.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    // PostgreSQL reads a bare number as hours eastward and displays it differently
    if after_abbreviation == name && !name.contains(':') {
        return None;
    }
    let standard = format!("{ABBREVIATION}{after_abbreviation}");
    TimeZone::posix(&standard)
        .or_else(|_| TimeZone::posix(&format!("{standard}{DEFAULT_RULE}")))
        .ok()
}
