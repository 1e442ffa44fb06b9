//! Reads the fields of a spec one by one.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::{
    ExpectedType, FieldProblem, PathFilter, ProblemReason, SourceKind, ValueType, pattern,
};
use crate::labels::{Labels, MAX_CHARS};

/// A spec that is being read. Collects its problems, and the keys that were read.
pub struct Fields<'a> {
    object: &'a Map<String, Value>,
    problems: Vec<FieldProblem>,
    used: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(object: &'a Map<String, Value>) -> Self {
        Self {
            object,
            problems: vec![],
            used: vec![],
        }
    }

    pub(super) fn into_problems(self) -> Vec<FieldProblem> {
        self.problems
    }

    /// Returns the keys that were read, whether or not the spec has them.
    #[cfg(test)]
    pub(super) fn used(&self) -> &[&'static str] {
        &self.used
    }

    pub(super) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    pub(super) fn problem(
        &mut self,
        field: impl Display,
        reason: impl Into<ProblemReason>,
    ) -> &mut FieldProblem {
        self.problems
            .push(FieldProblem::new(format!("spec.{field}"), reason));
        let last = self.problems.len() - 1;
        &mut self.problems[last]
    }

    /// Returns a value of any type; `null` counts as absent.
    pub(super) fn any(&mut self, key: &'static str) -> Option<&'a Value> {
        self.used.push(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn string(&mut self, key: &'static str) -> Option<String> {
        match self.any(key)? {
            Value::String(s) if s.is_empty() => {
                self.problem(key, "must not be empty");
                None
            }
            Value::String(s) if s.contains('\0') => {
                self.problem(key, "must not contain a NUL character");
                None
            }
            Value::String(s) => Some(s.clone()),
            other => {
                self.report_no_string(key, other);
                None
            }
        }
    }

    pub(super) fn required(&mut self, key: &'static str) -> Option<String> {
        let is_absent = self.any(key).is_none();
        let value = self.string(key);
        if is_absent {
            self.problem(key, ProblemReason::Missing);
        }
        value
    }

    pub(super) fn strings(&mut self, key: &'static str) -> Vec<String> {
        let items = match self.any(key) {
            None => return vec![],
            Some(Value::Array(items)) => items,
            Some(other) => {
                let problem = ProblemReason::wrong_type(ExpectedType::Strings, other);
                let text = if other.is_string() {
                    Some(other.to_string())
                } else {
                    quoted_scalar(other)
                };
                self.problem(key, problem).hint = text.map(|text| format!("Write [{text}]."));
                return vec![];
            }
        };
        let mut strings = vec![];
        for (i, item) in items.iter().enumerate() {
            match item {
                Value::String(s) if !s.trim().is_empty() => strings.push(s.clone()),
                Value::String(_) => {
                    self.problem(format!("{key}[{i}]"), "must not be empty");
                }
                other => self.report_no_string(format!("{key}[{i}]"), other),
            }
        }
        strings
    }

    pub(super) fn string_or_strings(&mut self, key: &'static str) -> Vec<String> {
        match self.any(key) {
            Some(Value::String(_)) => self.string(key).into_iter().collect(),
            _ => self.strings(key),
        }
    }

    fn report_no_string(&mut self, field: impl Display, value: &Value) {
        let problem = ProblemReason::wrong_type(ExpectedType::String, value);
        self.problem(field, problem).hint =
            quoted_scalar(value).map(|text| format!("Write {text}."));
    }

    /// Checks the category and tags of all documents.
    pub(super) fn labels(&mut self) {
        let (category, tags) = (self.string("category"), self.strings("tags"));
        if let Err(field) = Labels::new(category.as_deref(), Some(&tags)) {
            self.problem(field, format!("must have at most {MAX_CHARS} characters"));
        }
    }

    pub(super) fn path_filter(&mut self, [paths, exclude_paths]: [&'static str; 2]) -> PathFilter {
        PathFilter {
            paths: self.patterns(paths),
            exclude_paths: self.patterns(exclude_paths),
        }
    }

    /// Reads patterns of paths, and reports each one that is wrong.
    fn patterns(&mut self, key: &'static str) -> Vec<String> {
        let patterns = self.strings(key);
        let mut is_each_right = true;
        for (i, pattern) in patterns.iter().enumerate() {
            if let Err(bad) = pattern::compile(std::slice::from_ref(pattern)) {
                is_each_right = false;
                let reason = bad.reason.replace('\0', "\u{FFFD}");
                let problem = format!("\"{pattern}\" is not a valid pattern: {reason}");
                self.problem(format!("{key}[{i}]"), problem).hint = Some(pattern::HINT.into());
            }
        }
        if is_each_right && let Err(bad) = pattern::compile(&patterns) {
            let problem = format!("the patterns together are too large: {}", bad.reason);
            self.problem(key, problem);
        } else if is_each_right && pattern::are_all_negated(&patterns) {
            self.problem(key, "has only negated patterns, so no path matches them")
                .hint =
                Some("A pattern with ! excludes from what patterns before it match.".into());
        }
        patterns
    }

    pub(super) fn integer(
        &mut self,
        key: &'static str,
        (min, max, default): (u64, u64, u64),
    ) -> u32 {
        let value = match self.any(key) {
            None => Some(default),
            Some(value) => value.as_u64().filter(|value| (min..=max).contains(value)),
        };
        if value.is_none() {
            let problem = format!("must be an integer from {min} to {max}");
            self.problem(key, problem).hint =
                Some(format!("Write a number without quotes, such as {default}."));
        }
        value
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or_default()
    }

    pub(super) fn boolean(&mut self, key: &'static str, default: bool) -> bool {
        match self.any(key) {
            None => default,
            Some(Value::Bool(value)) => *value,
            Some(other) => {
                let problem = ProblemReason::wrong_type(ExpectedType::Boolean, other);
                self.problem(key, problem).hint =
                    Some("Write true or false, without quotes.".into());
                default
            }
        }
    }

    /// Reads a number of seconds. Returns milliseconds.
    pub(super) fn milliseconds(
        &mut self,
        key: &'static str,
        max_seconds: f64,
        default: u64,
    ) -> u64 {
        let Some(value) = self.any(key) else {
            return default;
        };
        let seconds = value
            .as_f64()
            .filter(|seconds| (0.0..=max_seconds).contains(seconds));
        if let Some(seconds) = seconds {
            return (seconds * 1000.0).round() as u64;
        }
        let problem = format!("must be a number of seconds from 0 to {max_seconds}");
        self.problem(key, problem);
        default
    }

    /// Reads one of two words.
    pub(super) fn choice<T>(
        &mut self,
        key: &'static str,
        [a, b]: [(&'static str, T); 2],
    ) -> Option<T> {
        let word = self.string(key)?;
        if word == a.0 {
            return Some(a.1);
        }
        if word == b.0 {
            return Some(b.1);
        }
        let problem = format!("must be \"{}\" or \"{}\", not \"{word}\"", a.0, b.0);
        self.problem(key, problem);
        None
    }

    /// Returns the spelling of a key that the spec has, or the first one if it has none.
    pub(super) fn one_of(&mut self, spellings: &[&'static str]) -> &'static str {
        let given = spellings.iter().copied();
        let given: Vec<_> = given.filter(|key| self.object.contains_key(*key)).collect();
        self.used.extend(&given);
        if let [first, second, ..] = given[..] {
            self.problem(second, format!("means the same as \"{first}\""));
        }
        given.first().copied().unwrap_or(spellings[0])
    }

    /// Reports the keys of the spec that nothing has read.
    pub(super) fn report_unknown_keys(&mut self, kind: &SourceKind) {
        let object = self.object;
        for key in object.keys() {
            if !self.used.contains(&key.as_str()) {
                self.problem(key, ProblemReason::UnknownKey { kind: kind.name })
                    .hint = Some(kind.unknown_key_hint(key));
            }
        }
    }
}

/// Returns a number or boolean as the string that was probably meant, in quotes.
fn quoted_scalar(value: &Value) -> Option<String> {
    matches!(ValueType::of(value), ValueType::Number | ValueType::Boolean)
        .then(|| format!("\"{value}\""))
}
