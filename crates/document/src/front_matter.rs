//! Front matter: the block between two `---` lines (YAML) or two `+++` lines (TOML) at the very top
//! of a Markdown file.
//!
//! ```text
//! ---
//! title: Rotating the signing keys
//! document_id: SEC-14
//! source_url: https://example.org/sec/14
//! ---
//! # Text begins here
//! ```
//!
//! The second line of YAML may also be `...`. Values become JSON by the rules of YAML 1.2: only
//! `true` and `false` are booleans, dates stay texts, `007` is the number 7 unless it is quoted.
//! Keys that are not texts are converted to texts. Of a repeated key the last value counts. Dates
//! of TOML become texts as well.
//!
//! A value of one line that is not YAML is read as it is written: `title: Backups: how and when`.
//!
//! A block that is not a mapping is not front matter but text between two rules, and stays in the
//! text. A block that is malformed or exceeds a limit stays in the text as well, so that nothing is
//! lost. The metadata key `front_matter_error` then has the reason.

mod lenient;

use std::thread;

use serde_json::{Map, Value};
use serde_saphyr::{
    Options,
    options::{DuplicateKeyPolicy, MergeKeyPolicy},
};

/// Maximum size of a block that is parsed, in bytes.
const MAX_BYTES: usize = 256 << 10;
/// Maximum nesting. Metadata crosses a process boundary as JSON, whose parser stops at 128.
const MAX_DEPTH: usize = 32;
/// Maximum number of values, including those that aliases repeat.
const MAX_VALUES: usize = 20_000;
/// Maximum size of all values together in bytes, including those that aliases repeat.
const MAX_EXPANDED_BYTES: usize = 1 << 20;

/// A Markdown file's two parts.
#[derive(Debug, PartialEq)]
pub struct MarkdownFile<'a> {
    pub metadata: Map<String, Value>,
    /// Everything after the front matter, or the whole file.
    pub body: &'a str,
}

/// Separates the front matter from a file.
pub fn separate(file: &str) -> MarkdownFile<'_> {
    let whole = MarkdownFile {
        metadata: Map::new(),
        body: file,
    };
    let Some((language, block, body)) = block(file) else {
        return whole;
    };
    match parse(language, block) {
        Ok(Some(metadata)) => MarkdownFile { metadata, body },
        Ok(None) => whole,
        Err(error) => MarkdownFile {
            metadata: Map::from_iter([("front_matter_error".to_owned(), Value::String(error))]),
            body: file,
        },
    }
}

/// The language of front matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Yaml,
    Toml,
}

/// Returns the text between the two markers, and the text after them.
fn block(file: &str) -> Option<(Language, &str, &str)> {
    let mut lines = file.split_inclusive('\n');
    let opening = lines.next()?;
    let (language, closing): (_, &[&str]) = match opening.trim_end() {
        "---" => (Language::Yaml, &["---", "..."]),
        "+++" => (Language::Toml, &["+++"]),
        _ => return None,
    };
    if !opening.ends_with('\n') {
        return None;
    }
    let mut end = opening.len();
    for line in lines {
        if closing.contains(&line.trim_end()) {
            return Some((
                language,
                &file[opening.len()..end],
                &file[end + line.len()..],
            ));
        }
        end += line.len();
    }
    None
}

/// Returns the end of a block at the top of a text that is front matter, or looks like it, else 0.
/// No heading is in it.
pub fn end(text: &str) -> usize {
    let Some((language, block, after)) = block(text) else {
        return 0;
    };
    let looks_so = match language {
        Language::Yaml => lenient::looks_like_yaml(block),
        Language::Toml => true,
    };
    if looks_so {
        text.len() - after.len()
    } else {
        0
    }
}

/// Returns `None` if the block is not a mapping, and so not front matter.
fn parse(language: Language, block: &str) -> Result<Option<Map<String, Value>>, String> {
    if block.len() > MAX_BYTES {
        return Err(format!(
            "the front matter has {} bytes, more than the maximum of {MAX_BYTES}",
            block.len()
        ));
    }
    match language {
        Language::Yaml => {
            let yaml = |block: &str| serde_saphyr::from_str_with_options(block, options());
            let parsed = yaml(block).or_else(|error| {
                lenient::quoted(block, |line| yaml(line).map(|Parsed(_)| ()).is_ok())
                    .and_then(|block| yaml(&block).ok())
                    .ok_or(error)
            });
            accept(parsed.map_err(|e| in_one_line(&e))?)
        }
        Language::Toml => {
            // Dotted keys inside inline tables can nest too deep for a thread's usual stack.
            const STACK_BYTES: usize = 64 << 20;
            let parse = || {
                accept(
                    toml::from_str(block)
                        .map(from_toml)
                        .map_err(|e| in_one_line(&e.message()))?,
                )
            };
            thread::scope(|scope| {
                let parser = thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, parse);
                let failed = |_| Err("the front matter could not be parsed".to_owned());
                parser
                    .map_err(|e| in_one_line(&e))
                    .and_then(|parser| parser.join().unwrap_or_else(failed))
            })
        }
    }
}

fn accept(parsed: Parsed) -> Result<Option<Map<String, Value>>, String> {
    match parsed.0 {
        Value::Object(metadata) => {
            let (bytes, depth) = (
                metadata
                    .iter()
                    .map(|(key, value)| key.len() + weight(value))
                    .sum::<usize>(),
                depth(&metadata),
            );
            if bytes > MAX_EXPANDED_BYTES {
                return Err(format!(
                    "the front matter's values have {bytes} bytes, more than the maximum of \
                        {MAX_EXPANDED_BYTES}"
                ));
            }
            if depth > MAX_DEPTH {
                return Err(format!(
                    "the front matter is nested {depth} levels deep, more than the maximum of \
                        {MAX_DEPTH}"
                ));
            }
            Ok(Some(metadata))
        }
        Value::Null => Ok(Some(Map::new())),
        _ => Ok(None),
    }
}

/// TOML has no null. Its parser limits the nesting of arrays and inline tables, but not that of
/// dotted keys.
fn from_toml(table: toml::Table) -> Parsed {
    fn value(from: toml::Value) -> Value {
        match from {
            toml::Value::String(text) => text.replace('\0', "\u{FFFD}").into(),
            toml::Value::Integer(number) => number.into(),
            toml::Value::Float(number) => serde_json::Number::from_f64(number)
                .map_or_else(|| number.to_string().into(), Value::Number),
            toml::Value::Boolean(value) => value.into(),
            toml::Value::Datetime(time) => time.to_string().into(),
            toml::Value::Array(values) => values.into_iter().map(value).collect(),
            toml::Value::Table(table) => object(table),
        }
    }
    fn object(table: toml::Table) -> Value {
        Value::Object(
            table
                .into_iter()
                .map(|(key, from)| (key.replace('\0', "\u{FFFD}"), value(from)))
                .collect(),
        )
    }
    Parsed(object(table))
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
            max_anchors: 1_000,
            max_recorded_anchor_events: MAX_VALUES,
            max_recorded_anchor_bytes: MAX_EXPANDED_BYTES,
            max_total_scalar_bytes: MAX_EXPANDED_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_VALUES,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: 200,
        },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        merge_keys: MergeKeyPolicy::Merge,
        strict_booleans: true,
        reject_non_finite_typeless_float: false,
        emit_comments: false,
        with_snippet: false,
    }
}

fn in_one_line(error: &dyn std::fmt::Display) -> String {
    let mut message = error
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('\0', "\u{FFFD}");
    if let Some((end, _)) = message.char_indices().nth(300) {
        message.truncate(end);
    }
    message
}

fn depth(map: &Map<String, Value>) -> usize {
    fn of(value: &Value) -> usize {
        match value {
            Value::Array(values) => 1 + values.iter().map(of).max().unwrap_or(0),
            Value::Object(map) => depth(map),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }
    1 + map.values().map(of).max().unwrap_or(0)
}

fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| key.len() + weight(value))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// Converts front matter to JSON. Keys become texts, and NUL characters, which PostgreSQL cannot
/// store, become U+FFFD.
struct Parsed(Value);

impl<'de> serde::Deserialize<'de> for Parsed {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Visitor).map(Self)
    }
}

struct Visitor;

impl<'de> serde::de::Visitor<'de> for Visitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(value.to_string().into())
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(value.to_string().into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(serde_json::Number::from_f64(value)
            .map_or_else(|| value.to_string().into(), Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.replace('\0', "\u{FFFD}").into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = vec![];
        while let Some(Parsed(value)) = from.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((Parsed(key), Parsed(value))) = from.next_entry()? {
            let key = match key {
                Value::String(key) => key,
                other => other.to_string(),
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests;
