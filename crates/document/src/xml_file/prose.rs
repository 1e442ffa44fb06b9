//! Elements with words as paragraphs.

use quick_xml::{errors::Error, events::Event};
use rag_protocol::ingest::Title;

use super::{Survey, reader};
use crate::{
    blocks::{self, Block, one_line},
    docx::{Script, Shape, Table, Words},
    html, title,
    xml::{self, attribute},
};

/// Elements whose content is kept line by line, if they do not stand among words.
const CODE: [&str; 7] = [
    "programlisting",
    "screen",
    "codeblock",
    "literallayout",
    "pre",
    "code",
    "listing",
];

/// An element that is open.
struct Open {
    name: String,
    is_inline: bool,
    has_title: bool,
    /// Where the blocks of a cell begin.
    cell: Option<usize>,
}

#[derive(Default)]
struct Writer {
    blocks: Vec<Block>,
    words: Words,
    script: Script,
    open: Vec<Open>,
    tables: Vec<Table>,
    /// The open lists: the number of the last item, if they have numbers.
    lists: Vec<Option<u32>>,
    /// The next paragraph is the first one of an item.
    is_item: bool,
    /// What precedes the open notes in their paragraphs, and where their blocks begin.
    notes: Vec<(Words, usize)>,
    count: u32,
    /// Notes that follow the open paragraph.
    below: Vec<Block>,
    title: Option<Title>,
}

/// Returns the text and the first title in it.
pub fn read(file: &str, survey: &Survey) -> Result<(String, Option<Title>), Error> {
    let mut writer = Writer::default();
    let mut reader = reader(file);
    loop {
        match &reader.read_event()? {
            Event::Start(element) => {
                let name = element.local_name().into_inner();
                if matches!(name, "script" | "style") {
                    reader.read_to_end(element.name())?;
                    continue;
                }
                if name == "math" {
                    let from = reader.buffer_position() as usize;
                    reader.read_to_end(element.name())?;
                    let to = reader.buffer_position() as usize;
                    let inner = file.get(from..to).unwrap_or_default();
                    let line = html::formula_of(&format!("<math>{inner}"));
                    writer.words.push(&line.unwrap_or_default(), Script::Line);
                    continue;
                }
                let is_inline = survey.inline.contains(name) && !is_block(name);
                writer.begin(name, is_inline);
                if attribute(element, "list-type").is_some_and(|of| of == "order") {
                    writer
                        .lists
                        .last_mut()
                        .into_iter()
                        .for_each(|list| *list = Some(0));
                }
                // What a picture shows.
                if let Some(words) = attribute(element, "alt") {
                    writer.words.push(&words, Script::Line);
                }
            }
            Event::End(_) => writer.end(),
            Event::Eof => {
                writer.end_paragraph();
                return Ok((blocks::markdown(&writer.blocks), writer.title));
            }
            event => {
                if let Some(piece) = xml::text(event) {
                    writer.words.push(&piece, writer.script);
                }
            }
        }
    }
}

/// Lists and tables may stand among words, too.
fn is_block(name: &str) -> bool {
    is_list(name)
        || is_table(name)
        || matches!(name, "programlisting" | "screen" | "para" | "p" | "dl")
}

fn is_list(name: &str) -> bool {
    name.ends_with("list") && name != "simplelist" || matches!(name, "ul" | "ol")
}

fn is_item(name: &str) -> bool {
    matches!(name, "listitem" | "item" | "li" | "list-item")
}

fn is_note(name: &str) -> bool {
    matches!(name, "footnote" | "fn")
}

fn is_table(name: &str) -> bool {
    matches!(name, "table" | "informaltable")
}

impl Writer {
    fn begin(&mut self, name: &str, is_inline: bool) {
        if is_note(name) {
            self.notes
                .push((std::mem::take(&mut self.words), self.blocks.len()));
        } else if !is_inline {
            self.end_paragraph();
        }
        let mut cell = None;
        match name {
            "sup" | "superscript" => self.script = Script::Super,
            "sub" | "subscript" => self.script = Script::Sub,
            name if is_list(name) => {
                let is_counted = matches!(name, "orderedlist" | "ol");
                self.lists.push(is_counted.then_some(0));
            }
            name if is_item(name) => {
                self.is_item = true;
                if let Some(Some(count)) = self.lists.last_mut() {
                    *count += 1;
                }
            }
            name if is_table(name) => self.tables.push(Table::default()),
            "row" | "tr" => self
                .tables
                .last_mut()
                .into_iter()
                .for_each(Table::begin_row),
            "entry" | "td" | "th" if !self.tables.is_empty() => cell = Some(self.blocks.len()),
            _ => {}
        }
        self.open.push(Open {
            name: name.to_owned(),
            is_inline,
            has_title: false,
            cell,
        });
    }

    fn end(&mut self) {
        let last = self.open.last();
        let is_inline = last.is_some_and(|open| open.is_inline);
        if last.is_some_and(|open| is_note(&open.name)) {
            self.end_note();
        } else if !is_inline {
            self.end_paragraph();
        }
        self.script = Script::Line;
        let Some(closed) = self.open.pop() else {
            return;
        };
        if let (Some(from), Some(table)) = (closed.cell, self.tables.last_mut()) {
            let blocks = self.blocks.split_off(from.min(self.blocks.len()));
            let shape = Shape {
                columns: 1,
                ..Shape::default()
            };
            table.add(vec![Block::Text(one_line(&blocks))], shape);
        } else if is_table(&closed.name)
            && let Some(table) = self.tables.pop()
        {
            self.blocks.extend(table.finish());
        }
        if is_item(&closed.name) {
            self.is_item = false;
        }
        if is_list(&closed.name) {
            self.lists.pop();
        }
    }

    fn end_note(&mut self) {
        let below = std::mem::take(&mut self.below);
        self.end_paragraph();
        let Some((before, from)) = self.notes.pop() else {
            return;
        };
        self.below = below;
        let text = one_line(&self.blocks.split_off(from.min(self.blocks.len())));
        self.words = before;
        if !text.is_empty() {
            self.count += 1;
            let mark = format!("[^{}]", self.count);
            self.below.push(Block::Text(format!("{mark}: {text}")));
            self.words.push(&mark, Script::Line);
        }
    }

    fn end_paragraph(&mut self) {
        let words = std::mem::take(&mut self.words).finish();
        if words.trim().is_empty() {
            return;
        }
        let name = self.open.iter().rev().find(|open| !open.is_inline);
        let name = name.map_or("", |open| open.name.as_str());
        let text = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let block = if CODE.contains(&name) {
            let language = String::new();
            Block::Code {
                language,
                text: words,
            }
        } else if matches!(name, "title" | "head" | "article-title") {
            Block::Heading {
                level: self.level(&text),
                text,
            }
        } else if std::mem::take(&mut self.is_item) {
            let number = self.lists.last().copied().flatten();
            Block::Item {
                depth: self.lists.len().saturating_sub(1),
                label: number.map_or_else(String::new, |number| format!("{number}.")),
                text,
            }
        } else {
            Block::Text(text)
        };
        self.blocks.push(block);
        self.blocks.append(&mut self.below);
    }

    /// Returns the level of the title that ends, and notes it for the titles below.
    fn level(&mut self, text: &str) -> usize {
        let is_above = |open: &Open| {
            let name = open.name.as_str();
            let is_about = name.ends_with("info")
                || matches!(
                    name,
                    "title-group" | "article-meta" | "front" | "titlepage" | "title"
                );
            !is_about && !matches!(name, "head" | "article-title") && !open.is_inline
        };
        let levels = self.open.iter().filter(|open| open.has_title).count();
        if self.title.is_none() {
            self.title = title::own(text);
        }
        let owner = self.open.iter_mut().rev().find(|open| is_above(open));
        let is_second = owner.is_some_and(|owner| std::mem::replace(&mut owner.has_title, true));
        (levels + 1 - usize::from(is_second)).clamp(1, 6)
    }
}
