//! Reading an object's fields one by one, while every problem is collected with the path of its
//! field.

use std::cell::RefCell;

use rag_protocol::{
    name::{Form, NotAName},
    spec::Problem,
};
use serde_json::{Map, Value};

/// What is wrong with a document, in the order in which it was found.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub fn push(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    pub fn into_vec(self) -> Vec<Problem> {
        self.0.into_inner()
    }
}

/// A part of a document, all of whose keys are known.
#[derive(Clone)]
pub struct Object<'a> {
    path: String,
    map: &'a Map<String, Value>,
    problems: &'a Problems,
}

impl<'a> Object<'a> {
    /// Each key that is not `known` is a problem. The document itself has no path.
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

    pub fn problem(&self, key: &str, problem: impl Into<String>, hint: Option<String>) {
        self.problems.push(Problem {
            field: self.path(key),
            problem: problem.into(),
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

    /// Whether a required field is there; a problem if not.
    pub fn has(&self, key: &str, hint: Option<&str>) -> bool {
        let there = self.get(key).is_some();
        if !there {
            self.problem(key, "is missing", hint.map(Into::into));
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
                    format!("must be a text, not {}", type_of(other)),
                    hint_to_quote(other),
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

    /// A required name.
    pub fn name(&self, key: &str, form: Form) -> Option<String> {
        let text = self.required_text(key)?;
        match form.check(text) {
            Ok(()) => return Some(text.to_owned()),
            Err(NotAName::Form) => {
                let problem = format!("\"{}\" is not a name", shown(text));
                self.problem(key, problem, Some(form.hint().into()));
            }
            Err(NotAName::TooLong) => {
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

    /// An object whose keys others know.
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

    /// One of a few words, in any case; as it is in the list.
    pub fn word(&self, key: &str, words: &[&'static str], what: &str) -> Option<&'static str> {
        let given = self.text(key)?;
        let word = words
            .iter()
            .find(|word| word.eq_ignore_ascii_case(given))
            .copied();
        if word.is_none() {
            let hint = did_you_mean(given, words, "Known");
            self.problem(
                key,
                format!("\"{}\" is not {what}", shown(given)),
                Some(hint),
            );
        }
        word
    }
}

/// Beginning of a text that a user wrote, for a message.
pub fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A hint that lists what is known, and begins with the one that is probably meant.
pub fn did_you_mean(given: &str, known: &[&str], what: &str) -> String {
    const MAX_BYTES: usize = 64;
    let distance = |word: &&&str| strsim::osa_distance(&given.to_lowercase(), &word.to_lowercase());
    let nearest = known
        .iter()
        .filter(|_| given.len() <= MAX_BYTES)
        .map(|word| (distance(&word), word))
        .filter(|(distance, word)| *distance <= (word.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance);
    let guess = nearest.map_or_else(String::new, |(_, word)| {
        format!("Did you mean \"{word}\"? ")
    });
    format!("{guess}{what}: {}.", known.join(", "))
}

pub fn hint_to_quote(value: &Value) -> Option<String> {
    matches!(value, Value::Number(_) | Value::Bool(_)).then(|| {
        format!(
            "Put it in quotes: without them it is read as {}.",
            type_of(value)
        )
    })
}

pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
