//! Numbers of lists and headings, which LibreOffice counts.

use std::collections::HashMap;

use quick_xml::events::BytesStart;

use crate::{docx::written, xml::attribute};

/// Maximum number of levels: that of LibreOffice.
const MAX_LEVELS: usize = 10;

/// How the levels of a list are numbered. Levels without a format have bullets.
#[derive(Debug, Default, Clone)]
pub struct ListStyle {
    levels: Vec<Level>,
}

#[derive(Debug, Default, Clone)]
struct Level {
    /// A format of Word, or `None` for a bullet or nothing.
    format: Option<&'static str>,
    prefix: String,
    suffix: String,
    /// Number of levels whose numbers are shown.
    shown: usize,
    start: u32,
}

/// The numbers of a list that is being read.
#[derive(Debug, Default, Clone)]
pub struct Counters {
    numbers: Vec<u32>,
}

impl ListStyle {
    /// Reads the element of a level.
    pub fn add(&mut self, element: &BytesStart) {
        let value = |name| attribute(element, name).unwrap_or_default();
        let level: usize = value("level").parse().unwrap_or(1);
        if !(1..=MAX_LEVELS).contains(&level) {
            return;
        }
        if self.levels.len() < level {
            self.levels.resize_with(level, Level::default);
        }
        self.levels[level - 1] = Level {
            format: match value("num-format").as_str() {
                "1" => Some("decimal"),
                "a" => Some("lowerLetter"),
                "A" => Some("upperLetter"),
                "i" => Some("lowerRoman"),
                "I" => Some("upperRoman"),
                "" => None,
                // Numbers of other scripts.
                _ => Some("decimal"),
            },
            prefix: value("num-prefix"),
            suffix: value("num-suffix"),
            shown: value("display-levels").parse().unwrap_or(1),
            start: value("start-value").parse().unwrap_or(1),
        };
    }

    /// Counts an item at a level from 0. Returns its label, which is empty for a bullet.
    pub fn next(&self, counters: &mut Counters, level: usize, start: Option<u32>) -> String {
        let level = level.min(MAX_LEVELS - 1);
        let begin = |level: usize| self.levels.get(level).map_or(1, |level| level.start);
        let numbers = &mut counters.numbers;
        numbers.truncate(level + 1);
        while numbers.len() <= level {
            // Levels that were left out count as their first number.
            let number = begin(numbers.len());
            let is_open = numbers.len() == level;
            numbers.push(if is_open {
                number.wrapping_sub(1)
            } else {
                number
            });
        }
        numbers[level] = start.unwrap_or(numbers[level].wrapping_add(1));
        let Some(Level {
            format: Some(_),
            prefix,
            suffix,
            shown,
            ..
        }) = self.levels.get(level)
        else {
            return String::new();
        };
        let first = (level + 1).saturating_sub((*shown).max(1));
        let levels = self.levels.iter().zip(numbers).take(level + 1).skip(first);
        let shown: Vec<String> = levels
            .filter_map(|(level, number)| Some(written(*number, level.format?)))
            .collect();
        let label = format!("{prefix}{}{suffix}", shown.join("."));
        label.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// The open lists, and how far those before have been counted.
#[derive(Debug, Default)]
pub struct Lists {
    open: Vec<List>,
    by_style: HashMap<String, Counters>,
    by_id: HashMap<String, Counters>,
}

#[derive(Debug)]
struct List {
    style: String,
    id: String,
    counters: Counters,
    /// What the open item is shown with.
    item: Item,
}

#[derive(Debug, Default, Clone)]
pub enum Item {
    /// The next paragraph is the first one of an item, which may begin with a number of its own.
    Next(Option<u32>),
    /// The next paragraph continues an item, or is a header of the list.
    #[default]
    Continued,
}

impl Lists {
    pub fn begin(&mut self, element: &BytesStart) {
        let value = |name| attribute(element, name).unwrap_or_default();
        let above = self.open.last();
        let mut style = value("style-name");
        if let (true, Some(above)) = (style.is_empty(), above) {
            style.clone_from(&above.style);
        }
        let counters = match (above, value("continue-list")) {
            // The level above counts on.
            (Some(above), _) => {
                let mut counters = above.counters.clone();
                // Under an item with words, a list is a new one.
                if matches!(above.item, Item::Continued) && value("continue-numbering") != "true" {
                    counters.numbers.truncate(self.open.len());
                }
                counters
            }
            (None, id) if !id.is_empty() => self.by_id.get(&id).cloned().unwrap_or_default(),
            (None, _) if value("continue-numbering") == "true" => {
                self.by_style.get(&style).cloned().unwrap_or_default()
            }
            _ => Counters::default(),
        };
        self.open.push(List {
            style,
            id: value("id"),
            counters,
            item: Item::Continued,
        });
    }

    pub fn end(&mut self) {
        let Some(list) = self.open.pop() else {
            return;
        };
        if let Some(above) = self.open.last_mut() {
            above.counters = list.counters;
            return;
        }
        if !list.id.is_empty() {
            self.by_id.insert(list.id, list.counters.clone());
        }
        self.by_style.insert(list.style, list.counters);
    }

    pub fn begin_item(&mut self, element: &BytesStart) {
        let start = attribute(element, "start-value").and_then(|n| n.parse().ok());
        if let Some(list) = self.open.last_mut() {
            list.item = Item::Next(start);
        }
    }

    pub fn begin_header(&mut self) {
        if let Some(list) = self.open.last_mut() {
            list.item = Item::Continued;
        }
    }

    /// Returns the level of the paragraph that begins, from 0, and its label, if it is the first of
    /// an item. `own` is the list of its style.
    pub fn next(
        &mut self,
        styles: &HashMap<String, ListStyle>,
        own: Option<&str>,
    ) -> Option<(usize, String)> {
        let level = self.open.len().checked_sub(1)?;
        let list = self.open.last_mut()?;
        let Item::Next(start) = std::mem::take(&mut list.item) else {
            return None;
        };
        // An item that begins with a list of its own has no label.
        let named = Some(list.style.as_str()).filter(|style| !style.is_empty());
        let style = named.or(own).and_then(|style| styles.get(style));
        let label = match style {
            Some(style) => style.next(&mut list.counters, level, start),
            None => String::new(),
        };
        self.open
            .iter_mut()
            .for_each(|list| list.item = Item::Continued);
        Some((level, label))
    }
}
