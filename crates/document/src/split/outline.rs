//! Locates a chunk in its text: its lines, its page, the headings above it and their place, the
//! functions and types around it.

use rag_protocol::ingest::Chunk;

use super::{
    Lead,
    breaks::Place,
    tables::{self, Table},
};
use crate::{Anchor, ExtractedDocument, Heading, Structure, Symbol, Syntax, anchors, pdf};

/// Reads along with the chunks, which begin one after another.
pub struct Outline<'a> {
    text: &'a str,
    structure: &'a Structure,
    lines_before: u32,
    place: &'a str,
    anchors: &'a [Anchor],
    /// The position in the text, and what was passed so far.
    at: usize,
    lines: usize,
    pages: usize,
    headings: usize,
    /// The headings above `at`, outermost first.
    path: Vec<&'a Heading>,
    /// Symbols that were passed, and those around `at`, outermost first.
    symbols: usize,
    inside: Vec<&'a Symbol>,
    tables: Vec<Table>,
}

impl<'a> Outline<'a> {
    pub fn of(extracted: &'a ExtractedDocument) -> Self {
        let ExtractedDocument {
            text,
            structure,
            lines_before,
            place,
            anchors,
            ..
        } = extracted;
        Self {
            text,
            structure,
            lines_before: *lines_before,
            place,
            anchors,
            at: 0,
            lines: 0,
            pages: 0,
            headings: 0,
            path: vec![],
            symbols: 0,
            inside: vec![],
            tables: tables::of(text, structure),
        }
    }

    /// Returns the head of the table that a chunk continues if it begins at `start`: the names of
    /// the columns, and the lines that go before the rows.
    pub fn table_head(&self, start: Place) -> Option<(&'a str, String)> {
        // a part of a row would be in other columns
        let table = self.table(start).filter(|_| self.begins_line(start))?;
        Some((self.text[table.names.clone()].trim(), table.head(self.text)))
    }

    /// Returns where the next row begins if a place is within one, else the place.
    pub fn row(&self, place: Place) -> Place {
        if self.table(place).is_none() || self.begins_line(place) {
            return place;
        }
        let rest = &self.text[place.byte..];
        let line = rest.find('\n').unwrap_or(rest.len());
        let next = rest[line..].trim_start();
        let passed = &rest[..rest.len() - next.len()];
        Place {
            byte: place.byte + passed.len(),
            char: place.char + passed.chars().count(),
        }
    }

    /// Returns the table that has a place among its rows.
    fn table(&self, place: Place) -> Option<&Table> {
        let passed = self
            .tables
            .partition_point(|table| table.body.end <= place.byte);
        let table = self.tables.get(passed)?;
        table.body.contains(&place.byte).then_some(table)
    }

    fn begins_line(&self, place: Place) -> bool {
        let before = self.text[..place.byte].rsplit('\n').next();
        before.is_none_or(|before| before.trim().is_empty())
    }

    /// Returns what the model is told of a chunk that begins at `start`, besides the document's
    /// title: the file, and the innermost functions and types.
    pub fn context(&mut self, start: Place) -> String {
        /// Maximum number of functions and types.
        const INNERMOST: usize = 3;
        self.read_to(start.byte);
        let names: Vec<&str> = self
            .inside
            .iter()
            .rev()
            .take(INNERMOST)
            .rev()
            .map(|s| s.name.as_str())
            .collect();
        match (self.place, names.join(" > ")) {
            (place, names) if names.is_empty() => place.to_owned(),
            ("", names) => names,
            (place, names) => format!("{place}: {names}"),
        }
    }

    /// Describes the chunk from `start` to `end`. It begins after the previous one.
    pub fn chunk(&mut self, start: Place, end: Place, lead: Lead) -> Chunk {
        self.read_to(start.byte);
        let inside = line_ends(&self.text[start.byte..end.byte]);
        let ordinal = |before: usize| u32::try_from(before + 1).unwrap_or(u32::MAX);
        let line = |before: usize| ordinal(before).saturating_add(self.lines_before);
        let headings = self.path.iter().map(|heading| heading.text.clone());
        let anchor = anchors::around(self.anchors, start.byte, &self.path);
        Chunk {
            start_index: start.char,
            byte_start: start.byte,
            byte_len: end.byte - start.byte,
            start_line: line(self.lines),
            end_line: line(self.lines + inside),
            anchor: anchor.map(str::to_owned),
            page: (*self.structure == Structure::Pages).then(|| ordinal(self.pages)),
            heading_path: headings
                .chain(self.inside.iter().map(|symbol| symbol.name.clone()))
                .collect(),
            context: lead.context,
            table_head: lead.table_head,
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
            let entered = headings[self.headings..]
                .iter()
                .take_while(|heading| heading.at <= to);
            for heading in entered {
                self.headings += 1;
                self.path.retain(|outer| outer.level < heading.level);
                self.path.push(heading);
            }
        }
        if let Structure::Code(Syntax { symbols, .. }) = self.structure {
            for symbol in symbols[self.symbols..]
                .iter()
                .take_while(|symbol| symbol.at <= to)
            {
                self.symbols += 1;
                self.inside.push(symbol);
            }
            self.inside.retain(|symbol| symbol.end > to);
        }
    }
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}
