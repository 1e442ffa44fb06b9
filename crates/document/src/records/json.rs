//! JSON and JSON Lines.
//!
//! A file whose outermost value is an array has a record for each of its elements. Any other file
//! is one record. Objects inside objects and arrays become part of the name: `address.city:
//! Berlin`, `items[2].price: 3`. An array of plain values is one line: `tags: hot, green`. In an
//! object, each element of an array of objects begins a record.
//!
//! Numbers are as written: 1.10 is not 1.1.
//!
//! The text is written while the file is parsed, so a file takes no more memory than its text.
//! `serde_json` refuses values that are nested deeper than 128.

use std::fmt;

use rag_protocol::ingest::Stage;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{TooLong, Writer, as_written, field_name, records};
use crate::ExtractedDocument;

pub fn extract(file: &str, name: &str) -> ExtractedDocument {
    let mut writer = Writer::new(file);
    match read(file, &mut writer) {
        Ok(()) if !writer.text.is_empty() => records(writer.text, name),
        Ok(()) => records(file.to_owned(), name), // `{}`
        Err(why) => as_written(
            file,
            name,
            format!("the file is not valid JSON and was kept as written: {why}"),
        ),
    }
}

/// Reads a file with a value on each line. A line that is not JSON is kept as written.
pub fn extract_lines(file: &str, name: &str) -> ExtractedDocument {
    let mut writer = Writer::new(file);
    let (mut bad, mut first) = (0usize, String::new());
    for (i, line) in file
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        writer.end_record();
        let before = writer.text.len();
        if let Err(why) = read_value(line, Level::Record, &mut writer) {
            writer.text.truncate(before);
            writer.end_record();
            bad += 1;
            if bad == 1 {
                first = format!("line {}: {why}", i + 1);
            }
            if writer.field("").and_then(|()| writer.value(line)).is_err() {
                let why = "the file would be too long as records and was kept as written".into();
                return as_written(file, name, why);
            }
        }
    }
    let mut extracted = records(writer.text, name);
    if bad > 0 {
        let lines = if bad == 1 {
            "1 line is not valid JSON and was".into()
        } else {
            format!("{bad} lines are not valid JSON and were")
        };
        extracted.warn(Stage::Extract, format!("{lines} kept as written; {first}"));
    }
    extracted
}

fn read(file: &str, writer: &mut Writer) -> Result<(), String> {
    read_value(file, Level::Top, writer)
}

fn read_value(json: &str, level: Level, writer: &mut Writer) -> Result<(), String> {
    let mut from = serde_json::Deserializer::from_str(json);
    let value = Field {
        name: String::new(),
        level,
        writer: &mut *writer,
        numbers: &mut Numbers { rest: json },
    };
    let read = value.deserialize(&mut from).map_err(|e| e.to_string())?;
    from.end().map_err(|e| e.to_string())?;
    write(writer, "", read).map_err(|TooLong| TOO_LONG.to_owned())
}

/// Maximum length of a nested field's name, in bytes.
const MAX_PATH: usize = 4096;
const TOO_LONG: &str = "its text would be too long";

/// The role of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The whole file.
    Top,
    /// A record.
    Record,
    /// A member of the file's one record.
    Member,
    /// An element of such a member, and a record if it is an object.
    Element,
    Inside,
}

/// A value that is being read, under its full name.
struct Field<'a, 'json> {
    /// Empty for a whole record.
    name: String,
    level: Level,
    writer: &'a mut Writer,
    numbers: &'a mut Numbers<'json>,
}

/// The numbers of a JSON text in order, as they are written. The parser tells only their value:
/// 1.10 would be 1.1, and a long number another one.
struct Numbers<'json> {
    rest: &'json str,
}

impl Iterator for Numbers<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            let at = self
                .rest
                .find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            self.rest = &self.rest[at..];
            if self.rest.starts_with('"') {
                self.rest = after_string(&self.rest[1..]);
                continue;
            }
            let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
            let end = self
                .rest
                .find(|c: char| !is_part(c))
                .unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(number.to_owned());
        }
    }
}

/// Returns what follows a string whose first quotation mark has been read.
fn after_string(text: &str) -> &str {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

/// The result of reading a value.
enum ReadValue {
    /// A plain value that still has to be written.
    Plain(String),
    Written,
}

fn write(writer: &mut Writer, name: &str, read: ReadValue) -> Result<(), TooLong> {
    match read {
        ReadValue::Plain(value) if !value.trim().is_empty() => {
            writer.field(name).and_then(|()| writer.value(&value))
        }
        ReadValue::Plain(_) | ReadValue::Written => Ok(()),
    }
}

impl<'de> DeserializeSeed<'de> for Field<'_, '_> {
    type Value = ReadValue;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<ReadValue, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Field<'_, '_> {
    type Value = ReadValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<ReadValue, E> {
        Ok(ReadValue::Plain(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ReadValue, E> {
        Ok(ReadValue::Plain(
            self.numbers.next().unwrap_or_else(|| value.to_string()),
        ))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ReadValue, E> {
        Ok(ReadValue::Plain(
            self.numbers.next().unwrap_or_else(|| value.to_string()),
        ))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ReadValue, E> {
        Ok(ReadValue::Plain(
            self.numbers.next().unwrap_or_else(|| value.to_string()),
        ))
    }

    fn visit_str<E>(self, value: &str) -> Result<ReadValue, E> {
        Ok(ReadValue::Plain(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<ReadValue, E> {
        Ok(ReadValue::Plain(String::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<ReadValue, A::Error> {
        let Self {
            name: outer,
            level,
            writer,
            numbers,
        } = self;
        if level == Level::Element {
            writer.end_record();
        }
        let level = if level == Level::Top {
            Level::Member
        } else {
            Level::Inside
        };
        while let Some(key) = from.next_key::<String>()? {
            let key = field_name(&key);
            let name = if outer.is_empty() {
                key
            } else {
                format!("{outer}.{key}")
            };
            if name.len() > MAX_PATH {
                return Err(A::Error::custom("its names are nested too deeply"));
            }
            let read = from.next_value_seed(Field {
                name: name.clone(),
                level,
                writer: &mut *writer,
                numbers: &mut *numbers,
            })?;
            write(writer, &name, read).map_err(|TooLong| A::Error::custom(TOO_LONG))?;
        }
        Ok(ReadValue::Written)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<ReadValue, A::Error> {
        let Self {
            name: outer,
            level,
            writer,
            numbers,
        } = self;
        let too_long = |TooLong| A::Error::custom(TOO_LONG);
        let inner = match level {
            Level::Top => Level::Record,
            Level::Member => Level::Element,
            Level::Record | Level::Element | Level::Inside => Level::Inside,
        };
        // True while the line of this array's plain values is being written.
        let mut in_line = false;
        for i in 0.. {
            let name = if inner == Level::Record {
                String::new()
            } else {
                format!("{outer}[{i}]")
            };
            if inner == Level::Record {
                writer.end_record();
            }
            match from.next_element_seed(Field {
                name,
                level: inner,
                writer: &mut *writer,
                numbers: &mut *numbers,
            })? {
                None => break,
                Some(ReadValue::Written) => in_line = false,
                Some(read @ ReadValue::Plain(_)) if inner == Level::Record => {
                    write(writer, "", read).map_err(too_long)?
                }
                Some(ReadValue::Plain(value)) if value.trim().is_empty() => {}
                Some(ReadValue::Plain(value)) => {
                    if in_line {
                        writer.push(", ").map_err(too_long)?;
                    } else {
                        writer.field(&outer).map_err(too_long)?;
                    }
                    writer.value(&value).map_err(too_long)?;
                    in_line = true;
                }
            }
        }
        if level == Level::Member && !in_line {
            writer.end_record();
        }
        Ok(ReadValue::Written)
    }
}

#[cfg(test)]
mod tests {
    use crate::{ExtractedDocument, Structure};

    fn text(file: &str) -> String {
        let ExtractedDocument {
            text,
            structure,
            metadata,
            ..
        } = super::extract(file, "a.json");
        assert_eq!(
            (structure, metadata.len()),
            (Structure::Records, 0),
            "{metadata:?}"
        );
        text
    }

    #[test]
    fn an_array_of_objects_is_records() {
        assert_eq!(
            text(
                r#"[{"name": "Tea", "price": 2.5, "tags": ["hot", "green"], "none": null, "old": false},
                     {"name": "Coffee", "by": {"city": "Rome", "a": [{"b": 1}, 2, 3]}, "t": "one\n\ntwo"}, 7, "x"]"#
            ),
            "name: Tea\nprice: 2.5\ntags: hot, green\nold: false\n\n\
             name: Coffee\nby.city: Rome\nby.a[0].b: 1\nby.a: 2, 3\nt: one\ntwo\n\n7\n\nx"
        );
    }

    #[test]
    fn an_object_is_one_record_and_its_arrays_of_objects_are_records_too() {
        assert_eq!(
            text(
                r#"{"total": 2, "items": [{"a": 1, "b": 2}, {"a": 3}], "next": "z", "sizes": [1, 2]}"#
            ),
            "total: 2\n\nitems[0].a: 1\nitems[0].b: 2\n\nitems[1].a: 3\n\nnext: z\nsizes: 1, 2"
        );
        assert_eq!(text("\"just text\""), "just text");
        assert_eq!(text("[[1, 2], [3]]"), "1, 2\n\n3");
    }

    #[test]
    fn numbers_are_as_written() {
        assert_eq!(
            text(
                r#"{"price": 1.10, "version": 2.0, "id": 12345678901234567890123, "e": 1E5,
                     "\"-9": [-0, -1.50e-3, "7", 0], "deep": {"5": 1.000, "x\\": [[1.0], 2.00]}}"#
            ),
            "price: 1.10\nversion: 2.0\nid: 12345678901234567890123\ne: 1E5\n\"-9: -0, -1.50e-3, 7, \
             0\ndeep.5: 1.000\ndeep.x\\[0]: 1.0\ndeep.x\\: 2.00"
        );
        assert_eq!(text("[1.50, true, null, -2.0]"), "1.50\n\ntrue\n\n-2.0");
        let lines = super::extract_lines("{\"a\": 1.0}\n{bad 3.0\n{\"a\": 2.50}\n", "a.jsonl");
        assert_eq!(lines.text, "a: 1.0\n\n{bad 3.0\n\na: 2.50");
    }

    #[test]
    fn invalid_json_is_kept_with_a_warning() {
        for file in [
            "{\"a\": 1",
            "{'a': 1}",
            "[1] [2]",
            &format!("{}{}", "[".repeat(1000), "]".repeat(1000)),
        ] {
            let extracted = super::extract(file, "a.json");
            assert_eq!(extracted.text, file);
            assert!(extracted.warnings[0].message.contains("is not valid JSON"));
        }
    }

    #[test]
    fn a_file_whose_text_would_grow_too_long_is_kept_as_written() {
        let key = "k".repeat(190);
        let nested = format!(
            "{}[{}]{}",
            format!("{{\"{key}\":").repeat(20),
            "{\"a\":1},".repeat(50_000) + "1",
            "}".repeat(20)
        );
        let extracted = super::extract(&nested, "a.json");
        assert!(extracted.text.len() <= 16 * nested.len() + (64 << 10));
        assert!(extracted.warnings[0].message.contains("too long"));
    }

    #[test]
    fn lines_are_records_and_an_invalid_one_is_kept_as_written() {
        let ExtractedDocument { text, warnings, .. } = super::extract_lines(
            "{\"a\": 1, \"b\": [{\"c\": 2}]}\n\n{broken\n{\"a\": 2}\n",
            "a.jsonl",
        );
        assert_eq!(text, "a: 1\nb[0].c: 2\n\n{broken\n\na: 2");
        let warning = &warnings[0].message;
        assert!(
            warning.starts_with("1 line is not valid JSON and was kept as written; line 3: "),
            "{warning}"
        );
    }
}
