//! Reads the tokens of a document. Each group has a state of its own, which ends with it.

use std::collections::HashMap;

use encoding_rs::{Encoding, WINDOWS_1252};

use super::{
    Losses,
    flow::{Flow, Paragraph, note},
    font::{Font, code_page_of_set, encoding},
    token::{Token, Tokens},
};
use crate::{
    blocks::Block,
    docx::{Script, symbols},
};

/// Maximum number of groups in each other.
const MAX_DEPTH: usize = 10_000;

/// Maximum number of notes and boxes in each other. Deeper ones are a part of the outer one.
const MAX_FLOWS: usize = 20;

pub struct Read {
    pub blocks: Vec<Block>,
    pub title: String,
    pub losses: Losses,
}

/// What the text of a group is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[default]
    Shown,
    Dropped,
    Fonts,
    Styles,
    /// The properties of the document.
    Info,
    Title,
    /// The number or the sign of an item.
    Label,
}

#[derive(Debug, Clone)]
struct State {
    kind: Kind,
    /// Number of characters that stand for a Unicode character.
    substitutes: usize,
    font: Option<i32>,
    is_hidden: bool,
    is_deleted: bool,
    script: Script,
    /// The group began a note or a text box.
    flow: Option<Inner>,
}

#[derive(Debug, Clone)]
enum Inner {
    Note(String),
    Box,
}

struct Reader {
    states: Vec<State>,
    flows: Vec<Flow>,
    fonts: HashMap<i32, Font>,
    /// Levels of the styles that are headings.
    headings: HashMap<i32, usize>,
    code_page: &'static Encoding,
    /// Bytes that are not yet decoded.
    bytes: Vec<u8>,
    /// The first half of a character beyond the basic plane.
    high: Option<u16>,
    /// Number of characters to leave out, which a Unicode character stands for.
    left_out: usize,
    /// The group begins with `\*`: leave it out if it is not known.
    is_optional: bool,
    /// The style whose entry of the style sheet is being read.
    style: (i32, Option<usize>, String),
    title: String,
    notes: usize,
    losses: Losses,
}

/// # Errors
/// Groups are nested too deeply.
pub fn read(bytes: &[u8]) -> Result<Read, &'static str> {
    let mut reader = Reader {
        states: vec![State {
            kind: Kind::Shown,
            substitutes: 1,
            font: None,
            is_hidden: false,
            is_deleted: false,
            script: Script::Line,
            flow: None,
        }],
        flows: vec![Flow::default()],
        fonts: HashMap::new(),
        headings: HashMap::new(),
        code_page: WINDOWS_1252,
        bytes: vec![],
        high: None,
        left_out: 0,
        is_optional: false,
        style: (0, None, String::new()),
        title: String::new(),
        notes: 0,
        losses: Losses::default(),
    };
    for token in Tokens::new(bytes) {
        match token {
            Token::Open => {
                reader.flush();
                reader.left_out = 0;
                if reader.states.len() > MAX_DEPTH {
                    return Err("its groups are nested too deeply");
                }
                let state = State {
                    flow: None,
                    ..reader.state().clone()
                };
                reader.states.push(state);
                reader.is_optional = false;
            }
            Token::Close => {
                reader.close();
                // What follows the document is none of it.
                if reader.states.len() == 1 {
                    break;
                }
            }
            Token::Bytes(bytes) => reader.text(bytes),
            Token::Sign(sign) => reader.sign(sign),
            Token::Word(word, number) => {
                reader.flush();
                if reader.left_out > 0 && word != "u" {
                    reader.left_out -= 1;
                } else {
                    reader.word(word, number);
                }
            }
        }
    }
    reader.losses.is_cut = reader.states.len() > 1;
    while reader.states.len() > 1 {
        reader.close();
    }
    let flow = reader.flows.pop().unwrap_or_default();
    let level = reader.level(&flow.paragraph);
    Ok(Read {
        blocks: flow.finish(level),
        title: reader.title,
        losses: reader.losses,
    })
}

impl Reader {
    fn state(&mut self) -> &mut State {
        let last = self.states.len() - 1;
        &mut self.states[last]
    }

    fn flow(&mut self) -> &mut Flow {
        let last = self.flows.len() - 1;
        &mut self.flows[last]
    }

    /// Returns the level of the heading that a paragraph is.
    fn level(&self, paragraph: &Paragraph) -> Option<usize> {
        let of_style = paragraph.style.and_then(|style| self.headings.get(&style));
        paragraph.outline.or(of_style.copied())
    }

    fn close(&mut self) {
        self.flush();
        self.left_out = 0;
        self.is_optional = false;
        if self.states.len() == 1 {
            return;
        }
        let Some(state) = self.states.pop() else {
            return;
        };
        if state.kind == Kind::Styles && self.state().kind == Kind::Styles {
            self.end_style();
        }
        let Some(inner) = state.flow else { return };
        let Some(flow) = self.flows.pop() else {
            return;
        };
        let level = self.level(&flow.paragraph);
        let blocks = flow.finish(level);
        match inner {
            Inner::Note(mark) => self.flow().notes.extend(note(&mark, &blocks)),
            Inner::Box => self.flow().boxes.extend(blocks),
        }
    }

    fn end_style(&mut self) {
        let (style, outline, name) = std::mem::take(&mut self.style);
        let name = name.trim().trim_end_matches(';').to_lowercase();
        let by_name = match name.as_str() {
            "title" => Some(1),
            name => name
                .strip_prefix("heading ")
                .and_then(|level| level.parse().ok()),
        };
        if let Some(level) = outline.or(by_name) {
            self.headings.insert(style, level);
        }
    }

    /// The font of the open group, if the table has it.
    fn font(&self) -> Option<&Font> {
        self.fonts.get(&self.states.last()?.font?)
    }

    /// Returns the name of the open group's font, if that is one of symbols.
    fn symbol_font(&self) -> Option<String> {
        let name = &self.font()?.name;
        symbols::is_symbol_font(name).then(|| name.clone())
    }

    /// Decodes the bytes that have been read.
    fn flush(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        let text = match self.symbol_font() {
            Some(name) => {
                let signs = bytes.iter().map(|byte| char::from(*byte));
                signs.map(|sign| self.symbol(&name, sign)).collect()
            }
            None => {
                let page = self.font().and_then(|font| encoding(font.code_page?));
                let page = page.unwrap_or(self.code_page);
                page.decode_without_bom_handling(&bytes).0
            }
        };
        self.push(&text);
    }

    fn symbol(&mut self, font: &str, character: char) -> char {
        symbols::shown(font, character).unwrap_or_else(|| {
            let is_shown = self.state().kind == Kind::Shown;
            self.losses.signs += usize::from(is_shown);
            char::REPLACEMENT_CHARACTER
        })
    }

    fn text(&mut self, bytes: &[u8]) {
        let left_out = self.left_out.min(bytes.len());
        self.left_out -= left_out;
        self.bytes.extend_from_slice(&bytes[left_out..]);
    }

    fn sign(&mut self, sign: u8) {
        self.flush();
        if self.left_out > 0 {
            self.left_out -= 1;
            return;
        }
        match sign {
            b'*' => self.is_optional = true,
            b'~' => self.push("\u{A0}"),
            b'_' => self.push("\u{2011}"),
            b'\t' => self.push("\t"),
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        let state = self.state();
        let kind = state.kind;
        let (script, is_hidden, is_deleted) = (state.script, state.is_hidden, state.is_deleted);
        match kind {
            Kind::Shown if is_deleted => {}
            Kind::Shown if is_hidden => {
                self.losses.hidden += usize::from(!text.trim().is_empty());
            }
            Kind::Shown => self.flow().words.push(text, script),
            Kind::Label => self.flow().label.push_str(text),
            Kind::Title => self.title.push_str(text),
            Kind::Styles => self.style.2.push_str(text),
            Kind::Fonts => {
                if let Some(font) = self.states.last().and_then(|state| state.font) {
                    let font = self.fonts.entry(font).or_default();
                    font.name.push_str(text.trim_end_matches(';'));
                }
            }
            Kind::Dropped | Kind::Info => {}
        }
    }

    /// Reads a Unicode character, in 16 bits.
    fn unicode(&mut self, number: Option<i32>) {
        self.left_out = self.state().substitutes;
        let unit = number.unwrap_or(0) as u16;
        let units = match (self.high.take(), unit) {
            (_, 0xD800..=0xDBFF) => {
                self.high = Some(unit);
                return;
            }
            (Some(high), 0xDC00..=0xDFFF) => vec![high, unit],
            _ => vec![unit],
        };
        // Symbol fonts have their signs in a private area.
        let name = self.symbol_font();
        for decoded in char::decode_utf16(units) {
            let character = decoded.unwrap_or(char::REPLACEMENT_CHARACTER);
            let shown = match &name {
                Some(name) => self.symbol(name, character),
                None => character,
            };
            self.push(shown.encode_utf8(&mut [0; 4]));
        }
    }

    fn word(&mut self, word: &str, number: Option<i32>) {
        let is_optional = std::mem::take(&mut self.is_optional);
        if self.destination(word) {
            return;
        }
        if is_optional {
            self.state().kind = Kind::Dropped;
            return;
        }
        let kind = self.state().kind;
        match kind {
            Kind::Fonts => self.font_word(word, number),
            Kind::Styles => match (word, number) {
                ("s", Some(style)) => self.style.0 = style,
                ("outlinelevel", Some(level)) => self.style.1 = heading_level(level),
                _ => {}
            },
            Kind::Dropped | Kind::Info => {}
            _ if self.character_word(word, number) => {}
            Kind::Shown if !self.state().is_deleted => self.paragraph_word(word, number),
            _ => {}
        }
    }

    /// Begins a group whose text is of another kind. Returns false for other words.
    fn destination(&mut self, word: &str) -> bool {
        let outer = self.state().kind;
        let kind = match word {
            "fonttbl" => Kind::Fonts,
            "stylesheet" => Kind::Styles,
            "info" => Kind::Info,
            "title" if outer == Kind::Info => Kind::Title,
            "listtext" | "pntext" if outer == Kind::Shown => Kind::Label,
            "footnote" | "shptxt" if outer == Kind::Shown && self.flows.len() < MAX_FLOWS => {
                let inner = if word == "footnote" {
                    self.notes += 1;
                    let mark = format!("[^{}]", self.notes);
                    self.push(&mark);
                    Inner::Note(mark)
                } else {
                    Inner::Box
                };
                self.flows.push(Flow::default());
                self.state().flow = Some(inner);
                self.state().script = Script::Line;
                Kind::Shown
            }
            // A text in bytes, and beside it the same in Unicode.
            "upr" => Kind::Dropped,
            "ud" => Kind::Shown,
            "shpinst" | "shppict" | "moMath" | "moMathPara" => outer,
            "colortbl" | "pict" | "objdata" | "header" | "headerl" | "headerr" | "headerf"
            | "footer" | "footerl" | "footerr" | "footerf" | "fldinst" | "annotation" | "sp"
            | "shprslt" | "nonshppict" | "mmathPict" | "ftnsep" | "ftnsepc" | "ftncn"
            | "aftnsep" | "aftnsepc" | "aftncn" | "nonesttables" | "xe" | "tc" | "listtable"
            | "listoverridetable" | "revtbl" | "filetbl" => Kind::Dropped,
            _ => return false,
        };
        self.state().kind = kind;
        true
    }

    fn font_word(&mut self, word: &str, number: Option<i32>) {
        match (word, number) {
            ("f", Some(font)) => self.state().font = Some(font),
            ("fcharset" | "cpg", Some(set)) => {
                let page = match word {
                    "cpg" => Some(set),
                    _ => code_page_of_set(set),
                };
                if let (Some(font), Some(page)) = (self.state().font, page) {
                    self.fonts.entry(font).or_default().code_page = Some(page);
                }
            }
            ("u", number) => self.unicode(number),
            _ => {}
        }
    }

    /// Reads words about characters. Returns false for others.
    fn character_word(&mut self, word: &str, number: Option<i32>) -> bool {
        let is_on = number != Some(0);
        let sign = match word {
            "u" => {
                self.unicode(number);
                return true;
            }
            "tab" => "\t",
            "line" | "page" | "column" => "\n",
            "emdash" => "—",
            "endash" => "–",
            "emspace" | "enspace" | "qmspace" => " ",
            "bullet" => "•",
            "lquote" => "‘",
            "rquote" => "’",
            "ldblquote" => "“",
            "rdblquote" => "”",
            word => {
                let page = number.and_then(encoding);
                let state = self.state();
                match word {
                    "uc" => {
                        state.substitutes = number.map_or(1, |n| usize::try_from(n).unwrap_or(0));
                    }
                    "f" => state.font = number,
                    "v" => state.is_hidden = is_on,
                    "deleted" => state.is_deleted = is_on,
                    "super" if is_on => state.script = Script::Super,
                    "sub" if is_on => state.script = Script::Sub,
                    "super" | "sub" | "nosupersub" => state.script = Script::Line,
                    "plain" => {
                        state.is_hidden = false;
                        state.is_deleted = false;
                        state.script = Script::Line;
                        state.font = None;
                    }
                    "mac" => self.code_page = encoding_rs::MACINTOSH,
                    "ansicpg" => self.code_page = page.unwrap_or(self.code_page),
                    "deff" => self.states[0].font = number,
                    _ => return false,
                }
                return true;
            }
        };
        self.push(sign);
        true
    }

    fn paragraph_word(&mut self, word: &str, number: Option<i32>) {
        match word {
            "par" | "sect" | "nestcell" => self.end_paragraph(),
            "cell" => {
                self.flow().paragraph.in_table = true;
                self.end_paragraph();
                self.flow().end_cell();
            }
            "row" => self.flow().end_row(),
            "trowd" => self.flow().define_row(),
            "clvmrg" => self.flow().define_below(),
            "clmrg" => self.flow().define_beside(),
            "cellx" => self.flow().end_definition(),
            "pard" => self.flow().paragraph = Paragraph::default(),
            "s" => self.flow().paragraph.style = number,
            "outlinelevel" => {
                self.flow().paragraph.outline = number.and_then(heading_level);
            }
            "intbl" => self.flow().paragraph.in_table = true,
            "ls" => self.flow().paragraph.is_item = number.unwrap_or(0) > 0,
            "ilvl" => {
                let depth = number.and_then(|n| usize::try_from(n).ok());
                self.flow().paragraph.depth = depth.unwrap_or(0);
            }
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let paragraph = self.flow().paragraph.clone();
        let level = self.level(&paragraph);
        self.flow().end_paragraph(level);
    }
}

/// Returns the level of a heading, from 1, for an outline level, from 0. 9 is body text.
fn heading_level(outline: i32) -> Option<usize> {
    let level = usize::try_from(outline).ok()?;
    (level < 9).then_some(level + 1)
}
