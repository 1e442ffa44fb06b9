//! Durations that are accepted, and those that are refused.

use std::time::Duration;

use proptest::prelude::*;
use rag_schedule::duration;

#[test]
fn durations_of_go_are_read() {
    for (text, nanoseconds) in [
        ("1h30m", 5_400_000_000_000),
        ("90s", 90_000_000_000),
        ("1.5h", 5_400_000_000_000),
        (".5m", 30_000_000_000),
        ("1.m", 60_000_000_000),
        ("250ms", 250_000_000),
        ("1.0005s", 1_000_500_000),
        ("1m0.5s", 60_500_000_000),
        ("30m1h", 5_400_000_000_000),
        ("3us", 3_000),
        ("3\u{b5}s", 3_000),
        ("3\u{3bc}s", 3_000),
        ("7ns", 7),
        ("0.1ns", 0),
        ("+1s", 1_000_000_000),
        ("0", 0),
        ("+0", 0),
        ("0s", 0),
        ("0.3333333333333333333333h", 1_199_999_999_999),
        ("9223372036.854775807s", i64::MAX as u64),
    ] {
        assert_eq!(
            duration(text),
            Ok(Duration::from_nanos(nanoseconds)),
            "{text}"
        );
    }
}

#[test]
fn other_texts_are_not_durations() {
    for text in [
        "",
        "+",
        "1",
        "00",
        "h",
        "1 h",
        " 1h",
        "1h ",
        "-1h",
        "-0",
        "+-1s",
        "1d",
        "1h30",
        "1h0",
        ".s",
        "1..2s",
        "1e3s",
        "0x1s",
        "9223372036.854775808s",
        "18446744073709551615h",
        "99999999999999999999999999999999999999999h",
    ] {
        let error = duration(text).expect_err(text);
        assert_eq!(error.field, "duration", "{text}");
        assert!(
            (1..=text.chars().count() + 1).contains(&error.position),
            "{text}: {error:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in "[-+0-9.hmnu\u{b5}s ]{0,30}|\\PC{0,20}") {
        let _ = duration(&text);
    }
}
