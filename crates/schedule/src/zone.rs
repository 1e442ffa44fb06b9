//! Time zones by the names that PostgreSQL takes.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// When daylight saving time begins and ends in a POSIX zone that does not say it, as PostgreSQL has it.
const DEFAULT_RULE: &str = ",M3.2.0,M11.1.0";

/// The zone of an IANA name (in any case), `localtime`, or a POSIX string (`<+03>-03`, `PST8PDT`, `GMT0`); None if
/// there is none of that name.
///
/// The system's zoneinfo comes first; a copy that is built in has the names that it lacks. A POSIX offset counts
/// westward, as in PostgreSQL.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name.len() > 255 {
        return None;
    }
    named(name)
        .or_else(|| name.eq_ignore_ascii_case("localtime").then(|| TimeZone::try_system().ok()).flatten())
        .filter(|zone| !zone.is_unknown())
        .or_else(|| posix(name))
}

fn named(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)).ok()
}

fn posix(name: &str) -> Option<TimeZone> {
    TimeZone::posix(name).or_else(|_| TimeZone::posix(&format!("{name}{DEFAULT_RULE}"))).ok()
}
