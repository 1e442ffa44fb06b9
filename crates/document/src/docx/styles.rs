//! Styles of paragraphs and characters (`word/styles.xml`). A style has what it says itself, else
//! what the style that it is based on has.

use std::collections::HashMap;

use quick_xml::{Reader, events::Event};

use super::words::Script;
use crate::xml::{attribute, is_on};

/// Maximum number of styles that are based on each other. Styles may also be based on themselves.
const MAX_CHAIN: usize = 64;
/// The outline level of body text.
const BODY_TEXT: usize = 9;

#[derive(Debug, Default)]
pub struct Style {
    name: String,
    based_on: Option<String>,
    outline: Option<usize>,
    list: ListPlace,
    is_hidden: Option<bool>,
    script: Option<Script>,
}

/// The list of a paragraph, and its level from 0.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ListPlace {
    pub list: Option<String>,
    pub level: Option<usize>,
}

#[derive(Debug, Default)]
pub struct Styles {
    styles: HashMap<String, Style>,
}

impl Styles {
    pub fn read(xml: &str) -> Result<Self, quick_xml::Error> {
        let mut styles = HashMap::new();
        let mut id = String::new();
        let mut style = Style::default();
        let mut reader = Reader::from_str(xml);
        loop {
            let element = match reader.read_event()? {
                Event::Eof => return Ok(Self { styles }),
                Event::Start(element) | Event::Empty(element) => element,
                Event::End(element) if element.local_name().into_inner() == "style" => {
                    styles.insert(std::mem::take(&mut id), std::mem::take(&mut style));
                    continue;
                }
                _ => continue,
            };
            let value = || attribute(&element, "val");
            match element.local_name().into_inner() {
                "style" => id = attribute(&element, "styleId").unwrap_or_default(),
                "name" => style.name = value().unwrap_or_default(),
                "basedOn" => style.based_on = value(),
                "outlineLvl" => style.outline = value().and_then(|level| level.parse().ok()),
                "numId" => style.list.list = value(),
                "ilvl" => style.list.level = value().and_then(|level| level.parse().ok()),
                "vanish" => style.is_hidden = Some(is_on(&element)),
                "vertAlign" => style.script = value().map(|value| Script::named(&value)),
                // Formatting of parts of a table.
                "tblStylePr" => {
                    let end = element.to_end().into_owned();
                    reader.read_to_end(end.name())?;
                }
                _ => {}
            }
        }
    }

    /// Returns the first value that a style or those that it is based on have.
    fn first<T>(&self, id: &str, mut value: impl FnMut(&str, &Style) -> Option<T>) -> Option<T> {
        let mut id = id;
        for _ in 0..MAX_CHAIN {
            let style = self.styles.get(id)?;
            if let Some(found) = value(id, style) {
                return Some(found);
            }
            id = style.based_on.as_deref()?;
        }
        None
    }

    /// Returns the heading level of a style, from 1: by its outline level, else by the name, which
    /// is English in each language.
    pub fn heading_level(&self, id: &str) -> Option<usize> {
        let level = self.first(id, |_, style| match (style.outline, heading_of(style)) {
            (None, None) => None,
            (Some(outline), None) => Some(outline_level(outline)),
            (_, Some(level)) => Some(Some(level)),
        });
        level.flatten()
    }

    /// Returns the style that names the list of a style, and that list.
    pub fn list(&self, id: &str) -> Option<(String, String)> {
        self.first(id, |id, style| {
            Some((id.to_owned(), style.list.list.clone()?))
        })
    }

    /// Returns the level that a style has in its list.
    pub fn list_level(&self, id: &str) -> Option<usize> {
        self.first(id, |_, style| style.list.level)
    }

    pub fn is_hidden(&self, id: &str) -> Option<bool> {
        self.first(id, |_, style| style.is_hidden)
    }

    pub fn script(&self, id: &str) -> Option<Script> {
        self.first(id, |_, style| style.script)
    }
}

/// Returns a level from 1 for an outline level, which counts from 0, or `None` for body text.
pub fn outline_level(outline: usize) -> Option<usize> {
    (outline < BODY_TEXT).then_some(outline + 1)
}

fn heading_of(style: &Style) -> Option<usize> {
    // Old programs write other names of the style behind a comma.
    let name = style.name.split(',').next().unwrap_or_default();
    match name.trim().to_lowercase().as_str() {
        "title" => Some(1),
        name => name.strip_prefix("heading ")?.trim().parse().ok(),
    }
}
