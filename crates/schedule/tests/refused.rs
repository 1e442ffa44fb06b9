//! Schedules that are refused, with the position and the message.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use rag_schedule::{MAX_LENGTH, Schedule};

#[test]
fn every_mistake_is_reported_with_field_and_position() {
    let cases = [
        // The whole.
        ("", "schedule", 1, "it is empty"),
        (" \t\n", "schedule", 4, "it is empty"),
        (
            "TZ=UTC",
            "schedule",
            7,
            "there is no schedule after the time zone",
        ),
        (
            "* * * *",
            "schedule",
            8,
            "expected 5 fields, found 4: the day of week is missing",
        ),
        (
            "5",
            "schedule",
            2,
            "expected 5 fields, found 1: the hour is missing",
        ),
        (
            "xyz ",
            "schedule",
            4,
            "expected 5 fields, found 1: the hour is missing",
        ),
        ("0 0 5 * * *", "schedule", 11, "expected 5 fields, found 6"),
        (
            "* * * * * * *",
            "schedule",
            11,
            "expected 5 fields, found 7",
        ),
        (
            "reboot",
            "schedule",
            7,
            "expected 5 fields, found 1: the hour is missing",
        ),
        // Out of range.
        ("60 * * * *", "minute", 1, "60 is above the maximum of 59"),
        ("  60 * * * *", "minute", 3, "60 is above the maximum of 59"),
        ("0 24 * * *", "hour", 3, "24 is above the maximum of 23"),
        (
            "0 0 0 * *",
            "day of month",
            5,
            "0 is below the minimum of 1",
        ),
        (
            "0 0 32 * *",
            "day of month",
            5,
            "32 is above the maximum of 31",
        ),
        ("0 0 * 0 *", "month", 7, "0 is below the minimum of 1"),
        ("0 0 * 13 *", "month", 7, "13 is above the maximum of 12"),
        ("0 0 * * 7", "day of week", 9, "7 is above the maximum of 6"),
        (
            "0 0 * * 5-7",
            "day of week",
            11,
            "7 is above the maximum of 6",
        ),
        ("0 0 * * 8", "day of week", 9, "8 is above the maximum of 6"),
        (
            "0 0 0-5 * *",
            "day of month",
            5,
            "0 is below the minimum of 1",
        ),
        (
            "1,2,60,70 * * * *",
            "minute",
            5,
            "60 is above the maximum of 59",
        ),
        (
            "10-60 * * * *",
            "minute",
            4,
            "60 is above the maximum of 59",
        ),
        ("70/5 * * * *", "minute", 1, "70 is above the maximum of 59"),
        (
            "4294967296 * * * *",
            "minute",
            1,
            "\"4294967296\" is above the maximum of 59",
        ),
        // Not a value.
        ("x * * * *", "minute", 1, "\"x\" is not a number"),
        ("* 5 j * *", "day of month", 5, "\"j\" is not a number"),
        (
            "0 0 * XYZ *",
            "month",
            7,
            "\"XYZ\" is not a number or a name",
        ),
        (
            "0 0 * january *",
            "month",
            7,
            "\"january\" is not a number or a name",
        ),
        (
            "0 0 * mon *",
            "month",
            7,
            "\"mon\" is not a number or a name",
        ),
        (
            "0 0 * * jan-x",
            "day of week",
            9,
            "\"jan\" is not a number or a name",
        ),
        (
            "0 0 * jan-x *",
            "month",
            11,
            "\"x\" is not a number or a name",
        ),
        ("0 0 L * *", "day of month", 5, "\"L\" is not a number"),
        (
            "0 0 * * 5#2",
            "day of week",
            9,
            "\"5#2\" is not a number or a name",
        ),
        ("+5 * * * *", "minute", 1, "\"+5\" is not a number"),
        ("1.5 * * * *", "minute", 1, "\"1.5\" is not a number"),
        ("0x10 * * * *", "minute", 1, "\"0x10\" is not a number"),
        (
            "\u{665} * * * *",
            "minute",
            1,
            "\"\u{665}\" is not a number",
        ),
        (
            "0 \u{e9}\u{e9} * * x",
            "hour",
            3,
            "\"\u{e9}\u{e9}\" is not a number",
        ),
        (
            "\u{e9},\u{e9} * * * *",
            "minute",
            1,
            "\"\u{e9}\" is not a number",
        ),
        (
            "1,\u{e9} * * * *",
            "minute",
            3,
            "\"\u{e9}\" is not a number",
        ),
        ("** * * * *", "minute", 1, "\"**\" is not a number"),
        // Ranges.
        ("-5 * * * *", "minute", 1, "a value is missing"),
        ("5- * * * *", "minute", 3, "a value is missing"),
        ("- * * * *", "minute", 1, "a value is missing"),
        (
            "5-10-15 * * * *",
            "minute",
            5,
            "\"5-10-15\" has too many hyphens",
        ),
        ("5--5 * * * *", "minute", 3, "\"5--5\" has too many hyphens"),
        (
            "0 22-5 * * *",
            "hour",
            3,
            "the range \"22-5\" ends before it begins",
        ),
        (
            "0 0 * * fri-mon",
            "day of week",
            9,
            "the range \"fri-mon\" ends before it begins",
        ),
        (
            "*-12 * * * *",
            "minute",
            1,
            "* means all values and cannot begin a range",
        ),
        (
            "0 ?-12/2 * * *",
            "hour",
            3,
            "? means all values and cannot begin a range",
        ),
        ("5-* * * * *", "minute", 3, "\"*\" is not a number"),
        // Steps.
        (
            "*/0 * * * *",
            "minute",
            3,
            "the step \"0\" is not a positive number",
        ),
        (
            "15/0 * * * *",
            "minute",
            4,
            "the step \"0\" is not a positive number",
        ),
        (
            "*/-12 * * * *",
            "minute",
            3,
            "the step \"-12\" is not a positive number",
        ),
        (
            "*/+2 * * * *",
            "minute",
            3,
            "the step \"+2\" is not a positive number",
        ),
        ("*/ * * * *", "minute", 3, "the step is missing"),
        ("/5 * * * *", "minute", 1, "a value is missing"),
        ("*//2 * * * *", "minute", 3, "\"*//2\" has too many slashes"),
        (
            "0 1-9/2/3 * * *",
            "hour",
            8,
            "\"1-9/2/3\" has too many slashes",
        ),
        (
            "0 0 * * */mon",
            "day of week",
            11,
            "the step \"mon\" is not a positive number",
        ),
        // Lists.
        ("1,,2 * * * *", "minute", 3, "an item of the list is empty"),
        (", * * * *", "minute", 1, "an item of the list is empty"),
        ("0 1, * * *", "hour", 5, "an item of the list is empty"),
        // Days that never come.
        (
            "0 0 30 2 *",
            "day of month",
            5,
            "day \"30\" does not exist in month \"2\"",
        ),
        (
            "0 0 30,31 Feb ?",
            "day of month",
            5,
            "day \"30,31\" does not exist in month \"Feb\"",
        ),
        (
            "TZ=UTC 0 0 31 4,jun,9-11/2 *",
            "day of month",
            12,
            "day \"31\" does not exist in month \"4,jun,9-11/2\"",
        ),
        // Descriptors.
        (
            "@unrecognized",
            "descriptor",
            1,
            "unknown descriptor \"@unrecognized\"",
        ),
        (" @", "descriptor", 2, "unknown descriptor \"@\""),
        ("@Daily", "descriptor", 1, "unknown descriptor \"@Daily\""),
        (
            "TZ=UTC @dayly",
            "descriptor",
            8,
            "unknown descriptor \"@dayly\"",
        ),
        (
            "@daily 5",
            "descriptor",
            8,
            "nothing may follow @daily, found \"5\"",
        ),
        (
            "@reboot now",
            "descriptor",
            9,
            "nothing may follow @reboot, found \"now\"",
        ),
        // Durations.
        ("@every", "duration", 7, "it is missing"),
        ("@every ", "duration", 7, "it is missing"),
        (
            "@every Xm",
            "duration",
            8,
            "\"Xm\" does not begin with a number",
        ),
        ("@every 5", "duration", 9, "there is no unit after \"5\""),
        ("@every 5d", "duration", 9, "unknown unit \"d\""),
        ("@every 1h 30m", "duration", 9, "unknown unit \"h \""),
        (
            "@every 1h30",
            "duration",
            12,
            "there is no unit after \"30\"",
        ),
        ("@every 1h0", "duration", 11, "there is no unit after \"0\""),
        ("@every 1H", "duration", 9, "unknown unit \"H\""),
        ("@every -5m", "duration", 8, "\"-5m\" is negative"),
        ("@every 0", "duration", 8, "\"0\" is not positive"),
        ("@every +0", "duration", 8, "\"+0\" is not positive"),
        ("@every 0h0m", "duration", 8, "\"0h0m\" is not positive"),
        ("@every 0.1ns", "duration", 8, "\"0.1ns\" is not positive"),
        (
            "@every .m",
            "duration",
            8,
            "\".m\" does not begin with a number",
        ),
        (
            "@every 1.2.3m",
            "duration",
            8,
            "\"1.2.3m\" does not begin with a number",
        ),
        (
            "@every +",
            "duration",
            9,
            "\"\" does not begin with a number",
        ),
        ("@every 1h-5m", "duration", 9, "unknown unit \"h-\""),
        (
            "@every 2562048h",
            "duration",
            8,
            "\"2562048h\" is longer than 292 years",
        ),
        (
            "@every 99999999999999999999999999999999999999999h",
            "duration",
            8,
            "\"999999999999999999999999999999\"... is longer than 292 years",
        ),
        // Time zones.
        ("TZ= * * * * *", "time zone", 4, "the name is missing"),
        ("CRON_TZ=", "time zone", 9, "the name is missing"),
        (
            "CRON_TZ=Foo/Bar * * * * *",
            "time zone",
            9,
            "unknown time zone \"Foo/Bar\"",
        ),
        (
            "TZ=../../etc/passwd * * * * *",
            "time zone",
            4,
            "unknown time zone \"../../etc/passwd\"",
        ),
        (
            "TZ=+05:30 * * * * *",
            "time zone",
            4,
            "\"+05:30\" is an offset, not the name of a time zone",
        ),
        (
            "TZ=5 * * * * *",
            "time zone",
            4,
            "\"5\" is an offset, not the name of a time zone",
        ),
        (
            "CRON_TZ=UTC+2 0 1 * * *",
            "time zone",
            9,
            "\"UTC+2\" can be read as east or west of UTC",
        ),
        (
            "TZ=gmt-5:30 @daily",
            "time zone",
            4,
            "\"gmt-5:30\" can be read as east or west of UTC",
        ),
        (
            "TZ=UTC2 @daily",
            "time zone",
            4,
            "\"UTC2\" can be read as east or west of UTC",
        ),
        // Positions count behind a time zone, and in characters.
        (
            "TZ=UTC 61 * * * *",
            "minute",
            8,
            "61 is above the maximum of 59",
        ),
        (
            "CRON_TZ=Europe/Berlin  0 25 * * *",
            "hour",
            26,
            "25 is above the maximum of 23",
        ),
        (
            "\u{2003}0 25 * * *",
            "hour",
            4,
            "25 is above the maximum of 23",
        ),
    ];
    for (text, field, position, problem) in cases {
        let error = match Schedule::parse(text) {
            Ok(schedule) => panic!("{text:?} was accepted: {schedule:?}"),
            Err(error) => error,
        };
        assert_eq!(
            (error.field, error.position, &error.problem[..]),
            (field, position, problem),
            "{text:?}"
        );
        assert_eq!(
            error.to_string(),
            format!("invalid {field} at character {position}: {problem}")
        );
        assert!(
            error.hint.is_some_and(|hint| hint.ends_with('.')),
            "{text:?}: no hint"
        );
    }
}

#[test]
fn hints_show_a_correct_form() {
    let hint = |text| Schedule::parse(text).unwrap_err().hint.unwrap();
    assert_eq!(hint("0 0 * * 7"), "Sunday is 0.");
    assert_eq!(hint("0 22-5 * * *"), "Write two ranges: 22-23,0-5.");
    assert_eq!(hint("0 0 * * fri-mon"), "Write two ranges: 5-6,0-1.");
    assert_eq!(
        hint("0 0 * 13 *"),
        "Months are 1 to 12, or jan to dec. Write * for all."
    );
}

#[test]
fn long_texts_are_refused() {
    let long = |length| format!("{}1 * * * *", "1,".repeat((length - 9) / 2));
    assert!(Schedule::parse(&long(MAX_LENGTH - 1)).is_ok());
    let error = Schedule::parse(&long(MAX_LENGTH + 1)).unwrap_err();
    assert_eq!((error.field, error.position), ("schedule", MAX_LENGTH + 1));
    let error = Schedule::parse(&"\u{e9}".repeat(10_000_000)).unwrap_err();
    assert_eq!((error.field, error.position), ("schedule", MAX_LENGTH + 1));
    let error = Schedule::parse(&format!("{} * * * *", "9".repeat(900))).unwrap_err();
    assert_eq!(
        error.problem,
        format!("\"{}\"... is above the maximum of 59", "9".repeat(30))
    );
}
