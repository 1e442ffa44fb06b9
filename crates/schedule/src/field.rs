//! The five fields and the values that they allow.

use crate::error::{ParseError, Result};
use crate::text::Part;

pub(crate) struct FieldKind {
    pub name: &'static str,
    min: u32,
    max: u32,
    /// The names of the values, beginning at `min`.
    names: &'static [&'static str],
    hint: &'static str,
}

pub(crate) const MINUTE: FieldKind = FieldKind {
    name: "minute",
    min: 0,
    max: 59,
    names: &[],
    hint: "Minutes are 0 to 59. Write * for all.",
};

pub(crate) const HOUR: FieldKind = FieldKind {
    name: "hour",
    min: 0,
    max: 23,
    names: &[],
    hint: "Hours are 0 to 23. Write * for all.",
};

pub(crate) const DAY: FieldKind = FieldKind {
    name: "day of month",
    min: 1,
    max: 31,
    names: &[],
    hint: "Days of the month are 1 to 31. Write * for all.",
};

pub(crate) const MONTH: FieldKind = FieldKind {
    name: "month",
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
    hint: "Months are 1 to 12, or jan to dec. Write * for all.",
};

pub(crate) const WEEKDAY: FieldKind = FieldKind {
    name: "day of week",
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    hint: "Days of the week are 0 (Sunday) to 6 (Saturday), or sun to sat. Write * for all.",
};

/// The values that a field allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Set {
    /// Bit n for the value n.
    pub bits: u64,
    /// True if there is a `*` or `?` of step 1. Then the other day field decides.
    pub star: bool,
}

impl Set {
    /// Returns the smallest value that is not below `min`.
    pub fn at_least(self, min: u32) -> Option<u32> {
        let bits = self.bits & u64::MAX.checked_shl(min)?;
        (bits != 0).then(|| bits.trailing_zeros())
    }

    pub fn contains(self, value: u32) -> bool {
        self.bits & 1 << value != 0
    }
}

impl FieldKind {
    pub fn all(&self) -> Set {
        self.range(self.min, self.max, 1, true)
    }

    pub fn only(&self, value: u32) -> Set {
        self.range(value, value, 1, false)
    }

    fn range(&self, first: u32, last: u32, step: usize, star: bool) -> Set {
        let bits = (first..=last)
            .step_by(step)
            .fold(0, |bits, value| bits | 1 << value);
        Set { bits, star }
    }

    /// Parses a list.
    pub fn parse(&self, list: Part) -> Result<Set> {
        let mut all = Set {
            bits: 0,
            star: false,
        };
        for item in list.split(',') {
            let set = self.item(item)?;
            all = Set {
                bits: all.bits | set.bits,
                star: all.star || set.star,
            };
        }
        Ok(all)
    }

    /// Parses `*`, `N` or `N-M`, each with an optional step.
    fn item(&self, item: Part) -> Result<Set> {
        if item.text.is_empty() {
            let hint =
                "Write one comma between two values, and none before the first or after the last.";
            return Err(self.error(item, "an item of the list is empty").hint(hint));
        }
        let (range, step) = item.cut('/');
        if let Some(after) = step.and_then(|step| step.cut('/').1) {
            return Err(self.surplus(after, item, "slashes"));
        }
        let (first, last) = range.cut('-');
        if let Some(after) = last.and_then(|last| last.cut('-').1) {
            return Err(self.surplus(after, range, "hyphens"));
        }
        let star = matches!(first.text, "*" | "?");
        let (first, last) = match last {
            Some(_) if star => {
                let problem = format!("{} means all values and cannot begin a range", first.text);
                return Err(self.error(range, problem).hint(self.hint));
            }
            Some(last) => self.ends(range, first, last)?,
            None if star => (self.min, self.max),
            None => {
                let value = self.value(first)?;
                (value, if step.is_some() { self.max } else { value })
            }
        };
        let step = step.map_or(Ok(1), |step| self.step(step))?;
        Ok(self.range(first, last, step, star && step == 1))
    }

    fn ends(&self, range: Part, first: Part, last: Part) -> Result<(u32, u32)> {
        let (min, max) = (self.min, self.max);
        let (first, last) = (self.value(first)?, self.value(last)?);
        if first > last {
            let problem = format!("the range {} ends before it begins", range.quoted());
            let hint = format!("Write two ranges: {first}-{max},{min}-{last}.");
            return Err(self.error(range, problem).hint(hint));
        }
        Ok((first, last))
    }

    fn value(&self, part: Part) -> Result<u32> {
        if part.text.is_empty() {
            return Err(self.error(part, "a value is missing").hint(self.hint));
        }
        let named = (self.min..)
            .zip(self.names)
            .find(|(_, name)| name.eq_ignore_ascii_case(part.text));
        if let Some((value, _)) = named {
            return Ok(value);
        }
        if !digits(part.text) {
            let kind = if self.names.is_empty() {
                "a number"
            } else {
                "a number or a name"
            };
            let problem = format!("{} is not {kind}", part.quoted());
            return Err(self.error(part, problem).hint(self.hint));
        }
        match part.text.parse() {
            Ok(value) if value < self.min => {
                let problem = format!("{value} is below the minimum of {}", self.min);
                Err(self.error(part, problem).hint(self.hint))
            }
            Ok(value) if value <= self.max => Ok(value),
            above => {
                let value = above.map_or_else(|_| part.quoted(), |value| value.to_string());
                let problem = format!("{value} is above the maximum of {}", self.max);
                let sunday = self.name == WEEKDAY.name && value == "7";
                Err(self
                    .error(part, problem)
                    .hint(if sunday { "Sunday is 0." } else { self.hint }))
            }
        }
    }

    fn step(&self, part: Part) -> Result<usize> {
        match part.text.parse() {
            Ok(step) if step > 0 && digits(part.text) => Ok(step),
            // like any step above 59, it leaves the first value only
            Err(_) if digits(part.text) => Ok(usize::MAX),
            _ => {
                let problem = if part.text.is_empty() {
                    "the step is missing".to_owned()
                } else {
                    format!("the step {} is not a positive number", part.quoted())
                };
                Err(self
                    .error(part, problem)
                    .hint("Write a step of at least 1, as in */15 or 8-18/2."))
            }
        }
    }

    /// Reports too many separators; `after` follows the second one.
    fn surplus(&self, after: Part, whole: Part, separators: &str) -> ParseError {
        let problem = format!("{} has too many {separators}", whole.quoted());
        ParseError::new(self.name, after.position - 1, problem)
            .hint("Write N, N-M, N/step, N-M/step, *, or */step.")
    }

    fn error(&self, part: Part, problem: impl Into<String>) -> ParseError {
        ParseError::new(self.name, part.position, problem)
    }
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
