//! Parses one document to a JSON value, within limits.
//!
//! Manifests are parsed on the stack of a backend, where an overflow would restart the cluster. The
//! parsers limit nesting, and values that aliases repeat are counted as they are repeated.

use std::{cell::Cell, fmt};

use rag_definition::fields::shown;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};
use serde_saphyr::{
    Error, Options,
    options::{DuplicateKeyPolicy, MergeKeyPolicy},
};

use crate::text::{DocumentText, after_marker};

/// Maximum nesting. The YAML parser uses up to 7 kB of stack for a level. This depth fits into
/// 160 kB.
const MAX_DEPTH: usize = 32;
/// Maximum number of values in all documents, repeated ones included.
const MAX_VALUES: usize = 200_000;
/// Maximum size of all strings and keys in bytes, repeated ones included.
const MAX_EXPANDED_BYTES: usize = 4 << 20;

/// The rest of the limits that all documents share.
#[derive(Debug, Clone)]
pub struct Budget {
    values: Cell<usize>,
    bytes: Cell<usize>,
}

impl Budget {
    pub fn new() -> Self {
        Self {
            values: Cell::new(MAX_VALUES),
            bytes: Cell::new(MAX_EXPANDED_BYTES),
        }
    }

    fn spend<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        let values = self.values.get().checked_sub(1);
        self.values.set(
            values
                .ok_or_else(|| E::custom(format!("the number of values exceeds {MAX_VALUES}")))?,
        );
        let left = self.bytes.get().checked_sub(bytes);
        self.bytes.set(left.ok_or_else(|| {
            E::custom(format!(
                "the size of the values exceeds {MAX_EXPANDED_BYTES} bytes"
            ))
        })?);
        Ok(())
    }
}

/// Why a document could not be parsed.
#[derive(Debug, PartialEq, Eq)]
pub struct SyntaxError {
    pub message: String,
    /// Line of the document and column, from 1, if known.
    pub place: Option<(usize, usize)>,
}

/// Parses a document of YAML or JSON.
///
/// # Errors
/// It is malformed, has a duplicate key, or exceeds a limit.
pub fn parse(document: &DocumentText<'_>, budget: &mut Budget) -> Result<Value, SyntaxError> {
    let text = document.text;
    let content = after_marker(text, "---").unwrap_or(text).trim_start();
    if !content.starts_with(['{', '[']) {
        return yaml(text, budget);
    }
    // JSON is not quite a subset of YAML, and text that begins like JSON may be YAML. If parsing as
    // JSON fails, its part of the budget is restored.
    let left = budget.clone();
    let error = match json(text, content, budget) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    *budget = left;
    let as_yaml = yaml(text, budget);
    if content[1..]
        .trim_start()
        .starts_with(['"', '{', '[', '}', ']'])
    {
        as_yaml.map_err(|_| error)
    } else {
        as_yaml
    }
}

fn json(text: &str, content: &str, budget: &Budget) -> Result<Value, SyntaxError> {
    let mut parser = serde_json::Deserializer::from_str(content);
    let parsed = Node { budget, depth: 0 }.deserialize(&mut parser);
    parsed
        .and_then(|value| parser.end().map(|()| value))
        .map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let message = error.to_string();
            let before = &text[..text.len() - content.len()];
            let shift = if line == 1 {
                before
                    .lines()
                    .next_back()
                    .map_or(0, |line| line.chars().count())
            } else {
                0
            };
            let shift = if before.ends_with('\n') { 0 } else { shift };
            SyntaxError {
                message: message
                    .strip_suffix(&format!(" at line {line} column {column}"))
                    .unwrap_or(&message)
                    .to_owned(),
                place: (line > 0)
                    .then(|| (line + before.matches('\n').count(), column.max(1) + shift)),
            }
        })
}

fn yaml(text: &str, budget: &Budget) -> Result<Value, SyntaxError> {
    let value = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |parser| {
        Node { budget, depth: 0 }.deserialize(parser)
    });
    let value = value.map_err(|error| of_yaml(&error))?;
    // That parser ignores text after the end of the document. This one reads all of it.
    let all = serde_saphyr::from_multiple_with_options::<IgnoredAny>(text, options());
    match all.map_err(|error| of_yaml(&error))?.len() {
        0 | 1 => Ok(value),
        _ => Err(SyntaxError {
            message: "there is text after the end of the document".to_owned(),
            place: None,
        }),
    }
}

fn of_yaml(error: &serde_saphyr::Error) -> SyntaxError {
    let place = error
        .location()
        .map(|location| (location.line(), location.column()));
    let message = in_plain_words(error).unwrap_or_else(|| {
        let message = error.to_string();
        let suffix = place.map(|(line, column)| format!(" at line {line}, column {column}"));
        suffix
            .and_then(|suffix| message.strip_suffix(&suffix))
            .unwrap_or(&message)
            .to_owned()
    });
    let place =
        place.and_then(|(line, column)| Some((line.try_into().ok()?, column.try_into().ok()?)));
    SyntaxError {
        message,
        place: place.filter(|(line, _)| *line > 0),
    }
}

/// Rewords messages of the YAML parser that are written for programmers.
fn in_plain_words(error: &Error) -> Option<String> {
    const BREACHED: &str = "budget breached: ";
    let message = match error.without_snippet() {
        Error::Budget { breach, .. } => exceeded(&format!("{breach:?}")),
        // One that happened in what an alias repeats, with the places of all anchors that led
        // there.
        Error::AliasError { msg, .. } => {
            let message = msg.split(" at line ").next().unwrap_or_default();
            message
                .strip_prefix(BREACHED)
                .map_or_else(|| message.to_owned(), exceeded)
        }
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => exceeded("Aliases"),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an anchor contains an alias of itself".to_owned()
        }
        Error::NonFiniteFloat { .. } => "a number is not finite".to_owned(),
        Error::MultipleDocuments { .. } => "there is text after the end of the document".to_owned(),
        Error::DuplicateMappingKey { key, .. } => duplicate_key(key.as_deref().unwrap_or_default()),
        other if other.to_string().starts_with("recursion limit exceeded") => exceeded("Depth"),
        _ => return None,
    };
    Some(message)
}

/// Returns the message for an exceeded limit of [`options`].
fn exceeded(limit: &str) -> String {
    match limit.split([' ', '{']).next().unwrap_or_default() {
        "Depth" => format!("the nesting of values exceeds {MAX_DEPTH} levels"),
        "Nodes" | "Events" => format!("the number of values exceeds {MAX_VALUES}"),
        "ScalarBytes" => format!("the size of the values exceeds {MAX_EXPANDED_BYTES} bytes"),
        // all others are limits on aliases
        _ => "there are too many anchors or aliases".to_owned(),
    }
}

fn duplicate_key(key: &str) -> String {
    format!("duplicate key \"{}\"", shown(key))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_VALUES,
            max_events: 4 * MAX_VALUES,
            max_documents: 1,
            max_aliases: 200,
            max_anchors: 200,
            max_merge_keys: 200,
            max_recorded_anchor_events: 20_000,
            max_recorded_anchor_bytes: MAX_EXPANDED_BYTES,
            max_total_scalar_bytes: MAX_EXPANDED_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: 200,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Merge,
        strict_booleans: true,
        reject_unsupported_tags: true,
        emit_comments: false,
        with_snippet: false,
    }
}

/// A value at a depth of the document.
#[derive(Clone, Copy)]
struct Node<'a> {
    budget: &'a Budget,
    depth: usize,
}

impl Node<'_> {
    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format!(
                "the nesting of values exceeds {MAX_DEPTH} levels"
            )));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    fn text<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        self.budget.spend(text.len())?;
        if text.contains('\0') {
            return Err(E::custom(
                "a string contains a NUL character, which PostgreSQL cannot store",
            ));
        }
        Ok(text.to_owned())
    }

    fn scalar<E: serde::de::Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.budget.spend(8)?;
        Ok(value.into())
    }

    fn float<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.budget.spend(8)?;
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is not finite"))
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.scalar(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.scalar(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.scalar(value)
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Value, E> {
        self.float(value as f64)
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Value, E> {
        self.float(value as f64)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.float(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.text(value).map(Value::String)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.budget.spend(0)?;
        let inner = self.inner()?;
        let mut values = vec![];
        while let Some(value) = from.next_element_seed(inner)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.budget.spend(0)?;
        let inner = self.inner()?;
        let mut map = Map::new();
        while let Some(key) = from.next_key_seed(inner)? {
            // a key such as 8080 or true is a string without quotes
            let key = match key {
                Value::String(key) => key,
                Value::Null | Value::Bool(_) | Value::Number(_) => key.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    return Err(A::Error::custom("a key is not a string"));
                }
            };
            if map.contains_key(&key) {
                return Err(A::Error::custom(duplicate_key(&key)));
            }
            let value = from.next_value_seed(inner)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
