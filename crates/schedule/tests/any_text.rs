//! Any text is a schedule with times that go up, or it is refused with a position in it.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rag_schedule::{Schedule, Timestamp, zone};

const FIELDS: [&str; 9] = [
    "minute",
    "hour",
    "day of month",
    "month",
    "day of week",
    "descriptor",
    "duration",
    "time zone",
    "schedule",
];

/// Either it is a schedule with times that go up, or the error points into the text.
fn parse(text: &str) -> Result<(), TestCaseError> {
    match Schedule::parse(text) {
        Ok(schedule) => {
            prop_assert_eq!(schedule.to_string(), text);
            let mut last: Timestamp = "2026-05-31T10:20:30.5Z".parse().unwrap();
            for _ in 0..3 {
                let Some(next) = schedule.next(last, &zone("America/New_York").unwrap()) else {
                    break;
                };
                prop_assert!(next > last, "{}: {} after {}", text, next, last);
                last = next;
            }
        }
        Err(error) => {
            prop_assert!(FIELDS.contains(&error.field));
            prop_assert!(
                (1..=text.chars().count() + 1).contains(&error.position),
                "{:?}: {:?}",
                text,
                error
            );
            prop_assert!(error.to_string().len() < 300, "{}", error);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        parse(&text)?;
    }

    #[test]
    fn any_text_of_a_schedules_letters_is_read_or_refused(
        text in "(TZ=|CRON_TZ=|@|@every )?[-0-9*/?, \t+.:<>a-zA-Z\u{b5}\u{e9}]{0,40}",
    ) {
        parse(&text)?;
    }

    #[test]
    fn any_five_fields_are_read_or_refused(text in "([0-9*?]{1,2}([-/,][0-9a-z]{1,3}){0,2} \
        ){4}[a-z0-6*]{1,3}") {
        parse(&text)?;
    }
}
