//! XML of any kind.
//!
//! A file with words around elements (`<p>the <b>word</b></p>`) is a text: DocBook, JATS, DITA, TEI
//! and so on. Elements that stand among words are a part of the line, and others are paragraphs.
//! Titles are headings, as deep as they are nested. Any other file is data: a line of
//! `name: value` for each value, and an empty line between two records.

use std::collections::HashSet;

use quick_xml::{
    Reader,
    errors::{Error, IllFormedError},
    events::Event,
};

use crate::{DocumentError, ExtractedDocument, package::malformed, xml};

mod data;
mod prose;

/// Maximum number of elements in each other.
const MAX_DEPTH: usize = 1_000;
/// Maximum number of names of elements that are told apart.
const MAX_NAMES: usize = 10_000;

/// What has been found out about a file before it is read.
#[derive(Default)]
struct Survey {
    /// Names of elements that stand among words.
    inline: HashSet<String>,
    /// The depth and the name of the elements that are records.
    record: Option<(usize, String)>,
}

pub fn extract(file: &str, name: &str) -> Result<ExtractedDocument, DocumentError> {
    let survey = survey(file).map_err(|e| malformed("XML file", &e))?;
    let (text, title) = match survey.inline.is_empty() {
        true => (
            data::read(file, &survey).map_err(|e| malformed("XML file", &e))?,
            None,
        ),
        false => prose::read(file, &survey).map_err(|e| malformed("XML file", &e))?,
    };
    Ok(ExtractedDocument::in_markdown(text, title, name))
}

fn reader(file: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(file);
    reader.config_mut().expand_empty_elements = true;
    reader
}

fn too_deep() -> Error {
    let name = "elements that are nested too deeply".to_owned();
    IllFormedError::MissingEndTag(name).into()
}

fn cut(name: &str) -> Error {
    IllFormedError::MissingEndTag(name.to_owned()).into()
}

/// An element that is open.
#[derive(Default)]
struct Open {
    name: String,
    has_words: bool,
    /// The names of the elements in it, and the last one of them that comes twice.
    children: HashSet<String>,
    repeated: Option<String>,
    /// An element in it has elements itself.
    has_records: bool,
}

fn survey(file: &str) -> Result<Survey, Error> {
    let mut reader = reader(file);
    let mut survey = Survey::default();
    let mut open: Vec<Open> = vec![];
    loop {
        match &reader.read_event()? {
            Event::Start(element) => {
                if open.len() >= MAX_DEPTH {
                    return Err(too_deep());
                }
                let name = element.local_name().into_inner().to_owned();
                open.push(Open {
                    name,
                    ..Open::default()
                });
            }
            Event::End(_) => {
                let Some(closed) = open.pop() else { continue };
                let is_record = !closed.children.is_empty();
                if closed.has_words && survey.inline.len() < MAX_NAMES {
                    survey.inline.extend(closed.children);
                }
                let depth = open.len() + 1;
                if let (Some(name), true) = (closed.repeated, closed.has_records)
                    && survey
                        .record
                        .as_ref()
                        .is_none_or(|(known, _)| depth < *known)
                {
                    survey.record = Some((depth, name));
                }
                if let Some(above) = open.last_mut() {
                    above.has_records |= is_record;
                    if above.children.contains(&closed.name) {
                        above.repeated = Some(closed.name);
                    } else if above.children.len() < MAX_NAMES {
                        above.children.insert(closed.name);
                    }
                }
            }
            Event::Eof => {
                return match open.pop() {
                    Some(last) => Err(cut(&last.name)),
                    None => Ok(survey),
                };
            }
            event => {
                if let (Some(last), Some(piece)) = (open.last_mut(), xml::text(event)) {
                    last.has_words |= !piece.trim().is_empty();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
