//! Footnotes and endnotes. A note is written below the block that refers to it, once.

use std::collections::HashMap;

use quick_xml::events::BytesStart;

use super::number::roman;
use crate::{
    blocks::{Block, one_line},
    xml::attribute,
};

/// A note by its kind, which is true for endnotes, and its id.
pub type Key = (bool, String);

#[derive(Debug, Default)]
pub struct Notes {
    texts: HashMap<Key, String>,
    /// Marks of the notes that have been referred to.
    marks: HashMap<Key, String>,
    footnotes: u32,
    endnotes: u32,
}

/// Returns which note an element is, or refers to.
pub fn key(element: &BytesStart) -> Key {
    let is_endnote = element.local_name().into_inner().starts_with("endnote");
    (is_endnote, attribute(element, "id").unwrap_or_default())
}

/// Returns true for the lines that separate notes from the text.
pub fn is_line(element: &BytesStart) -> bool {
    attribute(element, "type").is_some_and(|of| of != "normal")
}

impl Notes {
    pub fn add(&mut self, key: Key, blocks: &[Block]) {
        self.texts.insert(key, one_line(blocks));
    }

    /// Counts a reference. Returns its mark and, the first time, the note. Notes are counted as
    /// Word does: 1, 2, 3, and endnotes i, ii, iii. A mark of its own is in the text already.
    pub fn refer(&mut self, key: &Key, has_own_mark: bool) -> (Option<String>, Option<Block>) {
        if let Some(mark) = self.marks.get(key) {
            return (Some(mark.clone()).filter(|mark| !mark.is_empty()), None);
        }
        let mark = match key.0 {
            _ if has_own_mark => String::new(),
            true => {
                self.endnotes += 1;
                format!("[^{}]", roman(self.endnotes))
            }
            false => {
                self.footnotes += 1;
                format!("[^{}]", self.footnotes)
            }
        };
        self.marks.insert(key.clone(), mark.clone());
        let text = self.texts.remove(key).filter(|text| !text.is_empty());
        match (text, mark.is_empty()) {
            (Some(text), true) => (None, Some(Block::Text(text))),
            (Some(text), false) => {
                let note = Block::Text(format!("{mark}: {text}"));
                (Some(mark), Some(note))
            }
            // A note that does not exist has no mark.
            (None, _) => (None, None),
        }
    }
}
