//! Styles of paragraphs, characters, sections and slides. A style has what it says itself, else
//! what its parent has.

use std::collections::HashMap;

use quick_xml::{
    Reader,
    errors::Error,
    events::{BytesStart, Event},
};

use super::lists::ListStyle;
use crate::{
    docx::{Script, symbols::is_symbol_font},
    xml::attribute,
};

/// Maximum number of styles that are based on each other. Styles may also be based on themselves.
const MAX_CHAIN: usize = 64;

#[derive(Debug, Default)]
pub struct Styles {
    styles: HashMap<(String, String), Style>,
    pub lists: HashMap<String, ListStyle>,
    /// The numbers of headings.
    pub outline: ListStyle,
}

#[derive(Debug, Default)]
struct Style {
    parent: String,
    list: Option<String>,
    is_hidden: Option<bool>,
    script: Option<Script>,
    /// A font of symbols, or an empty name for another one.
    font: Option<String>,
}

impl Styles {
    /// Adds the styles of a part.
    pub fn read(&mut self, xml: &str) -> Result<(), Error> {
        let mut open: Option<((String, String), Style)> = None;
        let mut list: Option<(String, ListStyle)> = None;
        let mut reader = Reader::from_str(xml);
        reader.config_mut().expand_empty_elements = true;
        loop {
            let element = match reader.read_event()? {
                Event::Eof => return Ok(()),
                Event::Start(element) => element,
                Event::End(element) => {
                    match element.local_name().into_inner() {
                        "style" => self.styles.extend(open.take()),
                        "list-style" => self.lists.extend(list.take()),
                        "outline-style" => self.outline = list.take().unwrap_or_default().1,
                        _ => {}
                    }
                    continue;
                }
                _ => continue,
            };
            let value = |name| attribute(&element, name);
            match element.local_name().into_inner() {
                // The story tells what is wrong with it.
                "body" if reader.read_to_end(element.name()).is_err() => return Ok(()),
                "body" => {}
                "style" => {
                    let name = value("name").unwrap_or_default();
                    let style = Style {
                        parent: value("parent-style-name").unwrap_or_default(),
                        list: value("list-style-name").filter(|name| !name.is_empty()),
                        ..Style::default()
                    };
                    open = Some(((value("family").unwrap_or_default(), name), style));
                }
                "text-properties" | "drawing-page-properties" | "table-properties" => {
                    if let Some((_, style)) = &mut open {
                        style.add(&element);
                    }
                }
                "list-style" | "outline-style" => {
                    list = Some((value("name").unwrap_or_default(), ListStyle::default()));
                }
                "list-level-style-number"
                | "list-level-style-bullet"
                | "list-level-style-image"
                | "outline-level-style" => {
                    if let Some((_, list)) = &mut list {
                        list.add(&element);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the first value that a style or its parents have.
    fn first<'a, T>(
        &'a self,
        family: &str,
        name: &str,
        value: impl Fn(&'a Style) -> Option<T>,
    ) -> Option<T> {
        let mut key = (family.to_owned(), name.to_owned());
        for _ in 0..MAX_CHAIN {
            let style = self.styles.get(&key)?;
            if let Some(found) = value(style) {
                return Some(found);
            }
            key.1.clone_from(&style.parent);
        }
        None
    }

    pub fn is_hidden(&self, family: &str, name: &str) -> Option<bool> {
        self.first(family, name, |style| style.is_hidden)
    }

    pub fn script(&self, family: &str, name: &str) -> Option<Script> {
        self.first(family, name, |style| style.script)
    }

    /// Returns the symbol font of a style: an empty name for another font.
    pub fn font(&self, family: &str, name: &str) -> Option<&str> {
        self.first(family, name, |style| style.font.as_deref())
    }

    /// Returns the list of the paragraphs of a style.
    pub fn list(&self, name: &str) -> Option<&str> {
        self.first("paragraph", name, |style| style.list.as_deref())
    }

    /// Returns true for the title of a text.
    pub fn is_title(&self, name: &str) -> bool {
        let mut key = ("paragraph".to_owned(), name.to_owned());
        for _ in 0..MAX_CHAIN {
            if key.1 == "Title" {
                return true;
            }
            let Some(style) = self.styles.get(&key) else {
                return false;
            };
            key.1.clone_from(&style.parent);
        }
        false
    }
}

impl Style {
    fn add(&mut self, properties: &BytesStart) {
        for attribute in properties.attributes().with_checks(false).flatten() {
            let value = &*attribute.value;
            match attribute.key.local_name().into_inner() {
                "display" => self.is_hidden = Some(matches!(value, "none" | "false")),
                "visibility" => self.is_hidden = Some(value == "hidden"),
                "text-position" => self.script = Some(script(value)),
                "font-name" | "font-family" => {
                    let name = value.trim_matches(['\'', '"', ' ']);
                    let name = if is_symbol_font(name) { name } else { "" };
                    self.font = Some(name.to_owned());
                }
                _ => {}
            }
        }
    }
}

/// Reads a position such as `super 58%` or `-33% 100%`.
fn script(position: &str) -> Script {
    let place = position.split_whitespace().next().unwrap_or_default();
    let percent = place.trim_end_matches('%').parse::<f32>().unwrap_or(0.0);
    match place {
        "super" => Script::Super,
        "sub" => Script::Sub,
        _ if percent > 0.0 => Script::Super,
        _ if percent < 0.0 => Script::Sub,
        _ => Script::Line,
    }
}
