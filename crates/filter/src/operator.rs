//! The operators and their names: this project's, and Dify's.

use crate::error::{FilterError, Result};

/// What a condition asks, before it is known of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equals,
    In,
    Compare(Comparison),
    /// `before` and `after`: `<` and `>`, of times.
    Time(Comparison),
    Contains,
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

/// Every name, its meaning, and whether it asks for the opposite.
const NAMES: [(&str, Operator, bool); 25] = {
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
        ("≠", Equals, true),
        (">", Compare(Greater), false),
        ("<", Compare(Less), false),
        ("≥", Compare(GreaterOrEqual), false),
        ("≤", Compare(LessOrEqual), false),
        ("before", Time(Less), false),
        ("after", Time(Greater), false),
        ("not in", In, true),
    ]
};

impl Operator {
    /// The operator of that name, and whether it is negated.
    pub(crate) fn parse(name: &str, path: &str) -> Result<(Operator, bool)> {
        match NAMES.iter().find(|(known, ..)| *known == name) {
            Some(&(_, operator, negated)) => Ok((operator, negated)),
            None => Err(FilterError::new(path, format!("there is no operator {name:?}"), Self::hint())),
        }
    }

    pub(crate) fn hint() -> String {
        let names: Vec<&str> = NAMES.iter().map(|(name, ..)| *name).collect();
        format!("Operators: {}.", names.join(", "))
    }
}
