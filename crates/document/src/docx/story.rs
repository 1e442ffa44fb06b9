//! The body of a document, a note or a text box: paragraphs and tables, which may be in each other.

use quick_xml::{
    Reader,
    errors::{Error, IllFormedError},
    events::{BytesStart, Event},
};

use super::{
    field::{self, Fields},
    formula, notes,
    paragraph::{Paragraph, Run},
    parts::{Losses, Parts},
    symbols,
    table::{Shape, Table},
    words::Script,
};
use crate::{
    blocks::Block,
    xml::{self, attribute},
};

/// Maximum number of paragraphs, cells and text boxes in each other.
const MAX_DEPTH: usize = 200;

/// Elements whose texts are not shown: deleted text, instructions of fields, properties that are
/// not read.
const HIDDEN: [&str; 18] = [
    "del",
    "moveFrom",
    "delText",
    "instrText",
    "delInstrText",
    "fldData",
    "sectPr",
    "sdtPr",
    "sdtEndPr",
    "customXmlPr",
    "rubyPr",
    "tblPr",
    "tblPrEx",
    "tblGrid",
    "tcPrChange",
    "oMathParaPr",
    "binData",
    "numPicBullet",
];

/// Something that is open.
enum Frame {
    /// The body, a cell, or a text box.
    Flow(Flow),
    Paragraph(Box<Paragraph>),
    Table(Table),
}

#[derive(Default)]
struct Flow {
    blocks: Vec<Block>,
    shape: Shape,
    /// A paragraph whose end was deleted: the next one continues it.
    continued: Option<Box<Paragraph>>,
}

/// One content in several forms, of which the first that has text is read.
struct Alternatives {
    /// Number of texts that had been read before.
    texts: usize,
    is_read: bool,
}

pub struct Story<'a> {
    parts: &'a mut Parts,
    frames: Vec<Frame>,
    run: Run,
    in_text: bool,
    fields: Fields,
    alternatives: Vec<Alternatives>,
    /// Number of texts that have been read.
    texts: usize,
    /// The reading of the characters that follow.
    ruby: Option<String>,
    /// What the open drawing is said to show.
    description: Option<String>,
    /// The open note, by its kind and id.
    note: Option<notes::Key>,
    /// Notes that are written below the block that is being read.
    below: Vec<Block>,
    losses: &'a mut Losses,
}

impl<'a> Story<'a> {
    pub fn new(parts: &'a mut Parts, losses: &'a mut Losses) -> Self {
        Self {
            parts,
            frames: vec![Frame::Flow(Flow::default())],
            run: Run::default(),
            in_text: false,
            fields: Fields::default(),
            alternatives: vec![],
            texts: 0,
            ruby: None,
            description: None,
            note: None,
            below: vec![],
            losses,
        }
    }

    /// Reads a part.
    pub fn read(mut self, xml: &str) -> Result<Vec<Block>, Error> {
        let mut reader = Reader::from_str(xml);
        reader.config_mut().expand_empty_elements = true;
        let mut open = 0usize;
        loop {
            match &reader.read_event()? {
                Event::Start(element) => {
                    open += usize::from(!self.start(element, &mut reader)?);
                }
                Event::End(element) => {
                    open = open.saturating_sub(1);
                    self.end(element.local_name().into_inner());
                }
                Event::Eof if open > 0 => {
                    let missing = IllFormedError::MissingEndTag("w:document".into());
                    return Err(missing.into());
                }
                Event::Eof => break,
                event => {
                    if let (true, Some(piece)) = (self.in_text, xml::text(event)) {
                        self.text(&piece);
                    }
                }
            }
        }
        while self.frames.len() > 1 {
            self.end_frame();
        }
        let Some(Frame::Flow(flow)) = self.frames.pop() else {
            return Ok(vec![]);
        };
        Ok(self.finish_flow(flow))
    }

    /// Begins an element. Returns true if it was read up to its end.
    fn start(&mut self, element: &BytesStart, reader: &mut Reader<&[u8]>) -> Result<bool, Error> {
        let value = |name| attribute(element, name);
        match element.local_name().into_inner() {
            name if HIDDEN.contains(&name) => {
                reader.read_to_end(element.name())?;
                return Ok(true);
            }
            "Choice" | "Fallback" if self.alternatives.last().is_some_and(|a| a.is_read) => {
                reader.read_to_end(element.name())?;
                return Ok(true);
            }
            "footnote" | "endnote" if notes::is_line(element) => {
                reader.read_to_end(element.name())?;
                return Ok(true);
            }
            "pPr" => {
                if let Some(paragraph) = self.paragraph() {
                    paragraph.read_properties(reader)?;
                } else {
                    reader.read_to_end(element.name())?;
                }
                let id = self
                    .paragraph()
                    .and_then(|paragraph| paragraph.style.clone());
                let (styles, id) = (&self.parts.styles, id.as_deref());
                let run = Run {
                    is_hidden: id.and_then(|id| styles.is_hidden(id)).unwrap_or(false),
                    script: id.and_then(|id| styles.script(id)).unwrap_or_default(),
                    font: None,
                };
                if let Some(paragraph) = self.paragraph() {
                    paragraph.run = run;
                }
                return Ok(true);
            }
            "rPr" => {
                self.run.read_properties(reader, &self.parts.styles)?;
                return Ok(true);
            }
            "trPr" => {
                match self.frames.last_mut() {
                    Some(Frame::Table(table)) => table.read_row_properties(reader)?,
                    _ => {
                        reader.read_to_end(element.name())?;
                    }
                }
                return Ok(true);
            }
            "ffData" => {
                if let Some(shown) = field::form_field(reader)? {
                    self.text(&shown);
                }
                return Ok(true);
            }
            "oMath" => {
                let line = formula::read(reader)?;
                self.push(&line, Script::Line);
                return Ok(true);
            }
            "p" | "rt" => self.open(Frame::Paragraph(Box::default()))?,
            "tbl" => self.open(Frame::Table(Table::default()))?,
            "tc" | "txbxContent" => self.open(Frame::Flow(Flow::default()))?,
            "footnote" | "endnote" => {
                self.note = Some(notes::key(element));
                self.open(Frame::Flow(Flow::default()))?;
            }
            "tr" => {
                if let Some(Frame::Table(table)) = self.frames.last_mut() {
                    table.begin_row();
                }
            }
            "r" => self.run = self.paragraph().map(|p| p.run.clone()).unwrap_or_default(),
            "t" => {
                self.in_text = true;
                self.losses.hidden += usize::from(self.run.is_hidden);
            }
            "tab" | "ptab" => self.text("\t"),
            "br" | "cr" => self.text("\n"),
            "noBreakHyphen" => self.text("\u{2011}"),
            "sym" => self.symbol(value("font"), value("char")),
            "fldChar" => self.fields.mark(&value("fldCharType").unwrap_or_default()),
            "footnoteReference" | "endnoteReference" => self.refer(element),
            "AlternateContent" => self.alternatives.push(Alternatives {
                texts: self.texts,
                is_read: false,
            }),
            name => self.place(name, element),
        }
        Ok(false)
    }

    /// Reads elements that have what they say in attributes.
    fn place(&mut self, name: &str, element: &BytesStart) {
        let value = |name| attribute(element, name);
        match name {
            "gridSpan" | "vMerge" | "hMerge" => {
                let Some(Frame::Flow(Flow { shape, .. })) = self.frames.last_mut() else {
                    return;
                };
                let is_first = value("val").as_deref() == Some("restart");
                match name {
                    "gridSpan" => {
                        shape.columns = value("val").and_then(|n| n.parse().ok()).unwrap_or(1);
                    }
                    "vMerge" => shape.is_below = !is_first,
                    _ => shape.is_beside = !is_first,
                }
            }
            "docPr" => self.description = value("descr"),
            "pic" => self.insert(vec![]),
            "chart" | "altChunk" => self.insert_part(value("id")),
            "relIds" => self.insert_part(value("dm")),
            "textpath" => {
                if let Some(text) = value("string") {
                    self.insert(vec![Block::Text(text)]);
                }
            }
            "OLEObject" => self.losses.objects += 1,
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "p" | "tbl" | "tc" | "txbxContent" => self.end_frame(),
            "footnote" | "endnote" => {
                if let (Some(Frame::Flow(flow)), Some(key)) = (self.frames.pop(), self.note.take())
                {
                    let blocks = self.finish_flow(flow);
                    self.parts.notes.add(key, &blocks);
                }
            }
            "rt" => {
                if let Some(Frame::Paragraph(paragraph)) = self.frames.pop() {
                    self.ruby = Some(paragraph.words.finish());
                }
            }
            "rubyBase" => {
                if let Some(reading) = self.ruby.take().filter(|text| !text.trim().is_empty()) {
                    self.push(&format!("({})", reading.trim()), Script::Line);
                }
            }
            "drawing" => self.description = None,
            "Choice" => {
                if let Some(last) = self.alternatives.last_mut() {
                    last.is_read |= self.texts > last.texts;
                }
            }
            "AlternateContent" => {
                self.alternatives.pop();
            }
            _ => {}
        }
    }

    fn open(&mut self, frame: Frame) -> Result<(), Error> {
        if self.frames.len() >= MAX_DEPTH {
            let name = "elements that are nested too deeply".to_owned();
            return Err(IllFormedError::MissingEndTag(name).into());
        }
        let frame = match frame {
            Frame::Paragraph(paragraph) => {
                let continued = match self.frames.last_mut() {
                    Some(Frame::Flow(flow)) => flow.continued.take(),
                    _ => None,
                };
                Frame::Paragraph(match continued {
                    Some(before) => Box::new(Paragraph::continued(*before)),
                    None => paragraph,
                })
            }
            frame => frame,
        };
        self.frames.push(frame);
        Ok(())
    }

    fn paragraph(&mut self) -> Option<&mut Paragraph> {
        match self.frames.last_mut() {
            Some(Frame::Paragraph(paragraph)) => Some(paragraph),
            _ => None,
        }
    }

    /// Adds text of a run.
    fn text(&mut self, piece: &str) {
        if self.run.is_hidden || self.fields.is_hidden() {
            return;
        }
        let script = self.run.script;
        match &self.run.font {
            Some(font) => {
                let font = font.clone();
                let mut shown = String::new();
                for c in piece.chars() {
                    match c {
                        '\t' | '\n' => shown.push(c),
                        c => shown.push(self.shown(&font, c)),
                    }
                }
                self.push(&shown, script);
            }
            // Line ends in a text are spaces; a line of the paragraph ends at "br".
            None if self.in_text && piece.contains(['\n', '\r']) => {
                self.push(&piece.replace(['\n', '\r'], " "), script);
            }
            None => self.push(piece, script),
        }
    }

    fn push(&mut self, piece: &str, script: Script) {
        let is_blank = piece.trim().is_empty();
        if let Some(paragraph) = self.paragraph() {
            paragraph.words.push(piece, script);
            self.texts += usize::from(!is_blank);
        }
    }

    fn shown(&mut self, font: &str, character: char) -> char {
        symbols::shown(font, character).unwrap_or_else(|| {
            self.losses.signs += 1;
            char::REPLACEMENT_CHARACTER
        })
    }

    fn symbol(&mut self, font: Option<String>, code: Option<String>) {
        if self.run.is_hidden || self.fields.is_hidden() {
            return;
        }
        let code = code.and_then(|code| u32::from_str_radix(&code, 16).ok());
        if let Some(character) = code.and_then(char::from_u32) {
            let shown = self.shown(&font.unwrap_or_default(), character);
            let script = self.run.script;
            self.push(shown.encode_utf8(&mut [0; 4]), script);
        }
    }

    /// Reads a reference to a note.
    fn refer(&mut self, element: &BytesStart) {
        if self.run.is_hidden || self.fields.is_hidden() || self.note.is_some() {
            return;
        }
        let has_own_mark = matches!(
            attribute(element, "customMarkFollows").as_deref(),
            Some("1" | "true" | "on")
        );
        let (mark, note) = self.parts.notes.refer(&notes::key(element), has_own_mark);
        self.below.extend(note);
        if let Some(mark) = mark {
            self.push(&mark, Script::Line);
        }
    }

    /// Adds blocks, and what the open drawing is said to show, below the open paragraph.
    fn insert(&mut self, blocks: Vec<Block>) {
        let description = self.description.take().and_then(|text| described(&text));
        let blocks = description.map(Block::Text).into_iter().chain(blocks);
        let blocks: Vec<Block> = blocks.collect();
        self.texts += blocks.len();
        match self.frames.last_mut() {
            Some(Frame::Paragraph(paragraph)) => paragraph.below.extend(blocks),
            Some(Frame::Flow(flow)) => flow.blocks.extend(blocks),
            _ => {}
        }
    }

    fn insert_part(&mut self, id: Option<String>) {
        match id.and_then(|id| self.parts.inserted.remove(&id)) {
            Some(blocks) => self.insert(blocks),
            None => self.insert(vec![]),
        }
    }

    fn end_frame(&mut self) {
        let blocks = match self.frames.pop() {
            Some(Frame::Paragraph(paragraph)) => {
                self.fields.end_paragraph();
                match self.frames.last_mut() {
                    Some(Frame::Flow(flow)) if paragraph.is_continued => {
                        flow.continued = Some(paragraph);
                        return;
                    }
                    _ => paragraph.finish(self.parts),
                }
            }
            Some(Frame::Table(table)) => table.finish(),
            Some(Frame::Flow(flow)) => {
                let shape = flow.shape;
                let blocks = self.finish_flow(flow);
                match self.frames.last_mut() {
                    Some(Frame::Table(table)) => {
                        table.add(blocks, shape);
                        return;
                    }
                    _ => blocks,
                }
            }
            None => return,
        };
        // Notes of cells and of text boxes follow after the whole table or paragraph.
        let notes = match self.frames.len() {
            1 => std::mem::take(&mut self.below),
            _ => vec![],
        };
        match self.frames.last_mut() {
            Some(Frame::Flow(flow)) => flow.blocks.extend(blocks.into_iter().chain(notes)),
            Some(Frame::Paragraph(paragraph)) => paragraph.below.extend(blocks),
            // A table inside of a row without a cell.
            Some(Frame::Table(table)) => table.add(blocks, Shape::default()),
            None => {}
        }
    }

    fn finish_flow(&mut self, flow: Flow) -> Vec<Block> {
        let mut blocks = flow.blocks;
        if let Some(paragraph) = flow.continued {
            blocks.extend(paragraph.finish(self.parts));
        }
        blocks
    }
}

/// Returns what somebody wrote about a picture, without what a program adds.
fn described(text: &str) -> Option<String> {
    const ADDED: [&str; 3] = [
        "Description automatically generated",
        "AI-generated content may be incorrect.",
        "Automatically generated description",
    ];
    let mut text = text.to_owned();
    ADDED
        .iter()
        .for_each(|added| text = text.replace(added, ""));
    let words: Vec<&str> = text.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}
