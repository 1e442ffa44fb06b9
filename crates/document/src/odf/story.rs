//! The body of a text or of slides: paragraphs, lists and tables, which may be in each other.

use std::collections::HashMap;

use quick_xml::{
    Reader,
    errors::{Error, IllFormedError},
    events::{BytesStart, Event},
};

use super::{
    Losses, Object,
    changes::Changes,
    controls::Controls,
    elements,
    frames::{Flow, Frame, Paragraph, Run, Shown, Table},
    lists::{Counters, Lists},
    styles::Styles,
};
use crate::{
    blocks::{Block, one_line},
    docx::{Script, roman, symbols},
    html,
    xml::{self, attribute},
};

/// Maximum number of paragraphs, cells and text boxes in each other.
const MAX_DEPTH: usize = 200;
/// Maximum number of spaces that one element stands for.
const MAX_SPACES: usize = 100;

pub struct Story<'a> {
    styles: &'a Styles,
    objects: &'a HashMap<String, Object>,
    losses: &'a mut Losses,
    frames: Vec<Frame>,
    lists: Lists,
    outline: Counters,
    controls: Controls,
    changes: Changes,
    footnotes: u32,
    endnotes: u32,
    /// Notes that are written below the block that is being read.
    below: Vec<Block>,
    /// The titles of the open slide, which precede its other texts.
    titles: Option<Vec<Block>>,
    /// What the open shapes of a slide are for.
    roles: Vec<String>,
    /// What the open shapes are said to show: title and description.
    described: Vec<[String; 2]>,
    is_description: Option<usize>,
}

impl<'a> Story<'a> {
    pub fn new(
        styles: &'a Styles,
        objects: &'a HashMap<String, Object>,
        losses: &'a mut Losses,
    ) -> Self {
        Self {
            styles,
            objects,
            losses,
            frames: vec![Frame::Flow(Flow::default())],
            lists: Lists::default(),
            outline: Counters::default(),
            controls: Controls::default(),
            changes: Changes::default(),
            footnotes: 0,
            endnotes: 0,
            below: vec![],
            titles: None,
            roles: vec![],
            described: vec![],
            is_description: None,
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
                    open += usize::from(!self.start(element, &mut reader, xml)?);
                }
                Event::End(element) => {
                    open = open.saturating_sub(1);
                    self.end(element.local_name().into_inner());
                }
                Event::Eof if open > 0 => {
                    let missing = IllFormedError::MissingEndTag("office:document-content".into());
                    return Err(missing.into());
                }
                Event::Eof => break,
                event => {
                    if let Some(piece) = xml::text(event) {
                        self.text(&piece);
                    }
                }
            }
        }
        while self.frames.len() > 1 {
            self.end_frame();
        }
        match self.frames.pop() {
            Some(Frame::Flow(flow)) => Ok(flow.blocks),
            _ => Ok(vec![]),
        }
    }

    /// Begins an element. Returns true if it was read up to its end.
    fn start(
        &mut self,
        element: &BytesStart,
        reader: &mut Reader<&[u8]>,
        xml: &str,
    ) -> Result<bool, Error> {
        let value = |name| attribute(element, name);
        let name = element.local_name().into_inner();
        if elements::is_unseen(element) || self.is_hidden(name, element) {
            reader.read_to_end(element.name())?;
            return Ok(true);
        }
        match name {
            "forms" => {
                self.controls.read(reader)?;
                return Ok(true);
            }
            "tracked-changes" => {
                self.changes.read(reader)?;
                return Ok(true);
            }
            "math" => {
                let from = reader.buffer_position() as usize;
                reader.read_to_end(element.name())?;
                let to = reader.buffer_position() as usize;
                let inner = xml.get(from..to).unwrap_or_default();
                if let Some(line) = html::formula_of(&format!("<math>{inner}")) {
                    self.push_around(&line);
                }
                return Ok(true);
            }
            "p" | "h" => self.begin_paragraph(name, element)?,
            "span" => {
                let style = value("style-name").unwrap_or_default();
                let run = self.run(&style, "text", None);
                if let Some(paragraph) = self.paragraph() {
                    paragraph.runs.push(run);
                }
            }
            "table" => self.open(Frame::Table(Table::default()))?,
            "table-row" => {
                if let Some(Frame::Table(table)) = self.frames.last_mut() {
                    table.begin_row(element);
                }
            }
            "table-cell" | "covered-table-cell" => {
                let shown = match self.frames.last_mut() {
                    Some(Frame::Table(table)) => table.shape(element),
                    _ => Shown::default(),
                };
                self.open(Frame::Flow(Flow::cell(shown)))?;
            }
            "text-box" => self.open(Frame::Flow(Flow::default()))?,
            "note" => {
                let is_endnote = value("note-class").as_deref() == Some("endnote");
                let flow = Flow {
                    is_endnote,
                    ..Flow::default()
                };
                self.open(Frame::Flow(flow))?;
            }
            "list" | "numbered-paragraph" => {
                self.lists.begin(element);
                if name != "list" {
                    self.lists.begin_item(element);
                }
            }
            "list-item" => self.lists.begin_item(element),
            "list-header" => self.lists.begin_header(),
            "page" => {
                self.titles = Some(vec![]);
                if let Some(Frame::Flow(flow)) = self.frames.last_mut() {
                    flow.slide = flow.blocks.len();
                }
            }
            "change-start" => self.changes.begin(value("change-id").unwrap_or_default()),
            "change-end" => self.changes.end(&value("change-id").unwrap_or_default()),
            _ if elements::is_shape(name) => {
                self.roles.push(value("class").unwrap_or_default());
                self.described.push(Default::default());
                // The shapes of a drawing have paragraphs of their own.
                self.open(Frame::Flow(Flow::default()))?;
            }
            name => self.place(name, element),
        }
        Ok(false)
    }

    /// Reads elements that have what they say in attributes.
    fn place(&mut self, name: &str, element: &BytesStart) {
        let value = |name| attribute(element, name);
        match name {
            "s" => {
                let count = value("c").and_then(|n| n.parse().ok()).unwrap_or(1);
                self.push(&" ".repeat(count.min(MAX_SPACES)), None);
            }
            "tab" => self.push("\t", None),
            "line-break" => self.push("\n", None),
            "hidden-text" if value("is-hidden").as_deref() == Some("false") => {
                self.push(&value("string-value").unwrap_or_default(), None);
            }
            "hidden-text" => self.losses.hidden += 1,
            "hidden-paragraph" if value("is-hidden").as_deref() == Some("true") => {
                self.losses.hidden += 1;
                self.paragraph().iter_mut().for_each(|p| p.is_hidden = true);
            }
            "ruby-text" => self.push("(", None),
            "control" => {
                let shown = value("control").and_then(|id| self.controls.shown(&id));
                self.insert(shown.map(Block::Text));
            }
            "object" => {
                let place = value("href").unwrap_or_default().to_lowercase();
                match self
                    .objects
                    .get(place.trim_start_matches("./").trim_end_matches('/'))
                {
                    Some(Object::Formula(line)) => self.push_around(line),
                    Some(Object::Chart(blocks)) => self.insert(blocks.iter().cloned()),
                    // An object without a name is in this file.
                    None if place.is_empty() => {}
                    None => self.losses.objects += 1,
                }
            }
            "object-ole" => self.losses.objects += 1,
            "title" | "desc" if elements::is_svg(element) && !self.described.is_empty() => {
                self.is_description = Some(usize::from(name == "desc"));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "p" | "h" | "table" | "table-cell" | "covered-table-cell" | "text-box" => {
                self.end_frame();
            }
            "span" => {
                if let Some(paragraph) = self.paragraph()
                    && paragraph.runs.len() > 1
                {
                    paragraph.runs.pop();
                }
            }
            "note" => self.end_note(),
            "list" | "numbered-paragraph" => self.lists.end(),
            "ruby-text" => self.push(")", None),
            "title" | "desc" => self.is_description = None,
            "page" => {
                let titles = self.titles.take().unwrap_or_default();
                if let Some(Frame::Flow(flow)) = self.frames.last_mut() {
                    let at = flow.slide.min(flow.blocks.len());
                    flow.blocks.splice(at..at, titles);
                }
            }
            name if elements::is_shape(name) && !self.roles.is_empty() => {
                if let Some([title, description]) = self.described.pop() {
                    let is_said = !description.is_empty();
                    let words = if is_said { description } else { title };
                    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
                    self.insert(Some(Block::Text(words)).filter(|block| !block.is_blank()));
                }
                self.end_frame();
                self.roles.pop();
            }
            _ => {}
        }
    }

    /// Returns true for an element that is not shown, and counts it.
    fn is_hidden(&mut self, name: &str, element: &BytesStart) -> bool {
        let value = |name| attribute(element, name).unwrap_or_default();
        match name {
            "section" => {
                let is_hidden = value("display") == "none";
                self.losses.hidden += usize::from(is_hidden);
                is_hidden
            }
            "page" => {
                let style = value("style-name");
                let is_hidden = self.styles.is_hidden("drawing-page", &style) == Some(true);
                self.losses.slides += usize::from(is_hidden);
                is_hidden
            }
            // What the program fills in on each slide, and what it writes into an empty shape.
            "frame" | "custom-shape" => {
                matches!(
                    value("class").as_str(),
                    "header" | "footer" | "date-time" | "page-number"
                ) || value("placeholder") == "true"
            }
            _ => false,
        }
    }

    fn begin_paragraph(&mut self, name: &str, element: &BytesStart) -> Result<(), Error> {
        let style = attribute(element, "style-name").unwrap_or_default();
        let number = |name| attribute(element, name).and_then(|n| n.parse::<usize>().ok());
        let level = match name {
            "h" => Some(number("outline-level").unwrap_or(1).clamp(1, 10)),
            _ if self.roles.last().is_some_and(|role| role == "title") => Some(1),
            _ => self.styles.is_title(&style).then_some(1),
        };
        let mut item = self
            .lists
            .next(&self.styles.lists, self.styles.list(&style));
        if let ("h", None, Some(level)) = (name, &item, level)
            && attribute(element, "is-list-header").as_deref() != Some("true")
        {
            let start = number("start-value").and_then(|n| u32::try_from(n).ok());
            let label = self
                .styles
                .outline
                .next(&mut self.outline, level - 1, start);
            item = Some((0, label));
        }
        let run = self.run(&style, "paragraph", Some(Run::default()));
        self.open(Frame::Paragraph(Box::new(Paragraph {
            level,
            item,
            runs: vec![run],
            ..Paragraph::default()
        })))
    }

    /// Returns how the characters of a style are shown, beside what is open.
    fn run(&mut self, style: &str, family: &str, outer: Option<Run>) -> Run {
        let outer = outer.or_else(|| self.paragraph()?.runs.last().cloned());
        let mut run = outer.unwrap_or_default();
        if let Some(is_hidden) = self.styles.is_hidden(family, style) {
            run.is_hidden = is_hidden;
        }
        if let Some(script) = self.styles.script(family, style) {
            run.script = script;
        }
        if let Some(font) = self.styles.font(family, style) {
            run.font = Some(font.to_owned()).filter(|font| !font.is_empty());
        }
        run
    }

    fn open(&mut self, frame: Frame) -> Result<(), Error> {
        if self.frames.len() >= MAX_DEPTH {
            let name = "elements that are nested too deeply".to_owned();
            return Err(IllFormedError::MissingEndTag(name).into());
        }
        self.frames.push(frame);
        Ok(())
    }

    fn paragraph(&mut self) -> Option<&mut Paragraph> {
        match self.frames.last_mut() {
            Some(Frame::Paragraph(paragraph)) => Some(paragraph),
            _ => None,
        }
    }

    /// Adds characters. White space in a row is one space.
    fn text(&mut self, piece: &str) {
        if let (Some(which), Some(described)) = (self.is_description, self.described.last_mut()) {
            described[which].push_str(piece);
            return;
        }
        let Some(paragraph) = self.paragraph() else {
            return;
        };
        let mut words = String::with_capacity(piece.len());
        for c in piece.chars() {
            let is_space = matches!(c, ' ' | '\t' | '\n' | '\r');
            if !(is_space && paragraph.ends_in_space) {
                words.push(if is_space { ' ' } else { c });
            }
            paragraph.ends_in_space = is_space;
        }
        let font = paragraph.runs.last().and_then(|run| run.font.clone());
        if let Some(font) = font {
            let shown = |c| symbols::shown(&font, c);
            let known = words.chars().filter_map(shown).count();
            self.losses.signs += words.chars().count() - known;
            let signs = words.chars();
            words = signs
                .map(|c| shown(c).unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect();
        }
        self.push(&words, None);
    }

    fn push(&mut self, piece: &str, script: Option<Script>) {
        let is_deleted = self.changes.is_deleted();
        let Some(paragraph) = self.paragraph().filter(|_| !is_deleted) else {
            return;
        };
        let run = paragraph.runs.last().cloned().unwrap_or_default();
        if run.is_hidden {
            let is_counted = std::mem::replace(&mut paragraph.has_hidden, true);
            self.losses.hidden += usize::from(!is_counted && !piece.trim().is_empty());
        } else {
            paragraph.words.push(piece, script.unwrap_or(run.script));
        }
    }

    /// Adds a formula to the paragraph that its frame is in, else below.
    fn push_around(&mut self, line: &str) {
        let outer = self.frames.len().checked_sub(2);
        match outer.and_then(|at| self.frames.get_mut(at)) {
            Some(Frame::Paragraph(paragraph)) => {
                paragraph.words.push(line, Script::Line);
                paragraph.ends_in_space = false;
            }
            _ => self.insert(Some(Block::Text(line.to_owned()))),
        }
    }

    /// Adds blocks below the open paragraph.
    fn insert(&mut self, blocks: impl IntoIterator<Item = Block>) {
        match self.frames.last_mut() {
            Some(Frame::Paragraph(paragraph)) => paragraph.below.extend(blocks),
            Some(Frame::Flow(flow)) => flow.blocks.extend(blocks),
            // Something inside of a row without a cell.
            Some(Frame::Table(table)) => {
                table.add(blocks.into_iter().collect(), Shown::default());
            }
            None => {}
        }
    }

    fn end_note(&mut self) {
        let is_flow = |frame: &mut Frame| matches!(frame, Frame::Flow(_));
        let Some(Frame::Flow(flow)) = self.frames.pop_if(is_flow) else {
            return;
        };
        let (count, is_endnote) = match flow.is_endnote {
            true => (&mut self.endnotes, true),
            false => (&mut self.footnotes, false),
        };
        let text = one_line(&flow.blocks);
        if text.is_empty() {
            return;
        }
        *count += 1;
        let number = *count;
        let number = if is_endnote {
            roman(number)
        } else {
            number.to_string()
        };
        let mark = format!("[^{number}]");
        self.below.push(Block::Text(format!("{mark}: {text}")));
        self.push(&mark, Some(Script::Line));
    }

    fn end_frame(&mut self) {
        if self.frames.len() < 2 {
            return;
        }
        let blocks = match self.frames.pop() {
            Some(Frame::Paragraph(paragraph)) => {
                let is_title = paragraph.level.is_some()
                    && self.roles.last().is_some_and(|role| role == "title");
                let blocks = paragraph.finish();
                match &mut self.titles {
                    Some(titles) if is_title => {
                        titles.extend(blocks);
                        return;
                    }
                    _ => blocks,
                }
            }
            Some(Frame::Table(table)) => table.finish(),
            Some(Frame::Flow(flow)) => match (flow.shown, self.frames.last_mut()) {
                (Some(shown), Some(Frame::Table(table))) => {
                    table.add(flow.blocks, shown);
                    return;
                }
                _ => flow.blocks,
            },
            None => return,
        };
        // Notes of cells and of text boxes follow after the whole table or paragraph.
        let notes = match self.frames.len() {
            1 => std::mem::take(&mut self.below),
            _ => vec![],
        };
        self.insert(blocks.into_iter().chain(notes));
    }
}
