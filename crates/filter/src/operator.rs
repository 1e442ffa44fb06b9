//! Operators and their names: this project's, and Dify's.

use crate::error::{FilterError, Result};

/// The meaning of an operator, before its key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equals,
    In,
    Compare(Comparison),
    /// `before` and `after`: `<` and `>` of times.
    Time(Comparison),
    Contains,
    /// `text_match`: contains, case-insensitively.
    Matches,
    StartsWith,
    EndsWith,
    Present,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

/// Every name, its meaning, and whether it is the opposite.
const NAMES: [(&str, Operator, bool); 30] = {
    use Comparison::*;
    use Operator::*;
    [
        ("eq", Equals, false),
        ("ne", Equals, true),
        ("in", In, false),
        ("nin", In, true),
        ("gt", Compare(Greater), false),
        ("gte", Compare(GreaterOrEqual), false),
        ("lt", Compare(Less), false),
        ("lte", Compare(LessOrEqual), false),
        ("contains", Contains, false),
        ("not contains", Contains, true),
        ("start with", StartsWith, false),
        ("end with", EndsWith, false),
        ("is", Equals, false),
        ("is not", Equals, true),
        ("empty", Present, true),
        ("not empty", Present, false),
        ("=", Equals, false),
        ("==", Equals, false),
        ("≠", Equals, true),
        ("!=", Equals, true),
        (">", Compare(Greater), false),
        ("<", Compare(Less), false),
        ("≥", Compare(GreaterOrEqual), false),
        (">=", Compare(GreaterOrEqual), false),
        ("≤", Compare(LessOrEqual), false),
        ("<=", Compare(LessOrEqual), false),
        ("before", Time(Less), false),
        ("after", Time(Greater), false),
        ("not in", In, true),
        ("text_match", Matches, false),
    ]
};

impl Operator {
    /// Returns the operator of that name, case-insensitively, and whether it is negated.
    pub(crate) fn parse(name: &str, path: &str) -> Result<(Operator, bool)> {
        match NAMES
            .iter()
            .find(|(known, ..)| known.eq_ignore_ascii_case(name))
        {
            Some(&(_, operator, negated)) => Ok((operator, negated)),
            None => Err(FilterError::new(
                path,
                format!("there is no operator {name:?}"),
                Self::hint(),
            )),
        }
    }

    pub(crate) fn hint() -> String {
        let names: Vec<&str> = NAMES.iter().map(|(name, ..)| *name).collect();
        format!("Operators: {}.", names.join(", "))
    }
}
