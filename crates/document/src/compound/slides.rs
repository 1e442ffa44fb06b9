//! Slides of PowerPoint before 2007 (`.ppt`, [MS-PPT]).
//!
//! The stream `PowerPoint Document` is a tree of records. A file that was saved several times has
//! former versions of its slides, too. So slides are found through the directory of the last
//! version: the document's list has the words of titles and outlines, and each slide has its other
//! text boxes. Notes for the speaker follow.

use std::collections::HashMap;

use super::{Compound, in_code_page, u16_at, u32_at, usize_at, utf16};
use crate::{
    DocumentError, ExtractedDocument,
    blocks::{self, Block},
    package::encrypted,
    title,
};

const FORMAT: &str = "presentation";
/// Maximum depth of records in each other.
const MAX_DEPTH: usize = 32;

/// Types of records.
mod kind {
    pub const SLIDE_LIST: u16 = 0x0FF0;
    pub const SLIDE_PLACE: u16 = 0x03F3;
    pub const TEXT_HEADER: u16 = 0x0F9F;
    pub const TEXT: u16 = 0x0FA0;
    pub const NARROW_TEXT: u16 = 0x0FA8;
    pub const NOTES: u16 = 0x03F0;
    pub const USER_EDIT: u16 = 0x0FF5;
    pub const DIRECTORY: u16 = 0x1772;
    pub const TEXT_BOX: u16 = 0xF00D;
}

pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    let mut file = Compound::open(bytes, FORMAT)?;
    let user = file.stream("/Current User")?.unwrap_or_default();
    let is_locked = u32_at(&user, 12) == Some(0xF3D1_C4DF);
    if is_locked || file.stream("/EncryptedSummary")?.is_some() {
        return Err(encrypted(FORMAT));
    }
    let stream = file.required("PowerPoint Document")?;
    let last = usize_at(&user, 16).unwrap_or_default();
    let directory = directory(&stream, last)
        .ok_or_else(|| file.malformed("it has no directory of its slides"))?;
    let document = directory.document(&stream);
    let document = document.ok_or_else(|| file.malformed("it has no list of its slides"))?;
    let mut blocks = vec![];
    for slide in slides(document, 0) {
        let mut texts = slide.texts;
        let boxes = directory.record(&stream, slide.place);
        let boxes = boxes.map(|record| text_boxes(&record)).unwrap_or_default();
        texts.extend(boxes);
        let at = texts.iter().position(|text| text.is_title);
        let title = at.map(|at| texts.remove(at).words).unwrap_or_default();
        blocks.push(Block::Heading {
            level: 2,
            text: title.trim().replace(['\r', '\u{B}'], " "),
        });
        blocks.extend(texts.iter().flat_map(Text::paragraphs));
    }
    for notes in slides(document, 2) {
        let record = directory.record(&stream, notes.place);
        let record = record.filter(|record| record.kind == kind::NOTES);
        let boxes = record.map(|record| text_boxes(&record)).unwrap_or_default();
        let of_notes = boxes.iter().filter(|text| !text.is_title);
        blocks.extend(of_notes.flat_map(Text::paragraphs));
    }
    let declared = file.title();
    let title = declared
        .as_deref()
        // What the program writes where nobody gave a title.
        .filter(|title| *title != "PowerPoint Presentation" && *title != "Slide 1")
        .and_then(title::own);
    let text = blocks::markdown(&blocks);
    Ok(ExtractedDocument::in_markdown(text, title, name))
}

/// A record: its type, and what it holds.
#[derive(Debug, Clone, Copy)]
struct Record<'a> {
    kind: u16,
    instance: u16,
    is_tree: bool,
    body: &'a [u8],
}

/// Returns the record at the beginning of the bytes, and the rest.
fn first(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    const HEAD: usize = 8;
    let head = u16_at(bytes, 0)?;
    let end = usize_at(bytes, 4)?.checked_add(HEAD)?.min(bytes.len());
    let record = Record {
        kind: u16_at(bytes, 2)?,
        instance: head >> 4,
        is_tree: head & 0xF == 0xF,
        body: bytes.get(HEAD..end)?,
    };
    Some((record, &bytes[end..]))
}

fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let (record, rest) = first(bytes)?;
        bytes = rest;
        Some(record)
    })
}

/// Where the records of the last version are.
struct Directory {
    places: HashMap<u32, usize>,
    document: u32,
}

/// Returns the directory of the version that ends at a place of the stream.
fn directory(stream: &[u8], last: usize) -> Option<Directory> {
    let mut directory = Directory {
        places: HashMap::new(),
        document: 0,
    };
    let mut place = last;
    // Each version adds to the one before.
    let mut seen = vec![];
    while !seen.contains(&place) && seen.len() < 1000 {
        seen.push(place);
        let (edit, _) = first(stream.get(place..)?)?;
        if edit.kind != kind::USER_EDIT {
            return None;
        }
        if seen.len() == 1 {
            directory.document = u32_at(edit.body, 16)?;
        }
        let (list, _) = first(stream.get(usize_at(edit.body, 12)?..)?)?;
        if list.kind == kind::DIRECTORY {
            directory.add(list.body);
        }
        place = match usize_at(edit.body, 8)? {
            0 => break,
            before => before,
        };
    }
    Some(directory)
}

impl Directory {
    fn add(&mut self, mut list: &[u8]) {
        while let Some(head) = u32_at(list, 0) {
            let (id, count) = (head & 0xF_FFFF, head >> 20);
            for n in 0..count {
                let Some(place) = usize_at(list, 4 + 4 * n as usize) else {
                    return;
                };
                self.places.entry(id + n).or_insert(place);
            }
            list = &list[(4 + 4 * count as usize).min(list.len())..];
        }
    }

    fn record<'a>(&self, stream: &'a [u8], id: u32) -> Option<Record<'a>> {
        Some(first(stream.get(*self.places.get(&id)?..)?)?.0)
    }

    fn document<'a>(&self, stream: &'a [u8]) -> Option<&'a [u8]> {
        Some(self.record(stream, self.document)?.body)
    }
}

/// The text of a box.
struct Text {
    is_title: bool,
    words: String,
}

impl Text {
    fn paragraphs(&self) -> impl Iterator<Item = Block> {
        let lines = self
            .words
            .split('\r')
            .map(|line| line.replace('\u{B}', "\n"));
        let lines = lines.filter(|line| !line.trim().is_empty() && line.trim() != "*");
        lines.map(Block::Text)
    }
}

/// A slide in the list of the document.
struct Slide {
    place: u32,
    texts: Vec<Text>,
}

/// Returns the slides of a list: the one of slides, of masters or of notes.
fn slides(document: &[u8], list: u16) -> Vec<Slide> {
    let mut slides: Vec<Slide> = vec![];
    let lists = records(document)
        .filter(|record| record.kind == kind::SLIDE_LIST && record.instance == list);
    for record in lists.flat_map(|list| records(list.body).collect::<Vec<_>>()) {
        match (record.kind, slides.last_mut()) {
            (kind::SLIDE_PLACE, _) => slides.push(Slide {
                place: u32_at(record.body, 0).unwrap_or_default(),
                texts: vec![],
            }),
            (_, Some(slide)) => add_text(&record, &mut slide.texts),
            _ => {}
        }
    }
    for slide in &mut slides {
        slide.texts.retain(|text| !text.words.trim().is_empty());
    }
    slides
}

/// Adds the text of a record. Its type is in a record before it.
fn add_text(record: &Record, texts: &mut Vec<Text>) {
    const TITLES: [u32; 2] = [0, 6];
    let words = match record.kind {
        kind::TEXT_HEADER => {
            let of = u32_at(record.body, 0).unwrap_or_default();
            texts.push(Text {
                is_title: TITLES.contains(&of),
                words: String::new(),
            });
            return;
        }
        kind::TEXT => utf16(record.body),
        // The low bytes of UTF-16.
        kind::NARROW_TEXT => in_code_page(record.body, 1252),
        _ => return,
    };
    match texts.last_mut() {
        Some(text) => text.words.push_str(&words),
        None => texts.push(Text {
            is_title: false,
            words,
        }),
    }
}

/// Returns the texts of the boxes in a slide.
fn text_boxes(slide: &Record) -> Vec<Text> {
    let mut texts = vec![];
    let mut rest = vec![(*slide, 0)];
    while let Some((record, depth)) = rest.pop() {
        if record.kind == kind::TEXT_BOX {
            let mut of_box = vec![];
            records(record.body).for_each(|record| add_text(&record, &mut of_box));
            texts.extend(
                of_box
                    .into_iter()
                    .filter(|text| !text.words.trim().is_empty()),
            );
        } else if record.is_tree && depth < MAX_DEPTH {
            let inner: Vec<Record> = records(record.body).collect();
            rest.extend(inner.into_iter().rev().map(|record| (record, depth + 1)));
        }
    }
    texts
}
