//! Texts that are numbers: `4`, `-0.50`. Such a text compares with numbers. `007`, `1e5` and `4 `
//! are plain texts.
//!
//! [`parse`] decides for a value in a filter, [`PATTERN`] for a value in a row's metadata.

use serde_json::Number;

/// A POSIX regular expression for the body of an SQL literal: no quote, no backslash. Any match can
/// be cast to `numeric`.
pub(crate) const PATTERN: &str = "^-?(?:0|[1-9][0-9]{0,99})(?:[.][0-9]{1,100})?$";

/// Maximum number of digits of a fraction that an `f64` represents exactly.
const EXACT_DIGITS: usize = 15;

/// Returns the number that a text is, if an `f64` represents it exactly.
pub(crate) fn parse(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let all_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole)
        || whole.starts_with('0') && whole != "0"
        || !fraction.is_none_or(all_digits)
    {
        return None;
    }
    match fraction {
        None => text.parse().ok().map(|integer: i64| integer.into()),
        Some(fraction) if whole.len() + fraction.len() <= EXACT_DIGITS => {
            Number::from_f64(text.parse().ok()?)
        }
        Some(_) => None,
    }
}

/// Formats a number as in JSON, without a fraction of 0.
pub(crate) fn texts(number: &Number) -> Vec<String> {
    let text = number.to_string();
    match text.strip_suffix(".0") {
        Some(whole) => vec![whole.to_owned(), text],
        None => vec![text],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinguished_from_other_texts() {
        let parsed: Vec<Option<String>> = [
            "4",
            "-4",
            "0",
            "0.50",
            "-12.25",
            "007",
            "1e5",
            "4 ",
            "",
            "-",
            ".5",
            "5.",
            "99999999999999999999",
            "v4",
        ]
        .into_iter()
        .map(|text| parse(text).map(|number| number.to_string()))
        .collect();
        let some = |text: &str| Some(text.to_owned());
        let mut expected = vec![
            some("4"),
            some("-4"),
            some("0"),
            some("0.5"),
            some("-12.25"),
        ];
        expected.resize(parsed.len(), None);
        assert_eq!(parsed, expected);
    }
}
