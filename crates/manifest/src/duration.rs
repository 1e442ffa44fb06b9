//! Durations as Go writes them: `1h30m`, `90s`, `1.5h`, `250ms`.

use std::time::Duration;

const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// Units and their nanoseconds; longer names before their prefixes.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", NANOS_PER_SECOND),
    ("m", 60 * NANOS_PER_SECOND),
    ("h", 3600 * NANOS_PER_SECOND),
];

/// Parses numbers, fractions allowed, each with its unit. `None`: it is none, it is negative, or it is too long.
pub fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let whole = take_digits(&mut rest);
        let fraction = match rest.strip_prefix('.') {
            Some(after) => {
                rest = after;
                take_digits(&mut rest)
            }
            None => "",
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (unit, size) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        if !whole.is_empty() {
            nanos = nanos.checked_add(whole.parse::<u64>().ok().map(u128::from)?.checked_mul(*size)?)?;
        }
        // Digits beyond these make no nanosecond of any unit.
        let fraction = &fraction[..fraction.len().min(18)];
        if !fraction.is_empty() {
            nanos = nanos.checked_add(fraction.parse::<u128>().ok()? * size / 10_u128.pow(fraction.len() as u32))?;
        }
    }
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).ok()?;
    Some(Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32))
}

/// Writes what [`duration`] reads: `1h30m`, `1.5s`, `0s`.
pub fn duration_text(duration: Duration) -> String {
    let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
    let (seconds, nanos) = (duration.as_secs() % 60, duration.subsec_nanos());
    let mut text = String::new();
    if hours > 0 {
        text += &format!("{hours}h");
    }
    if minutes > 0 {
        text += &format!("{minutes}m");
    }
    if nanos > 0 {
        text += format!("{seconds}.{nanos:09}").trim_end_matches('0');
        text.push('s');
    } else if seconds > 0 || text.is_empty() {
        text += &format!("{seconds}s");
    }
    text
}

fn take_digits<'a>(rest: &mut &'a str) -> &'a str {
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at(length);
    *rest = after;
    digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_of_go_are_read() {
        for (text, seconds) in [
            ("1h30m", 5400.0),
            ("90s", 90.0),
            ("1.5h", 5400.0),
            (".5m", 30.0),
            ("1.m", 60.0),
            ("250ms", 0.25),
            ("1m0.5s", 60.5),
            ("30m1h", 5400.0),
            ("3us", 3e-6),
            ("3µs", 3e-6),
            ("3μs", 3e-6),
            ("7ns", 7e-9),
            ("+1s", 1.0),
            ("0", 0.0),
            ("0s", 0.0),
            ("0.3333333333333333333333h", 1_199.999_999_999),
        ] {
            assert_eq!(duration(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "1", "h", "1 h", "1h ", "-1h", "1d", "1h30", ".s", "1..2s", "1e3s", "99999999999999999999h"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(duration("18446744073709551615h"), None);
        assert_eq!(duration("18446744073709551615s"), Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn durations_are_written_in_the_largest_units() {
        for (seconds, text) in
            [(0.0, "0s"), (90.0, "1m30s"), (3600.0, "1h"), (5400.0, "1h30m"), (3601.0, "1h1s"), (0.25, "0.25s")]
        {
            assert_eq!(duration_text(Duration::from_secs_f64(seconds)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(seconds in any::<u64>(), nanos in 0..1_000_000_000_u32) {
            let given = Duration::new(seconds, nanos);
            prop_assert_eq!(duration(&duration_text(given)), Some(given));
        }

        #[test]
        fn any_text_is_answered(text in "[-+0-9.hmnuµs ]{0,30}|\\PC{0,20}") {
            let _ = duration(&text);
        }
    }
}
