//! Durations in the format of Go: `1h30m`, `1.5h`, `300ms`.

use std::time::Duration;

use crate::error::{ParseError, Result};
use crate::text::Part;

/// The nanoseconds of each unit. There are two characters that look like a mu.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

const SECOND: u128 = 1_000_000_000;

/// Go stores nanoseconds in 63 bits: 292 years.
const MAX_NANOSECONDS: u128 = i64::MAX as u128;

const HINT: &str =
    "Write numbers with units, such as 1h30m, 90s or 1.5h. Units: h, m, s, ms, us, ns.";

/// Parses numbers, which may have fractions, each with its unit. `0` needs no unit.
///
/// # Errors
/// It is not a duration, is negative, or is longer than 292 years.
pub fn duration(text: &str) -> Result<Duration> {
    nanoseconds(Part { text, position: 1 }).map(Duration::from_nanos)
}

/// Parses a positive duration. Returns whole seconds, at least one.
pub(crate) fn seconds(whole: Part) -> Result<i64> {
    match Duration::from_nanos(nanoseconds(whole)?) {
        Duration::ZERO => error(whole, format!("{} is not positive", whole.quoted())),
        duration => Ok(duration.as_secs().max(1).cast_signed()),
    }
}

fn nanoseconds(whole: Part) -> Result<u64> {
    if whole.text.is_empty() {
        return error(whole, "it is missing".to_owned());
    }
    if whole.text.starts_with('-') {
        return error(whole, format!("{} is negative", whole.quoted()));
    }
    let mut rest = whole.split_at(usize::from(whole.text.starts_with('+'))).1;
    if rest.text == "0" {
        return Ok(0);
    }
    let mut total = 0;
    loop {
        let (number, after) = rest.split_at(run(rest.text, |c| c.is_ascii_digit() || c == '.'));
        let (unit, after) = after.split_at(run(after.text, |c| !c.is_ascii_digit() && c != '.'));
        let Some(number_of) = Decimal::parse(number.text) else {
            return error(
                rest,
                format!("{} does not begin with a number", rest.quoted()),
            );
        };
        let Some((_, nanoseconds)) = UNITS.into_iter().find(|(name, _)| *name == unit.text) else {
            return match unit.text {
                "" => error(unit, format!("there is no unit after {}", number.quoted())),
                _ => error(unit, format!("unknown unit {}", unit.quoted())),
            };
        };
        total = match number_of.times(nanoseconds) {
            Some(part) if total + part <= MAX_NANOSECONDS => total + part,
            _ => {
                return error(
                    whole,
                    format!("{} is longer than 292 years", whole.quoted()),
                );
            }
        };
        rest = after;
        if rest.text.is_empty() {
            return Ok(u64::try_from(total).unwrap_or(u64::MAX));
        }
    }
}

fn error<T>(part: Part, problem: String) -> Result<T> {
    Err(ParseError::new("duration", part.position, problem).hint(HINT))
}

/// Returns the number of bytes at the beginning of `text` whose characters match.
fn run(text: &str, of_kind: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of_kind(c)).unwrap_or(text.len())
}

/// A decimal number. It may begin or end with the point.
struct Decimal {
    whole: u128,
    fraction: u128,
    scale: u128,
}

impl Decimal {
    /// A number with too many digits becomes too large for a duration. Excess digits of a fraction
    /// are ignored.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let saturating = |digits: &str| {
            let digit = |number: u128, byte: u8| {
                number
                    .saturating_mul(10)
                    .saturating_add((byte - b'0').into())
            };
            digits.bytes().fold(0, digit)
        };
        // 18 digits are more than a nanosecond of an hour needs.
        let fraction = &fraction[..fraction.len().min(18)];
        let scale = 10_u128.pow(fraction.len() as u32);
        Some(Decimal {
            whole: saturating(whole),
            fraction: saturating(fraction),
            scale,
        })
    }

    /// Returns `None` if the result is too large.
    fn times(&self, unit: u128) -> Option<u128> {
        let part = self
            .whole
            .checked_mul(unit)?
            .checked_add(self.fraction * unit / self.scale)?;
        (part <= MAX_NANOSECONDS).then_some(part)
    }
}
