//! Word documents (Office Open XML, ECMA-376): a ZIP archive of XML files. These are read:
//!
//! | file | content |
//! |---|---|
//! | `word/document.xml` | paragraphs `w:p` of runs `w:r` of texts `w:t`; tables `w:tbl` |
//! | `word/styles.xml` | which paragraph styles are headings: by their outline level, else by the name `heading N` |
//! | `docProps/core.xml` | the title |
//!
//! Headings, list items and tables become Markdown. Deleted text (`w:del`), field codes, comments,
//! headers, footers and footnotes are dropped. Hidden text (`w:vanish`) is dropped and counted. Of
//! alternatives (`mc:AlternateContent`) the fallback is dropped.
//!
//! A few kilobytes can unpack to gigabytes, so each file is unpacked up to [`MAX_XML`] bytes. Only
//! the five entities of XML are expanded.

use std::{
    collections::HashMap,
    io::{Cursor, Read},
};

use quick_xml::{
    Reader,
    XmlVersion::Implicit1_0 as XML,
    events::{BytesStart, Event},
};
use rag_protocol::ingest::{Stage, Title};
use zip::{ZipArchive, result::ZipError};

use crate::{DocumentError, ExtractedDocument, decode, markdown, title};

/// Maximum size of one unpacked file, in bytes.
const MAX_XML: u64 = 128 << 20;
/// Names of elements that are not shown.
const HIDDEN: [&str; 4] = ["del", "instrText", "delText", "Fallback"];

pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| malformed(&e))?;
    let document = read(&mut archive, "word/document.xml")?
        .ok_or_else(|| malformed(&"it has no word/document.xml"))?;
    // Styles and properties are optional.
    let levels = match read(&mut archive, "word/styles.xml")? {
        Some(styles) => heading_levels(&styles).map_err(|e| malformed(&e))?,
        None => HashMap::new(),
    };
    let declared =
        read(&mut archive, "docProps/core.xml")?.and_then(|core| property(&core, "title"));
    let Body { text, hidden_runs } = body(&document, &levels).map_err(|e| malformed(&e))?;
    let structure = markdown::structure(&text);
    let title: Option<Title> = declared
        .as_deref()
        .and_then(title::own)
        .or_else(|| markdown::heading(&structure));
    let mut extracted = ExtractedDocument::new(
        text,
        title.unwrap_or_else(|| title::from_name(name)),
        structure,
    );
    if hidden_runs > 0 {
        let texts = if hidden_runs == 1 {
            "1 hidden text was".into()
        } else {
            format!("{hidden_runs} hidden texts were")
        };
        extracted.warn(Stage::Extract, format!("{texts} removed"));
    }
    Ok(extracted)
}

fn malformed(why: &dyn std::fmt::Display) -> DocumentError {
    let why: String = why
        .to_string()
        .replace('\0', "\u{FFFD}")
        .chars()
        .take(200)
        .collect();
    DocumentError::new(
        Stage::Extract,
        format!("the Word document is malformed: {why}"),
    )
    .hint(
        "Open the file with a word processor, save it again, and replace the file with the result.",
    )
}

/// Returns `None` if the archive has no such file.
fn read(
    archive: &mut ZipArchive<Cursor<&[u8]>>,
    path: &str,
) -> Result<Option<String>, DocumentError> {
    let file = match archive.by_name(path) {
        Ok(file) => file,
        Err(ZipError::FileNotFound) => return Ok(None),
        Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) => {
            return Err(
                DocumentError::new(Stage::Extract, "the Word document is encrypted")
                    .hint("Replace the file with a copy without a password."),
            );
        }
        Err(e) => return Err(malformed(&e)),
    };
    let mut bytes = vec![];
    file.take(MAX_XML + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| malformed(&e))?;
    if bytes.len() as u64 > MAX_XML {
        return Err(DocumentError::new(
            Stage::Extract,
            format!("the Word document's {path} unpacks to more than {MAX_XML} bytes"),
        )
        .hint("The file may be damaged, or designed to exhaust memory."));
    }
    Ok(Some(decode::text(&bytes, None)?.text.into_owned()))
}

fn attribute(element: &BytesStart, name: &str) -> Option<String> {
    let found = element
        .attributes()
        .flatten()
        .find(|a| a.key.local_name().into_inner() == name)?;
    Some(found.normalized_value(XML).ok()?.into_owned())
}

/// Maps the id of a paragraph style to its heading level.
fn heading_levels(styles: &str) -> Result<HashMap<String, usize>, quick_xml::Error> {
    let mut levels = HashMap::new();
    let mut style = String::new();
    let mut reader = Reader::from_str(styles);
    loop {
        let element = match reader.read_event()? {
            Event::Eof => return Ok(levels),
            Event::Start(element) | Event::Empty(element) => element,
            _ => continue,
        };
        match element.local_name().into_inner() {
            "style" => style = attribute(&element, "styleId").unwrap_or_default(),
            "name" => {
                let name = attribute(&element, "val")
                    .unwrap_or_default()
                    .to_lowercase();
                let level = match name.as_str() {
                    "title" => Some(1),
                    name => name
                        .strip_prefix("heading ")
                        .and_then(|level| level.parse().ok()),
                };
                if let Some(level) = level {
                    levels.insert(style.clone(), level);
                }
            }
            "outlineLvl" => {
                // From 0; 9 is body text.
                let level =
                    attribute(&element, "val").and_then(|level| level.parse::<usize>().ok());
                if let Some(level) = level.filter(|level| *level < 9) {
                    levels.entry(style.clone()).or_insert(level + 1);
                }
            }
            _ => {}
        }
    }
}

fn property(core: &str, name: &str) -> Option<String> {
    let mut reader = Reader::from_str(core);
    let mut text: Option<String> = None;
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) if element.local_name().into_inner() == name => {
                text = Some(String::new())
            }
            Event::Text(piece) => text
                .iter_mut()
                .for_each(|text| text.push_str(&piece.xml10_content())),
            Event::GeneralRef(entity) => {
                text.iter_mut().for_each(|text| push_entity(text, &entity))
            }
            Event::End(element) if element.local_name().into_inner() == name => return text,
            Event::Eof => return None,
            _ => {}
        }
    }
}

fn push_entity(text: &mut String, entity: &quick_xml::events::BytesRef) {
    match entity.resolve_char_ref() {
        Ok(Some(c)) => text.push(c),
        _ => {
            text.push_str(quick_xml::escape::resolve_predefined_entity(entity).unwrap_or_default())
        }
    }
}

/// A paragraph that is being read.
#[derive(Default)]
struct Paragraph {
    text: String,
    level: Option<usize>,
    /// Depth in a list, from 0.
    list: Option<usize>,
}

/// The body as Markdown.
struct Body {
    text: String,
    /// Number of texts that are formatted as hidden and were dropped.
    hidden_runs: usize,
}

fn body(document: &str, levels: &HashMap<String, usize>) -> Result<Body, quick_xml::Error> {
    let mut text = String::new();
    // The open run is formatted as hidden.
    let mut vanished = false;
    let mut hidden_runs = 0;
    let mut paragraph = Paragraph::default();
    // Rows of the open tables, the innermost last. A cell is the text of its paragraphs.
    let mut tables: Vec<Vec<Vec<String>>> = vec![];
    let mut hidden = 0usize;
    let mut in_text = false;
    let mut after_item = false;
    let mut reader = Reader::from_str(document);
    loop {
        let event = reader.read_event()?;
        match &event {
            Event::Start(element) | Event::Empty(element) => {
                let is_open = matches!(event, Event::Start(_));
                match element.local_name().into_inner() {
                    name if HIDDEN.contains(&name) => hidden += usize::from(is_open),
                    _ if hidden > 0 => {}
                    "p" => paragraph = Paragraph::default(),
                    "pStyle" => {
                        paragraph.level =
                            attribute(element, "val").and_then(|id| levels.get(&id).copied())
                    }
                    "numPr" => paragraph.list = paragraph.list.or(Some(0)),
                    "ilvl" => {
                        paragraph.list =
                            attribute(element, "val").and_then(|level| level.parse().ok())
                    }
                    "r" => vanished = false,
                    "vanish" => {
                        vanished = !matches!(
                            attribute(element, "val").as_deref(),
                            Some("0" | "false" | "off")
                        );
                    }
                    "t" if vanished => hidden_runs += usize::from(is_open),
                    "t" => in_text = is_open,
                    "tab" if !paragraph.text.is_empty() => paragraph.text.push('\t'),
                    "br" | "cr" => paragraph.text.push('\n'),
                    "noBreakHyphen" => paragraph.text.push('\u{2011}'),
                    "tbl" if is_open => tables.push(vec![]),
                    "tr" => tables
                        .last_mut()
                        .into_iter()
                        .for_each(|rows| rows.push(vec![])),
                    "tc" => {
                        let row = tables.last_mut().and_then(|rows| rows.last_mut());
                        row.into_iter().for_each(|row| row.push(String::new()));
                    }
                    _ => {}
                }
            }
            Event::Text(piece) if in_text && hidden == 0 => {
                paragraph.text.push_str(&piece.xml10_content())
            }
            Event::CData(piece) if in_text && hidden == 0 => paragraph.text.push_str(piece),
            Event::GeneralRef(entity) if in_text && hidden == 0 => {
                push_entity(&mut paragraph.text, entity)
            }
            Event::End(element) => match element.local_name().into_inner() {
                name if HIDDEN.contains(&name) => hidden = hidden.saturating_sub(1),
                "t" => in_text = false,
                "p" => {
                    let ended = std::mem::take(&mut paragraph);
                    match tables
                        .last_mut()
                        .and_then(|rows| rows.last_mut())
                        .and_then(|row| row.last_mut())
                    {
                        Some(cell) => {
                            cell.push(' ');
                            cell.push_str(&ended.text);
                        }
                        None => after_item = write(&mut text, &ended, after_item),
                    }
                }
                "tbl" => {
                    let rows = tables.pop().unwrap_or_default();
                    match tables
                        .last_mut()
                        .and_then(|rows| rows.last_mut())
                        .and_then(|row| row.last_mut())
                    {
                        // A table inside a cell becomes plain text.
                        Some(cell) => {
                            for inner in rows.iter().flatten() {
                                cell.push(' ');
                                cell.push_str(inner);
                            }
                        }
                        None => write_table(&mut text, &rows),
                    }
                    after_item = false;
                }
                _ => {}
            },
            Event::Eof => return Ok(Body { text, hidden_runs }),
            _ => {}
        }
    }
}

/// Adds a paragraph. Returns true if it was a list item.
fn write(text: &mut String, paragraph: &Paragraph, after_item: bool) -> bool {
    let words = paragraph.text.trim();
    if words.is_empty() {
        return after_item;
    }
    let is_item = paragraph.level.is_none() && paragraph.list.is_some();
    if !text.is_empty() {
        text.push_str(if is_item && after_item { "\n" } else { "\n\n" });
    }
    match (paragraph.level, paragraph.list) {
        (Some(level), _) => {
            text.push_str(&"#".repeat(level.clamp(1, 6)));
            text.push(' ');
            text.push_str(&words.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        (None, Some(depth)) => {
            text.push_str(&"  ".repeat(depth.min(8)));
            text.push_str("- ");
            text.push_str(words);
        }
        (None, None) => text.push_str(words),
    }
    is_item
}

fn write_table(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    for (i, row) in rows
        .iter()
        .filter(|row| row.iter().any(|cell| !cell.trim().is_empty()))
        .enumerate()
    {
        text.push_str(if i > 0 {
            "\n|"
        } else if text.is_empty() {
            "|"
        } else {
            "\n\n|"
        });
        for cell in row {
            let cell = cell
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace('|', "\\|");
            text.push_str(&if cell.is_empty() {
                " |".into()
            } else {
                format!(" {cell} |")
            });
        }
        if i == 0 {
            text.push('\n');
            text.push('|');
            text.push_str(&" --- |".repeat(columns));
        }
    }
}

#[cfg(test)]
mod tests;
