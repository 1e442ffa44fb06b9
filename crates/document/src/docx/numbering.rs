//! Numbers of lists and headings (`word/numbering.xml`). A document has no numbers in its text:
//! Word counts the paragraphs of each list.
//!
//! ```text
//! paragraph ──numId, ilvl──▶ num ──abstractNumId──▶ abstractNum: start, format and text of 9 levels
//!                             └ overrides of levels, starts
//! ```
//!
//! Lists with the same abstract list count on, unless one of them starts again.

use std::collections::{HashMap, HashSet};

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

use super::{number::written, styles::Styles, symbols};
use crate::xml::{attribute, is_on};

/// Number of levels of a list.
const LEVELS: usize = 9;
/// Maximum length of a number with the words around it, in characters.
const MAX_LABEL: usize = 100;

/// What stands before the words of a paragraph.
#[derive(Debug, PartialEq, Eq)]
pub enum Marker {
    /// A bullet. Boxes and ticks are kept.
    Bullet(Option<char>),
    Number(String),
    Nothing,
}

#[derive(Debug, Default, Clone)]
struct Level {
    start: Option<u32>,
    format: Option<String>,
    text: String,
    /// The level, from 1, after which this one starts again; 0 for never.
    restart: Option<usize>,
    /// Numbers of outer levels are decimal.
    is_legal: bool,
    /// The style of paragraphs that have this level.
    style: Option<String>,
    font: Option<String>,
}

#[derive(Debug, Default)]
struct AbstractList {
    levels: HashMap<usize, Level>,
    /// The style whose list has the levels.
    style: Option<String>,
}

#[derive(Debug, Default)]
struct List {
    of: String,
    starts: HashMap<usize, u32>,
    levels: HashMap<usize, Level>,
}

#[derive(Debug, Default)]
pub struct Numbering {
    abstracts: HashMap<String, AbstractList>,
    lists: HashMap<String, List>,
    /// Numbers that the levels of an abstract list have reached.
    reached: HashMap<String, [Option<u32>; LEVELS]>,
    /// Lists and levels that have begun.
    begun: HashSet<(String, usize)>,
}

impl Numbering {
    pub fn read(xml: &str) -> Result<Self, quick_xml::Error> {
        let mut read = Self::default();
        let mut reading = Reading::default();
        let mut reader = Reader::from_str(xml);
        loop {
            match reader.read_event()? {
                Event::Eof => return Ok(read),
                Event::Start(element) | Event::Empty(element) => reading.begin(&element),
                Event::End(element) => match element.local_name().into_inner() {
                    "abstractNum" => {
                        let (id, list) = std::mem::take(&mut reading.of);
                        read.abstracts.insert(id, list);
                    }
                    "num" => {
                        let (id, list) = std::mem::take(&mut reading.list);
                        read.lists.insert(id, list);
                    }
                    "lvl" => reading.end_level(),
                    "lvlOverride" => reading.is_override = false,
                    _ => {}
                },
                _ => {}
            }
        }
    }

    /// Returns the abstract list of a list, by way of its style if it names one.
    fn abstract_of(&self, list: &str, styles: &Styles) -> Option<(&String, &AbstractList)> {
        let mut list = self.lists.get(list)?;
        for _ in 0..4 {
            let (id, found) = self.abstracts.get_key_value(&list.of)?;
            let style = match &found.style {
                Some(style) if found.levels.is_empty() => style,
                _ => return Some((id, found)),
            };
            list = self.lists.get(&styles.list(style)?.1)?;
        }
        None
    }

    /// Returns the level that a list has for paragraphs of a style.
    pub fn level_of_style(&self, list: &str, style: &str, styles: &Styles) -> Option<usize> {
        let (_, found) = self.abstract_of(list, styles)?;
        let has_style = |(_, level): &(&usize, &Level)| level.style.as_deref() == Some(style);
        found.levels.iter().find(has_style).map(|(at, _)| *at)
    }

    /// Counts a paragraph, and returns what stands before it. A list that does not exist has
    /// bullets.
    pub fn next(&mut self, list: &str, level: usize, styles: &Styles) -> Marker {
        let level = level.min(LEVELS - 1);
        let Some((of, found)) = self.abstract_of(list, styles) else {
            return Marker::Bullet(None);
        };
        let of = of.clone();
        let own = self.lists.get(list);
        let levels: Vec<Level> = (0..LEVELS)
            .map(|at| {
                let replaced = own.and_then(|own| own.levels.get(&at));
                replaced.or(found.levels.get(&at)).cloned()
            })
            .map(Option::unwrap_or_default)
            .collect();
        let new_start = own.and_then(|own| own.starts.get(&level)).copied();
        let is_first = self.begun.insert((list.to_owned(), level));
        let start = |at: usize| {
            let override_of = own.and_then(|own| own.starts.get(&at)).copied();
            override_of.or(levels[at].start).unwrap_or(1)
        };
        let reached = self.reached.entry(of).or_default();
        reached[level] = Some(match (reached[level], new_start) {
            (_, Some(start)) if is_first => start,
            (None, _) => start(level),
            (Some(number), _) => number.saturating_add(1),
        });
        for (at, deeper) in levels.iter().enumerate().skip(level + 1) {
            if deeper.restart.is_none_or(|after| level < after) {
                reached[at] = None;
            }
        }
        // An outer level that has no paragraph yet counts as begun.
        for (at, number) in reached.iter_mut().enumerate().take(level) {
            number.get_or_insert_with(|| start(at));
        }
        marker(&levels, level, reached)
    }
}

/// Returns what stands before a paragraph of a level, by the numbers that the levels reached.
fn marker(levels: &[Level], level: usize, reached: &[Option<u32>; LEVELS]) -> Marker {
    let own = &levels[level];
    let format = own.format.as_deref().unwrap_or("decimal");
    if format == "bullet" {
        let sign = own.text.chars().next();
        let shown = sign.and_then(|sign| match &own.font {
            Some(font) if symbols::is_symbol_font(font) => symbols::shown(font, sign),
            _ => Some(sign),
        });
        return Marker::Bullet(shown.filter(|sign| symbols::is_box_or_tick(*sign)));
    }
    let mut label = String::new();
    let mut signs = own.text.chars().peekable();
    while let Some(sign) = signs.next() {
        let of = signs.peek().and_then(|digit| digit.to_digit(10));
        match of {
            Some(of @ 1..=9) if sign == '%' => {
                signs.next();
                let at = of as usize - 1;
                let format = levels[at].format.as_deref().unwrap_or("decimal");
                let format = if own.is_legal && format != "none" {
                    "decimal"
                } else {
                    format
                };
                if let Some(number) = reached[at].filter(|_| at <= level) {
                    label.push_str(&written(number, format));
                }
            }
            _ => label.push(sign),
        }
        if label.len() > MAX_LABEL * 4 {
            break;
        }
    }
    let label: String = label.split_whitespace().collect::<Vec<_>>().join(" ");
    if label.is_empty() {
        Marker::Nothing
    } else {
        Marker::Number(label.chars().take(MAX_LABEL).collect())
    }
}

/// What has been read of an element that is still open.
#[derive(Debug, Default)]
struct Reading {
    of: (String, AbstractList),
    list: (String, List),
    at: usize,
    level: Option<Level>,
    /// The open level or start replaces one of the abstract list.
    is_override: bool,
}

impl Reading {
    fn begin(&mut self, element: &BytesStart) {
        let value = || attribute(element, "val").unwrap_or_default();
        let number = |name| attribute(element, name).and_then(|value| value.parse().ok());
        match element.local_name().into_inner() {
            "abstractNum" => {
                self.of.0 = attribute(element, "abstractNumId").unwrap_or_default();
            }
            "num" => self.list.0 = attribute(element, "numId").unwrap_or_default(),
            "abstractNumId" => self.list.1.of = value(),
            "numStyleLink" => self.of.1.style = Some(value()),
            "lvlOverride" => {
                self.is_override = true;
                self.at = number("ilvl").map_or(LEVELS, |at: u32| at as usize);
            }
            "startOverride" if self.at < LEVELS => {
                if let Some(start) = number("val") {
                    self.list.1.starts.insert(self.at, start);
                }
            }
            "lvl" => {
                self.at = number("ilvl").map_or(LEVELS, |at: u32| at as usize);
                self.level = Some(Level::default());
            }
            name => {
                let Some(level) = &mut self.level else { return };
                match name {
                    "start" => level.start = number("val"),
                    "numFmt" => level.format = Some(value()),
                    "lvlText" => level.text = value(),
                    "lvlRestart" => level.restart = number("val").map(|at| at as usize),
                    "isLgl" => level.is_legal = is_on(element),
                    "pStyle" => level.style = Some(value()),
                    "rFonts" => level.font = attribute(element, "ascii"),
                    _ => {}
                }
            }
        }
    }

    fn end_level(&mut self) {
        let Some(level) = self.level.take() else {
            return;
        };
        if self.at >= LEVELS {
            return;
        }
        let levels = if self.is_override {
            &mut self.list.1.levels
        } else {
            &mut self.of.1.levels
        };
        levels.insert(self.at, level);
    }
}
