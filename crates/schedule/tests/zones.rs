//! Which names are time zones, and that no zone is too strange.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use rag_schedule::{Schedule, Timestamp, zone};

#[test]
fn zones_have_the_names_that_postgres_accepts() {
    // Seconds east of UTC on 1 July 2026, as PostgreSQL 15 has them after SET TimeZone.
    let cases = [
        ("UTC", 0),
        ("Etc/UTC", 0),
        ("GMT0", 0),
        ("Europe/Berlin", 7200),
        ("europe/berlin", 7200),
        ("US/Pacific", -25200),
        ("posix/US/Pacific", -25200),
        ("America/Argentina/Buenos_Aires", -10800),
        ("Asia/Kolkata", 19800),
        ("Etc/GMT+5", -18000),
        ("EST", -18000),
        ("PST8PDT", -25200),
        ("EST5EDT", -14400),
        ("GMT+3", -10800),
        ("<+03>-03", 10800),
        ("<-07>+07", -25200),
        ("<+05:30>-05:30", 19800),
        ("<-08:30>+08:30", -30600),
        ("+05:30", -19800),
        ("A5", -18000),
        ("AAA5BBB", -14400),
        ("AAA5BBB,M3.2.0,M11.1.0", -14400),
        ("CET-1CEST,M3.5.0,M10.5.0/3", 7200),
    ];
    let summer: Timestamp = "2026-07-01T00:00:00Z".parse().unwrap();
    for (name, seconds) in cases {
        let found = zone(name).unwrap_or_else(|| panic!("no zone {name}"));
        assert_eq!(found.to_offset(summer).seconds(), seconds, "{name}");
    }
    assert!(zone("localtime").is_some());
}

#[test]
fn unknown_names_are_not_zones() {
    let long = "A".repeat(100_000);
    for name in [
        "",
        " ",
        "Foo/Bar",
        "FooBar",
        "Etc/Unknown",
        "../../etc/passwd",
        "/etc/localtime",
        "zone.tab",
        "tzdata.zi",
        "5",
    ] {
        assert!(zone(name).is_none(), "{name:?}");
    }
    for name in [
        "+05",
        "-7",
        "5.5",
        "<",
        "<+03",
        "<>",
        "\u{e9}5",
        "UTC\0",
        "A99999999999999999999",
        &long,
    ] {
        assert!(zone(name).is_none(), "{name:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_name_is_a_zone_or_is_not(name in "[-+<>:,./A-Za-z0-9 \u{e9}]{0,30}") {
        let _ = zone(&name);
    }

    /// Changes by up to two days, twice within hours, at any time of the year.
    #[test]
    fn times_go_up_in_the_strangest_zone(
        (standard, daylight) in (-24i32..=24, -24i32..=24),
        (begin, end) in (1u32..=365, 1u32..=365),
        (begin_hour, end_hour) in (-167i32..=167, -167i32..=167),
        fields in prop::sample::select(vec![
            "* * * * *", "*/7 * * * *", "* 1 * * *", "30 2 * * *", "0 0 * * *", "59 23 * * mon", "0 0 1 1 *",
            "*/10 0-22 * * *", "0 12 29 2 *", "30 2 11 3 *", "* 0-22 1-3 * *",
        ]),
        after in 0i64..4_000_000_000,
    ) {
        let name = format!("XXX{standard}YYY{daylight},J{begin}/{begin_hour},J{end}/{end_hour}");
        let zone = zone(&name).ok_or_else(|| TestCaseError::fail(format!("no zone {name}")))?;
        let schedule = Schedule::parse(fields).unwrap();
        let mut last = Timestamp::from_second(after).unwrap();
        for _ in 0..20 {
            let Some(next) = schedule.next(last, &zone) else { break };
            prop_assert!(next > last, "{} in {}: {} after {}", fields, name, next, last);
            last = next;
        }
    }
}

#[test]
fn offsets_of_utc_have_two_readings() {
    let hint = |zone| {
        let error = Schedule::parse(&format!("CRON_TZ={zone} 0 1 * * *")).unwrap_err();
        error.hint.unwrap()
    };
    for (zone, clear) in [
        ("UTC+2", "Etc/GMT-2"),
        ("UTC-2", "Etc/GMT+2"),
        ("GMT+14", "Etc/GMT-14"),
        ("UTC-12", "Etc/GMT+12"),
        ("UTC+02", "Etc/GMT-2"),
        ("UTC+02:00", "Etc/GMT-2"),
        ("utc+0200", "Etc/GMT-2"),
        ("Z+1", "Etc/GMT-1"),
        ("UTC+5:30", "<+05:30>-05:30"),
        ("UTC-0330", "<-03:30>+03:30"),
        ("UTC-14", "<-14:00>+14:00"),
    ] {
        let expected = format!(
            "For the clocks that are called {zone} write CRON_TZ={clear}, or a name such as \
             Europe/Berlin."
        );
        assert_eq!(hint(zone), expected);
        assert!(
            Schedule::parse(&format!("CRON_TZ={clear} 0 1 * * *")).is_ok(),
            "{clear}"
        );
    }
    for zone in [
        "UTC",
        "GMT0",
        "GMT+0",
        "GMT-0",
        "UTC+0",
        "UTC0",
        "Etc/GMT-2",
        "Etc/GMT+2",
        "<+03>-03",
        "PST8PDT",
        "EST5EDT",
        "Etc/UTC",
        "UCT",
        "Zulu",
    ] {
        assert!(
            Schedule::parse(&format!("CRON_TZ={zone} 0 1 * * *")).is_ok(),
            "{zone}"
        );
    }
    for zone in [
        "UTC+",
        "UTC+x",
        "UTC+2x",
        "UTC+999999999999",
        "UTC+\u{fc}\u{fc}",
    ] {
        assert!(
            hint(zone).starts_with("Write CRON_TZ= and a name"),
            "{zone}"
        );
    }
}
