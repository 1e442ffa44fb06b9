//! Reads the fields of a JSON object one by one, and collects problems with the paths of their
//! fields. A field that is `null` counts as left out.
//!
//! Everything that users write as JSON or YAML is read here: specs of sources, settings of
//! retrievers and models, manifests, requests of applications, documents and chunks.

use std::{fmt::Display, ops::RangeInclusive};

use serde_json::{Map, Value};

use crate::{
    FieldProblem, Problems,
    name::{NameError, NameForm},
    spelling::did_you_mean,
};

/// An object that is being read.
#[derive(Clone)]
pub struct Fields<'a> {
    path: String,
    /// None for an object that was left out.
    map: Option<&'a Map<String, Value>>,
    problems: &'a Problems,
}

impl<'a> Fields<'a> {
    /// Reads an object, and reports each of its fields that is not `known`. The path of a whole
    /// text is empty.
    pub fn new(
        path: impl Into<String>,
        map: &'a Map<String, Value>,
        known: &[&str],
        problems: &'a Problems,
    ) -> Self {
        let fields = Self::with_any(path, map, problems);
        fields.report_unknown(known, |name| did_you_mean(name, known, "Fields"));
        fields
    }

    /// Reads an object that may have other fields.
    pub fn with_any(
        path: impl Into<String>,
        map: &'a Map<String, Value>,
        problems: &'a Problems,
    ) -> Self {
        Self {
            path: path.into(),
            map: Some(map),
            problems,
        }
    }

    /// Reads a value that must be an object.
    pub fn of(
        path: &str,
        value: &'a Value,
        known: &[&str],
        problems: &'a Problems,
    ) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self::new(path, map, known, problems)),
            other => {
                let problem = FieldProblem::new(path, wrong_type("an object", other));
                problems.push(problem.hint(fields_hint(known)));
                None
            }
        }
    }

    /// Reads a whole object with `read`.
    ///
    /// # Errors
    /// The first problem.
    pub fn parse<T>(
        path: &str,
        value: &'a Value,
        known: &[&str],
        read: impl FnOnce(&Fields<'_>) -> Option<T>,
    ) -> Result<T, FieldProblem> {
        let problems = Problems::default();
        let fields = Fields::of(path, value, known, &problems);
        let read = fields.and_then(|fields| read(&fields));
        problems.first_or(read)
    }

    /// Reports each field that is not `known`, with a hint for it.
    pub fn report_unknown(&self, known: &[&str], hint: impl Fn(&str) -> String) {
        let names = self.map.into_iter().flatten();
        for (name, value) in names {
            if !known.contains(&name.as_str()) && !value.is_null() {
                self.problem_with(name, "is not a known field", hint(name));
            }
        }
    }

    pub fn path(&self, name: impl Display) -> String {
        let name = shown(&name.to_string());
        match self.path.as_str() {
            "" => name,
            path => format!("{path}.{name}"),
        }
    }

    pub fn problem(&self, name: impl Display, message: impl Into<String>) {
        self.problems
            .push(FieldProblem::new(self.path(name), message));
    }

    pub fn problem_with(
        &self,
        name: impl Display,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let problem = FieldProblem::new(self.path(name), message);
        self.problems.push(problem.hint(hint));
    }

    pub fn problems(&self) -> &'a Problems {
        self.problems
    }

    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.map?.get(name).filter(|value| !value.is_null())
    }

    /// Returns true if a required field is present, and reports a problem otherwise.
    pub fn has(&self, name: &str, hint: Option<&str>) -> bool {
        let is_there = self.get(name).is_some();
        if !is_there {
            let problem = FieldProblem::new(self.path(name), "is missing");
            let problem = hint.into_iter().fold(problem, FieldProblem::hint);
            self.problems.push(problem);
        }
        is_there
    }

    /// Reads a string, which may be blank.
    pub fn any_text(&self, name: &str) -> Option<&'a str> {
        let value = self.get(name)?;
        self.text_of(name, value)
    }

    /// Reads a string.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let text = self.any_text(name)?;
        self.filled(name, text)
    }

    pub fn required_text(&self, name: &str) -> Option<&'a str> {
        if self.has(name, None) {
            self.text(name)
        } else {
            None
        }
    }

    /// Reads a required string, which may be blank.
    pub fn required_any_text(&self, name: &str) -> Option<&'a str> {
        if self.has(name, None) {
            self.any_text(name)
        } else {
            None
        }
    }

    fn text_of(&self, name: impl Display, value: &'a Value) -> Option<&'a str> {
        let Value::String(text) = value else {
            let message = wrong_type("a string", value);
            match hint_to_quote(value) {
                Some(hint) => self.problem_with(name, message, hint),
                None => self.problem(name, message),
            }
            return None;
        };
        if text.contains('\0') {
            self.problem(name, "must not contain a NUL character");
            return None;
        }
        Some(text)
    }

    fn filled(&self, name: impl Display, text: &'a str) -> Option<&'a str> {
        if text.trim().is_empty() {
            self.problem(name, "must not be empty");
            return None;
        }
        Some(text)
    }

    /// Reads a required name.
    pub fn name(&self, name: &str, form: NameForm) -> Option<String> {
        let text = self.required_text(name)?;
        match form.check(text) {
            Ok(()) => return Some(text.to_owned()),
            Err(NameError::Form) => {
                let message = format!("\"{}\" is not a valid name", shown(text));
                self.problem_with(name, message, form.hint());
            }
            Err(NameError::TooLong) => {
                let most = form.max_length();
                let message = format!("must have at most {most} characters, not {}", text.len());
                self.problem(name, message);
            }
        }
        None
    }

    pub fn boolean(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Bool(value) => Some(*value),
            other => {
                let hint = "Write true or false, without quotes.";
                self.problem_with(name, wrong_type("a boolean", other), hint);
                None
            }
        }
    }

    /// Reads a whole number. `2.0` is one.
    pub fn integer(&self, name: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let given = self.get(name)?;
        let value = given.as_i64().or_else(|| whole(given.as_f64()?));
        let value = value.filter(|value| range.contains(value));
        if value.is_none() {
            let wanted = match (*range.start(), *range.end()) {
                (i64::MIN, i64::MAX) => "an integer".to_owned(),
                (1, i64::MAX) => "a positive integer".to_owned(),
                (least, most) => format!("an integer from {least} to {most}"),
            };
            self.report_number(name, &wanted, given);
        }
        value
    }

    pub fn number(&self, name: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let given = self.get(name)?;
        let value = given.as_f64().filter(|value| range.contains(value));
        if value.is_none() {
            let wanted = format!("a number from {} to {}", range.start(), range.end());
            self.report_number(name, &wanted, given);
        }
        value
    }

    /// Reads a number between 0 and 1.
    pub fn fraction(&self, name: &str) -> Option<f64> {
        self.number(name, 0.0..=1.0)
    }

    fn report_number(&self, name: &str, wanted: &str, given: &Value) {
        let found = match given {
            Value::Number(number) => number.to_string(),
            other => type_of(other).to_owned(),
        };
        let message = format!("must be {wanted}, not {found}");
        if given.is_string() {
            self.problem_with(name, message, "Write the number without quotes.")
        } else {
            self.problem(name, message)
        }
    }

    /// Reads an object. Reports each of its fields that is not `known`.
    pub fn object(&self, name: &str, known: &[&str]) -> Option<Self> {
        let value = self.get(name)?;
        Self::of(&self.path(name), value, known, self.problems)
    }

    /// Reads an object as [`Fields::object`]. One that is left out has no fields.
    pub fn object_or_empty(&self, name: &str, known: &[&str]) -> Self {
        self.object(name, known).unwrap_or_else(|| Self {
            path: self.path(name),
            map: None,
            problems: self.problems,
        })
    }

    pub fn required_object(&self, name: &str, known: &[&str]) -> Option<Self> {
        if self.has(name, Some(&fields_hint(known))) {
            self.object(name, known)
        } else {
            None
        }
    }

    /// Returns an object without checking its fields.
    pub fn any_object(&self, name: &str) -> Option<&'a Map<String, Value>> {
        match self.get(name)? {
            Value::Object(map) => Some(map),
            other => {
                self.problem(name, wrong_type("an object", other));
                None
            }
        }
    }

    /// Reads an array, each element with `read`, which gets its name: `tags[2]`.
    pub fn list<T>(
        &self,
        name: &str,
        read: impl Fn(&Self, &str, &'a Value) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.list_of("an array", name, read)
    }

    /// Reads an array of strings, which may be blank.
    pub fn any_texts(&self, name: &str) -> Option<Vec<String>> {
        self.list_of("an array of strings", name, |fields, name, item| {
            fields.text_of(name, item).map(str::to_owned)
        })
    }

    /// Reads an array of strings.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        self.list_of("an array of strings", name, |fields, name, item| {
            let text = fields.text_of(name, item)?;
            fields.filled(name, text).map(str::to_owned)
        })
    }

    fn list_of<T>(
        &self,
        what: &str,
        name: &str,
        read: impl Fn(&Self, &str, &'a Value) -> Option<T>,
    ) -> Option<Vec<T>> {
        let items = match self.get(name)? {
            Value::Array(items) => items,
            other => {
                let message = wrong_type(what, other);
                if other.is_string() {
                    self.problem_with(name, message, format!("Write [{other}]."))
                } else {
                    self.problem(name, message)
                }
                return None;
            }
        };
        let mut list = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            list.extend(read(self, &format!("{name}[{i}]"), item));
        }
        Some(list)
    }

    /// Reads one of a few words, ignoring case. Returns it as it is in the list.
    pub fn word(&self, name: &str, words: &[&'static str], what: &str) -> Option<&'static str> {
        let given = self.text(name)?;
        let word = words.iter().find(|word| word.eq_ignore_ascii_case(given));
        if word.is_none() {
            let hint = did_you_mean(given, words, "Values");
            self.problem_with(name, format!("\"{}\" is not {what}", shown(given)), hint);
        }
        word.copied()
    }
}

fn whole(number: f64) -> Option<i64> {
    let is_whole = number.fract() == 0.0 && number.abs() <= 2.0_f64.powi(53);
    is_whole.then_some(number as i64)
}

/// Returns the beginning of a user's text, for a message.
pub fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the message for a value of another type.
pub fn wrong_type(wanted: &str, found: &Value) -> String {
    format!("must be {wanted}, not {}", type_of(found))
}

/// Returns the hint for a string that was written without quotes.
pub fn hint_to_quote(found: &Value) -> Option<String> {
    matches!(found, Value::Number(_) | Value::Bool(_)).then(|| {
        format!(
            "Put the value in quotes. Without quotes it is read as {}.",
            type_of(found)
        )
    })
}

fn fields_hint(known: &[&str]) -> String {
    format!("Fields: {}.", known.join(", "))
}

pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
