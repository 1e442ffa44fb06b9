//! Where in a text a chunk is: its lines, its page, the headings it is under.

use rag_protocol::ingest::Chunk;

use super::breaks::Place;
use crate::{Heading, Structure, pdf};

/// Reads along with the chunks, which begin one after another.
pub struct Outline<'a> {
    text: &'a str,
    structure: &'a Structure,
    /// How far the text is read, and what was met until there.
    at: usize,
    lines: usize,
    pages: usize,
    headings: usize,
    /// The headings that `at` is under, outermost first.
    path: Vec<&'a Heading>,
}

impl<'a> Outline<'a> {
    pub fn of(text: &'a str, structure: &'a Structure) -> Self {
        Self { text, structure, at: 0, lines: 0, pages: 0, headings: 0, path: vec![] }
    }

    /// Describes the chunk from `start` to `end`. It begins after the one before it.
    pub fn chunk(&mut self, start: Place, end: Place) -> Chunk {
        self.read_to(start.byte);
        let inside = line_ends(&self.text[start.byte..end.byte]);
        let line = |before: usize| u32::try_from(before + 1).unwrap_or(u32::MAX);
        Chunk {
            start_index: start.char,
            byte_start: start.byte,
            byte_len: end.byte - start.byte,
            start_line: line(self.lines),
            end_line: line(self.lines + inside),
            page: (*self.structure == Structure::Pages).then(|| line(self.pages)),
            heading_path: self.path.iter().map(|heading| heading.text.clone()).collect(),
        }
    }

    fn read_to(&mut self, to: usize) {
        let passed = &self.text[self.at..to];
        self.at = to;
        self.lines += line_ends(passed);
        if *self.structure == Structure::Pages {
            self.pages += passed.matches(pdf::PAGE).count();
        }
        if let Structure::Sections { headings, .. } = self.structure {
            let entered = headings[self.headings..].iter().take_while(|heading| heading.at <= to);
            for heading in entered {
                self.headings += 1;
                self.path.retain(|outer| outer.level < heading.level);
                self.path.push(heading);
            }
        }
    }
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}
