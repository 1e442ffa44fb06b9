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
//! The second line of YAML may be `...` as well. Its values become JSON by YAML 1.2's rules: only
//! `true` and `false` are booleans, dates stay texts, `007` is the number 7 unless it is quoted.
//! Keys that are no texts are written as texts. Of a key that is there twice, the last one holds.
//! Dates of TOML become texts as well.
//!
//! A block that is no mapping is not front matter but text between two rules, and stays. A block
//! that is malformed, or exceeds what front matter can reasonably need, stays in the text as well,
//! so that nothing of the document is lost, and the reason goes into the metadata as
//! `front_matter_error`.

use std::thread;

use serde_json::{Map, Value};
use serde_saphyr::{
    Options,
    options::{DuplicateKeyPolicy, MergeKeyPolicy},
};

/// Largest block that is parsed, in bytes.
const MAX_BYTES: usize = 256 << 10;
/// Deepest nesting. Metadata crosses a process boundary as JSON, whose reader stops at 128.
const MAX_DEPTH: usize = 32;
/// Most values, those that aliases repeat included.
const MAX_VALUES: usize = 20_000;
/// Most bytes of all values together, those that aliases repeat included.
const MAX_EXPANDED_BYTES: usize = 1 << 20;

/// A Markdown file's two parts.
#[derive(Debug, PartialEq)]
pub struct Parted<'a> {
    pub metadata: Map<String, Value>,
    /// Everything after the front matter; the whole file where there is none.
    pub body: &'a str,
}

/// Takes the front matter off a file.
pub fn part(file: &str) -> Parted<'_> {
    let whole = Parted {
        metadata: Map::new(),
        body: file,
    };
    let Some((language, block, body)) = block(file) else {
        return whole;
    };
    match parse(language, block) {
        Ok(Some(metadata)) => Parted { metadata, body },
        Ok(None) => whole,
        Err(error) => Parted {
            metadata: Map::from_iter([("front_matter_error".to_owned(), Value::String(error))]),
            body: file,
        },
    }
}

/// What front matter is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Yaml,
    Toml,
}

/// What is between the two markers, and what follows them.
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

/// `None`: the block is no mapping, and so no front matter.
fn parse(language: Language, block: &str) -> Result<Option<Map<String, Value>>, String> {
    if block.len() > MAX_BYTES {
        return Err(format!(
            "the front matter has {} bytes, and {MAX_BYTES} are allowed",
            block.len()
        ));
    }
    match language {
        Language::Yaml => accept(
            serde_saphyr::from_str_with_options(block, options()).map_err(|e| in_one_line(&e))?,
        ),
        Language::Toml => {
            // Dotted keys inside of inline tables nest deeper than a thread's usual stack is for.
            const STACK: usize = 64 << 20;
            let parse = || {
                accept(
                    toml::from_str(block)
                        .map(from_toml)
                        .map_err(|e| in_one_line(&e.message()))?,
                )
            };
            thread::scope(|scope| {
                let parser = thread::Builder::new()
                    .stack_size(STACK)
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
                    "the front matter's values have {bytes} bytes, and {MAX_EXPANDED_BYTES} are allowed"
                ));
            }
            if depth > MAX_DEPTH {
                return Err(format!(
                    "the front matter is nested {depth} deep, and {MAX_DEPTH} are allowed"
                ));
            }
            Ok(Some(metadata))
        }
        Value::Null => Ok(Some(Map::new())),
        _ => Ok(None),
    }
}

/// TOML has no null, and its parser bounds the nesting of arrays and inline tables, but not of
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

/// Front matter as JSON: keys become texts, and NUL characters, which PostgreSQL cannot store,
/// U+FFFD.
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
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(yaml: &str) -> Value {
        Value::Object(part(&format!("---\n{yaml}\n---\nText")).metadata)
    }

    #[track_caller]
    fn is_no_front_matter(file: &str) {
        assert_eq!(
            part(file),
            Parted {
                metadata: Map::new(),
                body: file
            }
        );
    }

    #[track_caller]
    fn is_refused(file: &str, reason: &str) {
        let parted = part(file);
        assert_eq!(parted.body, file);
        assert_eq!(parted.metadata.len(), 1);
        let error = parted.metadata["front_matter_error"].as_str().unwrap();
        assert!(
            error.contains(reason) && error.chars().count() <= 300,
            "{error}"
        );
    }

    #[test]
    fn front_matter_becomes_metadata_and_leaves_the_text() {
        let parted = part("---\r\ntitle: Keys\r\ntags: [a, b]\r\n---  \r\n# Text\r\n");
        assert_eq!(
            Value::Object(parted.metadata),
            json!({"title": "Keys", "tags": ["a", "b"]})
        );
        assert_eq!(parted.body, "# Text\r\n");
        assert_eq!(part("---\n---\nText").body, "Text");
        assert_eq!(part("---\na: 1\n...\nText").body, "Text");
    }

    #[test]
    fn values_keep_what_was_written() {
        assert_eq!(
            metadata(
                "date: 2024-03-01\nat: 2024-03-01T10:00:00Z\ncountry: no\ndraft: true\nn: 3\nx: 1.5\nnothing: ~\nid: '007'\n\
                 big: 123456789012345678901234567890\nbad: .nan\nnested: {a: [1, {b: c}]}\ntext: |\n  two\n  lines"
            ),
            json!({
                "date": "2024-03-01", "at": "2024-03-01T10:00:00Z", "country": "no", "draft": true, "n": 3, "x": 1.5,
                "nothing": null, "id": "007", "big": 123456789012345678901234567890f64, "bad": ".nan",
                "nested": {"a": [1, {"b": "c"}]}, "text": "two\nlines\n"
            })
        );
    }

    #[test]
    fn keys_become_texts() {
        assert_eq!(
            metadata("2024: a\ntrue: b\n~: c\n1.50: d\n[x, 1]: e"),
            json!({"2024": "a", "true": "b", "null": "c", "1.5": "d", "[\"x\",1]": "e"})
        );
    }

    #[test]
    fn the_last_of_equal_keys_holds() {
        assert_eq!(metadata("a: 1\nb: 2\na: 3"), json!({"a": 3, "b": 2}));
    }

    #[test]
    fn aliases_are_expanded_and_nul_is_replaced() {
        assert_eq!(
            metadata("a: &x [1, 2]\nb: *x\nc: \"n\\0l\""),
            json!({"a": [1, 2], "b": [1, 2], "c": "n\u{FFFD}l"})
        );
    }

    #[test]
    fn rules_around_text_are_no_front_matter() {
        is_no_front_matter("---\nJust a sentence.\n---\nText");
        is_no_front_matter("---\n- a list\n---\nText");
        is_no_front_matter("---\ntitle: never closed\n\nText");
        is_no_front_matter("Text\n---\ntitle: x\n---\n");
        is_no_front_matter("----\ntitle: x\n----\n");
        is_no_front_matter("---");
    }

    #[test]
    fn malformed_front_matter_stays_in_the_text_and_is_named() {
        is_refused("---\ntitle: [unclosed\n---\nText", "line");
        is_refused("---\na: b: c\n---\nText", "line");
    }

    #[test]
    fn bombs_do_not_explode() {
        let mut laughs =
            String::from("---\na0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for i in 1..10 {
            let previous = i - 1;
            let alias = format!("*a{previous}, ").repeat(9);
            laughs += &format!("a{i}: &a{i} [{alias}*a{previous}]\n");
        }
        is_refused(&(laughs + "---\nText"), "budget");

        let long = format!(
            "---\na: &a {}\nb: [{}*a]\n---\nText",
            "x".repeat(100_000),
            "*a, ".repeat(100)
        );
        is_refused(&long, "bytes");
    }

    #[test]
    fn deep_and_huge_blocks_are_refused() {
        for n in [40, 10_000, 100_000] {
            is_refused(
                &format!("---\na: {}{}\n---\nText", "[".repeat(n), "]".repeat(n)),
                "",
            );
        }
        let stairs: String = (0..400).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
        is_refused(&format!("---\n{stairs}---\nText"), "");
        is_refused(
            &format!("---\na: {}\n---\nText", "x".repeat(300_000)),
            "bytes",
        );
    }

    #[test]
    fn toml_between_plus_signs_is_front_matter_too() {
        let parted = part(
            "+++\r\ntitle = \"Keys\"\ndate = 2024-03-01T10:00:00Z\nn = 3\nx = 1.5\nc = \"n\\u0000l\"\n\n[extra]\ntags = [\"a\", \"b\"]\n+++\r\n# Text",
        );
        assert_eq!(
            Value::Object(parted.metadata),
            json!({"title": "Keys", "date": "2024-03-01T10:00:00Z", "n": 3, "x": 1.5, "c": "n\u{FFFD}l",
                   "extra": {"tags": ["a", "b"]}})
        );
        assert_eq!(parted.body, "# Text");
        is_no_front_matter("+++\ntitle = 1\n");
        let file = "+++\nJust a sentence.\n+++\nText";
        assert_eq!(part(file).body, file);
        assert!(part(file).metadata.contains_key("front_matter_error"));
    }

    #[test]
    fn deep_toml_is_refused() {
        let dotted = vec!["a"; 78].join(".");
        for n in [1, 20, 78, 1_000] {
            is_refused(
                &format!(
                    "+++\n{}1{}\n+++\nText",
                    format!("{dotted} = {{").repeat(n).trim_end_matches('{'),
                    "}".repeat(n - 1)
                ),
                "",
            );
        }
        is_refused(
            &format!(
                "+++\na = {}{}\n+++\nText",
                "[".repeat(100_000),
                "]".repeat(100_000)
            ),
            "",
        );
    }
}
