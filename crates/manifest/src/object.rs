//! Reads the fields of an object one by one, and collects problems with the paths of their fields.

use std::cell::RefCell;

use rag_protocol::{
    name::{NameError, NameForm},
    spec::{FieldProblem, ProblemReason, ValueType},
    spelling::did_you_mean,
};
use serde_json::{Map, Value};

/// The problems of a document, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<FieldProblem>>);

impl Problems {
    pub fn push(&self, problem: FieldProblem) {
        self.0.borrow_mut().push(problem);
    }

    pub fn into_vec(self) -> Vec<FieldProblem> {
        self.0.into_inner()
    }
}

/// A part of a document.
#[derive(Clone)]
pub struct Object<'a> {
    path: String,
    map: &'a Map<String, Value>,
    problems: &'a Problems,
}

impl<'a> Object<'a> {
    /// Reports each key that is not `known`. The path of the document itself is empty.
    pub fn new(
        path: String,
        map: &'a Map<String, Value>,
        known: &[&str],
        problems: &'a Problems,
    ) -> Self {
        let object = Self {
            path,
            map,
            problems,
        };
        for (key, _) in map
            .iter()
            .filter(|(key, value)| !known.contains(&key.as_str()) && !value.is_null())
        {
            object.problem(
                key,
                "is not a known field",
                Some(did_you_mean(key, known, "Fields")),
            );
        }
        object
    }

    pub fn path(&self, key: &str) -> String {
        let dot = if self.path.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.path, shown(key))
    }

    pub fn problem(&self, key: &str, reason: impl Into<ProblemReason>, hint: Option<String>) {
        self.problems.push(FieldProblem {
            field: self.path(key),
            reason: reason.into(),
            hint,
        });
    }

    pub fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// `null` counts as absent.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Returns true if a required field is present, and reports a problem otherwise.
    pub fn has(&self, key: &str, hint: Option<&str>) -> bool {
        let there = self.get(key).is_some();
        if !there {
            self.problem(key, ProblemReason::Missing, hint.map(Into::into));
        }
        there
    }

    pub fn text(&self, key: &str) -> Option<&'a str> {
        match self.get(key)? {
            Value::String(text) if text.trim().is_empty() => {
                self.problem(key, "must not be empty", None);
                None
            }
            Value::String(text) => Some(text),
            other => {
                self.problem(
                    key,
                    format!("must be a string, not {}", type_of(other)),
                    hint_to_quote(ValueType::of(other)),
                );
                None
            }
        }
    }

    pub fn required_text(&self, key: &str) -> Option<&'a str> {
        if self.has(key, None) {
            self.text(key)
        } else {
            None
        }
    }

    /// Reads a required name.
    pub fn name(&self, key: &str, form: NameForm) -> Option<String> {
        let text = self.required_text(key)?;
        match form.check(text) {
            Ok(()) => return Some(text.to_owned()),
            Err(NameError::Form) => {
                let problem = format!("\"{}\" is not a valid name", shown(text));
                self.problem(key, problem, Some(form.hint().into()));
            }
            Err(NameError::TooLong) => {
                let most = form.max_length();
                let problem = format!("must have at most {most} characters, not {}", text.len());
                self.problem(key, problem, None);
            }
        }
        None
    }

    pub fn boolean(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(value) => Some(*value),
            other => {
                let hint = "Write true or false, without quotes.";
                self.problem(
                    key,
                    format!("must be a boolean, not {}", type_of(other)),
                    Some(hint.into()),
                );
                None
            }
        }
    }

    pub fn object(&self, key: &str, known: &[&str]) -> Option<Object<'a>> {
        let map = self.any_object(key, Some(known))?;
        Some(Object::new(self.path(key), map, known, self.problems))
    }

    pub fn required_object(&self, key: &str, known: &[&str]) -> Option<Object<'a>> {
        let hint = format!("Fields: {}.", known.join(", "));
        if self.has(key, Some(&hint)) {
            self.object(key, known)
        } else {
            None
        }
    }

    /// Returns an object without checking its keys.
    pub fn any_object(&self, key: &str, known: Option<&[&str]>) -> Option<&'a Map<String, Value>> {
        match self.get(key)? {
            Value::Object(map) => Some(map),
            other => {
                let hint = known.map(|known| format!("Fields: {}.", known.join(", ")));
                self.problem(
                    key,
                    format!("must be a mapping, not {}", type_of(other)),
                    hint,
                );
                None
            }
        }
    }

    /// Reads one of a few words, ignoring case. Returns it as it is in the list.
    pub fn word(&self, key: &str, words: &[&'static str], what: &str) -> Option<&'static str> {
        let given = self.text(key)?;
        let word = words
            .iter()
            .find(|word| word.eq_ignore_ascii_case(given))
            .copied();
        if word.is_none() {
            let hint = did_you_mean(given, words, "Values");
            self.problem(
                key,
                format!("\"{}\" is not {what}", shown(given)),
                Some(hint),
            );
        }
        word
    }
}

/// Returns the beginning of a user's text, for a message.
pub fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the hint for a string that was written without quotes.
pub fn hint_to_quote(found: ValueType) -> Option<String> {
    matches!(found, ValueType::Number | ValueType::Boolean)
        .then(|| format!("Put the value in quotes. Without quotes it is read as {found}."))
}

pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
