//! Dates of sitemaps and feeds, as far as they say a moment.

use jiff::{Timestamp, Zoned, civil, fmt::rfc2822, fmt::temporal, tz::TimeZone};

/// A date that is written somewhere: at a moment, or on a day of an unknown time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Date {
    /// In ISO 8601: a moment in UTC, or a day.
    pub text: String,
    /// The last moment that can be meant, in seconds since 1970.
    pub latest: i64,
}

/// The greatest distance of a local time from UTC.
const MAX_OFFSET: i64 = 12 * 3600;
const DAY: i64 = 24 * 3600;

impl Date {
    /// Reads `2026-01-31`, `2026-01-31T12:00:00+01:00` or `Sat, 31 Jan 2026 12:00:00 GMT`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > 100 {
            return None;
        }
        static LINES: rfc2822::DateTimeParser =
            rfc2822::DateTimeParser::new().relaxed_weekday(true);
        static ISO: temporal::DateTimeParser = temporal::DateTimeParser::new();
        let moment: Option<Timestamp> = ISO
            .parse_timestamp(text)
            .ok()
            .or_else(|| LINES.parse_timestamp(text).ok());
        if let Some(moment) = moment {
            return Some(Self {
                text: moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                latest: moment.as_second(),
            });
        }
        let seconds = |time: civil::DateTime| -> Option<i64> {
            let utc: Zoned = time.to_zoned(TimeZone::UTC).ok()?;
            Some(utc.timestamp().as_second())
        };
        let padded = match text.len() {
            4 => format!("{text}-12-31"),
            7 => format!("{text}-28"),
            _ => text.to_owned(),
        };
        let is_day = padded.len() == 10;
        let time = ISO.parse_datetime(&padded).ok()?;
        let end = match (is_day, text.len()) {
            // the last day of a month is not known
            (true, 7) => seconds(time)? + 4 * DAY,
            (true, _) => seconds(time)? + DAY,
            (false, _) => seconds(time)?,
        };
        Some(Self {
            text: text.to_owned(),
            latest: end + MAX_OFFSET,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_say_the_latest_moment() {
        // 2026-01-31T00:00:00Z
        const DAY_BEGINS: i64 = 1_769_817_600;
        for (text, expected, latest) in [
            ("2026-01-31T01:00:00Z", "2026-01-31T01:00:00Z", 3600),
            (" 2026-01-31T01:00:00.5+01:00 ", "2026-01-31T00:00:00Z", 0),
            ("2026-01-31T01:00+01:00", "2026-01-31T00:00:00Z", 0),
            (
                "Sat, 31 Jan 2026 01:00:00 GMT",
                "2026-01-31T01:00:00Z",
                3600,
            ),
            ("31 Jan 2026 01:00:00 +0100", "2026-01-31T00:00:00Z", 0),
            (
                "Mon, 31 Jan 2026 01:00:00 EST",
                "2026-01-31T06:00:00Z",
                6 * 3600,
            ),
            ("2026-01-31", "2026-01-31", 36 * 3600),
            ("2026-01-31T01:00:00", "2026-01-31T01:00:00", 13 * 3600),
            ("2026-01", "2026-01", 13 * 3600 + 23 * 3600),
        ] {
            let date = Date::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(date.text, expected, "{text}");
            assert_eq!(date.latest - DAY_BEGINS, latest, "{text}");
        }
        for text in ["", "yesterday", "2026-13-01", "31/01/2026", "0"] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
        assert!(Date::parse(&"2".repeat(1000)).is_none());
    }
}
