//! Checks tables of next times.

use rag_schedule::{Schedule, Timestamp, zone};

pub fn time(text: &str) -> Timestamp {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Holds each row's schedule, zone, time and next time against what is computed; an empty time is
/// none.
pub fn check(rows: &[(&str, &str, &str, &str)]) {
    for (schedule, zone_name, after, expected) in rows {
        let parsed =
            Schedule::parse(schedule).unwrap_or_else(|error| panic!("{schedule}: {error}"));
        let next = parsed.next(time(after), &zone(zone_name).unwrap());
        let expected = (!expected.is_empty()).then(|| time(expected));
        assert_eq!(next, expected, "{schedule} in {zone_name} after {after}");
    }
}

/// Checks next times in UTC, with times such as `2012-07-09 15:00`.
pub fn check_utc(rows: &[(&str, &str, &str)]) {
    let rows = rows.iter().map(|(schedule, after, expected)| {
        let utc = |text: &str| format!("{text}{}Z", if text.len() == 16 { ":00" } else { "" });
        (*schedule, utc(after), utc(expected))
    });
    let rows: Vec<_> = rows.collect();
    check(
        &rows
            .iter()
            .map(|(schedule, after, next)| (*schedule, "UTC", &after[..], &next[..]))
            .collect::<Vec<_>>(),
    );
}
