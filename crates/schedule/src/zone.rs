//! Time zones by the names that PostgreSQL takes.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// When daylight saving time begins and ends in a POSIX zone that does not say it, as PostgreSQL
/// has it.
const DEFAULT_RULE: &str = ",M3.2.0,M11.1.0";

/// Stands for any, since schedules have no use for it.
const ABBREVIATION: &str = "STD";

const LONGEST: usize = 255;

/// The zone of an IANA name (in any case), `localtime`, or a POSIX string (`<+03>-03`, `PST8PDT`,
/// `GMT0`); None if there is none of that name.
///
/// The system's zoneinfo comes first; a copy that is built in has the names that it lacks. A POSIX
/// offset counts westward, as in PostgreSQL.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name.len() > LONGEST {
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

/// PostgreSQL lets an abbreviation be short, left out, or `<+05:30>`, none of which is POSIX.
fn posix(name: &str) -> Option<TimeZone> {
    let after_abbreviation = match name.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?.1,
        None => name.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    // A bare number is hours eastward to PostgreSQL, which shows it in another way.
    if after_abbreviation == name && !name.contains(':') {
        return None;
    }
    let standard = format!("{ABBREVIATION}{after_abbreviation}");
    TimeZone::posix(&standard)
        .or_else(|_| TimeZone::posix(&format!("{standard}{DEFAULT_RULE}")))
        .ok()
}
