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
