//! ISO 8601 times: recognized before PostgreSQL reads them, because its cast raises an error for
//! other text.
//!
//! Accepted: `2024-02-29`, with a time after `T` or one space (`10:30`, `10:30:15`,
//! `10:30:15.123456`), and then a zone (`Z`, `+02`, `+0200`, `+02:00`, also after one space). Years
//! are 0001 to 9999, days must exist, offsets are below 16 hours. Without a zone PostgreSQL uses
//! the session's `TimeZone`.
//!
//! [`parse`] decides for a value in a filter, [`PATTERN`] for a value in a row's metadata. They
//! accept the same texts, which the crate's test against a server checks.

use crate::condition::Timestamp;

/// A POSIX regular expression for the body of an SQL literal: no quote, no backslash.
pub(crate) const PATTERN: &str = concat!(
    "^(?!0000)(?:",
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])",
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)",
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))",
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29",
    ")(?:[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,9})?)?",
    "(?: ?(?:[Zz]|[+-](?:0[0-9]|1[0-5])(?::?[0-5][0-9])?))?)?$",
);

/// Returns the text as a timestamp, if it is one.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let mut rest = Reader(text.as_bytes());
    let year = rest.number(4, 1..=9999)?;
    rest.one_of(b"-")?;
    let month = rest.number(2, 1..=12)?;
    rest.one_of(b"-")?;
    rest.number(2, 1..=days_in(year, month))?;
    if rest.one_of(b"Tt ").is_some() {
        rest.time()?;
        rest.zone()?;
    }
    rest.0.is_empty().then(|| Timestamp(text.to_owned()))
}

/// Returns true for a text that begins with a date of another form: `01.06.2026`, `6/1/26`. Such
/// texts are not in the order of time.
pub(crate) fn is_other_date(text: &str) -> bool {
    let date = text.split([' ', 'T']).next().unwrap_or_default();
    let is_part = |part: &str| {
        (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let has_parts = |separator| {
        let parts: Vec<&str> = date.split(separator).collect();
        parts.len() == 3 && parts.into_iter().all(is_part)
    };
    parse(text).is_none() && ['.', '/', '-'].into_iter().any(has_parts)
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => 31,
    }
}

/// The rest of the text.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        bytes.contains(&first).then(|| {
            self.0 = rest;
            first
        })
    }

    /// Parses this number of digits, of a number in the range.
    fn number(&mut self, digits: usize, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        let (head, rest) = self.0.split_at_checked(digits)?;
        let number = head.iter().try_fold(0, |sum, &byte| {
            Some(sum * 10 + char::from(byte).to_digit(10)?)
        })?;
        self.0 = rest;
        range.contains(&number).then_some(number)
    }

    fn time(&mut self) -> Option<()> {
        self.number(2, 0..=23)?;
        self.one_of(b":")?;
        self.number(2, 0..=59)?;
        if self.one_of(b":").is_some() {
            self.number(2, 0..=59)?;
            if self.one_of(b".").is_some() {
                let digits = self
                    .0
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                self.0 = &self.0[digits..];
                return (1..=9).contains(&digits).then_some(());
            }
        }
        Some(())
    }

    /// Parses a zone or the end of the text.
    fn zone(&mut self) -> Option<()> {
        if self.0.is_empty() {
            return Some(());
        }
        self.one_of(b" ");
        if self.one_of(b"Zz").is_none() {
            self.one_of(b"+-")?;
            self.number(2, 0..=15)?;
            if self.one_of(b":").is_some() || !self.0.is_empty() {
                self.number(2, 0..=59)?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_other_forms_are_recognized() {
        for text in [
            "01.06.2026",
            "6/1/26",
            "2026/06/01",
            "2026-6-1",
            "1-6-2026 10:30",
        ] {
            assert!(is_other_date(text), "{text}");
        }
        for text in [
            "2026-06-01",
            "2026-06-01T10:30",
            "2026",
            "06.2026",
            "1.2.3.4",
            "a.b.c",
            "",
        ] {
            assert!(!is_other_date(text), "{text}");
        }
    }
}
