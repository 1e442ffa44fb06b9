//! Values as lines of `name: value`.

use quick_xml::{errors::Error, events::Event};

use super::{Survey, reader};
use crate::{blocks, xml};

/// Returns the values of a file. Names are those of the elements inside of a record.
pub fn read(file: &str, survey: &Survey) -> Result<String, Error> {
    let mut reader = reader(file);
    let mut text = String::new();
    // Names of the open elements, and how many of them are outside of the record.
    let mut open: Vec<String> = vec![];
    let mut outside = 1;
    let mut value = String::new();
    loop {
        match &reader.read_event()? {
            Event::Start(element) => {
                value.clear();
                let name = element.local_name().into_inner().to_owned();
                let is_record = survey
                    .record
                    .as_ref()
                    .is_some_and(|(depth, record)| *depth == open.len() && *record == name);
                open.push(name);
                if is_record {
                    outside = open.len();
                    end_record(&mut text);
                }
                for attribute in element.attributes().with_checks(false).flatten() {
                    let key = attribute.key.into_inner();
                    if key.starts_with("xmlns") || key.starts_with("xsi:") {
                        continue;
                    }
                    let local = attribute.key.local_name().into_inner();
                    let value = attribute
                        .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                        .unwrap_or_default();
                    let name = named(&open, outside, Some(local));
                    write(&mut text, &name, &value);
                }
            }
            Event::End(_) => {
                let name = named(&open, outside, None);
                write(&mut text, &name, &value);
                value.clear();
                if open.len() == outside && outside > 1 {
                    outside = 1;
                    end_record(&mut text);
                }
                open.pop();
            }
            Event::Eof => return Ok(text.trim_end().to_owned()),
            event => {
                if let Some(piece) = xml::text(event) {
                    value.push_str(&piece);
                }
            }
        }
    }
}

/// Returns the name of a value: `address.city`.
fn named(open: &[String], outside: usize, attribute: Option<&str>) -> String {
    let inside = open.get(outside.min(open.len())..).unwrap_or_default();
    let names = inside.iter().map(String::as_str).chain(attribute);
    let name = names.collect::<Vec<_>>().join(".");
    match (name.is_empty(), open.last()) {
        (true, Some(last)) => last.clone(),
        _ => name,
    }
}

fn write(text: &mut String, name: &str, value: &str) {
    let lines = value.lines().map(str::trim).filter(|line| !line.is_empty());
    let value = lines.collect::<Vec<_>>().join("\n");
    if value.is_empty() {
        return;
    }
    // The value may have lines that Markdown would read.
    text.push_str(&blocks::escaped(&format!("{name}: {value}")));
    text.push('\n');
}

fn end_record(text: &mut String) {
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
}
