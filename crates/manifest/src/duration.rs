//! Durations, written as [`rag_schedule::duration`] reads them: `1h30m`, `90s`, `0.25s`.

use std::time::Duration;

/// Writes a duration in the largest units: `1h30m`, `1.5s`, `0s`.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rag_schedule::duration;

    use super::*;

    #[test]
    fn durations_are_written_in_the_largest_units() {
        for (seconds, text) in [
            (0.0, "0s"),
            (90.0, "1m30s"),
            (3600.0, "1h"),
            (5400.0, "1h30m"),
            (3601.0, "1h1s"),
            (0.25, "0.25s"),
        ] {
            assert_eq!(duration_text(Duration::from_secs_f64(seconds)), text);
        }
    }

    proptest! {
        #[test]
        fn written_durations_are_read_back(seconds in 0..9_223_372_036_u64, nanos in 0..1_000_000_000_u32) {
            let given = Duration::new(seconds, nanos);
            prop_assert_eq!(duration(&duration_text(given)), Ok(given));
        }
    }
}
