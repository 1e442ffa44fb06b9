//! Paragraphs and runs with what their properties say.

use quick_xml::{Reader, errors::Error, events::Event};

use super::{
    numbering::Marker,
    parts::Parts,
    styles::{ListPlace, Styles, outline_level},
    symbols::is_symbol_font,
    words::{Script, Words},
};
use crate::{
    blocks::Block,
    xml::{attribute, is_on},
};

/// A paragraph that is being read.
#[derive(Debug, Default)]
pub struct Paragraph {
    pub words: Words,
    pub style: Option<String>,
    list: ListPlace,
    /// The outline level that the paragraph has beside its style.
    outline: Option<usize>,
    /// The end of the paragraph was deleted or moved: the next one continues it.
    pub is_continued: bool,
    /// Its properties for a run.
    pub run: Run,
    /// Text boxes and drawings.
    pub below: Vec<Block>,
}

/// Characters with the same properties.
#[derive(Debug, Default, Clone)]
pub struct Run {
    pub is_hidden: bool,
    pub script: Script,
    /// A font of symbols.
    pub font: Option<String>,
}

impl Paragraph {
    /// Returns the paragraph that continues one whose end was deleted: with its words, and without
    /// its properties.
    pub fn continued(before: Self) -> Self {
        Self {
            words: before.words,
            below: before.below,
            ..Self::default()
        }
    }

    /// Reads properties whose first tag has been read, up to their end.
    pub fn read_properties(&mut self, reader: &mut Reader<&[u8]>) -> Result<(), Error> {
        // Inside of the properties of the character that ends the paragraph.
        let mut in_mark = false;
        loop {
            match reader.read_event()? {
                Event::Start(element) => {
                    let value = || attribute(&element, "val");
                    let number = || value().and_then(|number| number.parse().ok());
                    match element.local_name().into_inner() {
                        // What it was before a change, and the page that it ends.
                        "pPrChange" | "rPrChange" | "numberingChange" | "sectPr" | "tabs" => {
                            reader.read_to_end(element.name())?;
                        }
                        "rPr" => in_mark = true,
                        "del" | "moveFrom" if in_mark => self.is_continued = true,
                        "pStyle" => self.style = value(),
                        "numId" => self.list.list = value(),
                        "ilvl" => self.list.level = number(),
                        "outlineLvl" => self.outline = number(),
                        _ => {}
                    }
                }
                Event::End(element) => match element.local_name().into_inner() {
                    "rPr" => in_mark = false,
                    "pPr" => return Ok(()),
                    _ => {}
                },
                Event::Eof => return Ok(()),
                _ => {}
            }
        }
    }

    /// Returns the paragraph, and what is drawn beside it.
    pub fn finish(self, parts: &mut Parts) -> Vec<Block> {
        let style = self.style.as_deref();
        let level = match self.outline {
            Some(outline) => outline_level(outline),
            None => style.and_then(|style| parts.styles.heading_level(style)),
        };
        let place = place(&self.list, style, parts);
        let text = self.words.finish();
        let marker = place.map(|(list, depth)| {
            let marker = parts.numbering.next(&list, depth, &parts.styles);
            (marker, depth)
        });
        let block = match (level, marker) {
            (Some(level), Some((Marker::Number(label), _))) if !text.trim().is_empty() => {
                Block::Heading {
                    level,
                    text: format!("{label} {text}"),
                }
            }
            (Some(level), _) => Block::Heading { level, text },
            (None, None | Some((Marker::Nothing, _))) => Block::Text(text),
            (None, Some((Marker::Number(label), depth))) => Block::Item { depth, label, text },
            (None, Some((Marker::Bullet(sign), depth))) => Block::Item {
                depth,
                label: String::new(),
                text: match sign {
                    Some(sign) if !text.trim().is_empty() => format!("{sign} {text}"),
                    _ => text,
                },
            },
        };
        let mut blocks = self.below;
        if !block.is_blank() {
            blocks.insert(0, block);
        }
        blocks
    }
}

/// Returns the list of a paragraph and its level: its own, else that of its style.
fn place(own: &ListPlace, style: Option<&str>, parts: &Parts) -> Option<(String, usize)> {
    let of_style = style.and_then(|style| parts.styles.list(style));
    let list = own
        .list
        .clone()
        .or_else(|| of_style.as_ref().map(|(_, list)| list.clone()))
        // The list 0 means none.
        .filter(|list| list != "0")?;
    let level_of = |style: &str| parts.numbering.level_of_style(&list, style, &parts.styles);
    let level = own.level.or_else(|| {
        let (named_by, _) = of_style.as_ref()?;
        let style = style?;
        level_of(style)
            .or_else(|| parts.styles.list_level(style))
            .or_else(|| level_of(named_by))
    });
    Some((list, level.unwrap_or(0)))
}

impl Run {
    /// Reads properties whose first tag has been read, up to their end. What they do not say is as
    /// in the character style, else as in the paragraph.
    pub fn read_properties(
        &mut self,
        reader: &mut Reader<&[u8]>,
        styles: &Styles,
    ) -> Result<(), Error> {
        let (mut style, mut is_hidden, mut script) = (None, None, None);
        loop {
            match reader.read_event()? {
                Event::Start(element) => match element.local_name().into_inner() {
                    "rPrChange" => {
                        reader.read_to_end(element.name())?;
                    }
                    "rStyle" => style = attribute(&element, "val"),
                    "vanish" => is_hidden = Some(is_on(&element)),
                    "vertAlign" => script = attribute(&element, "val").map(|v| Script::named(&v)),
                    "rFonts" => {
                        let font = attribute(&element, "ascii");
                        let font = font.or_else(|| attribute(&element, "hAnsi"));
                        self.font = font.filter(|font| is_symbol_font(font));
                    }
                    _ => {}
                },
                Event::End(element) if element.local_name().into_inner() == "rPr" => break,
                Event::Eof => break,
                _ => {}
            }
        }
        let style = style.as_deref();
        if let Some(is_hidden) = is_hidden.or_else(|| styles.is_hidden(style?)) {
            self.is_hidden = is_hidden;
        }
        if let Some(script) = script.or_else(|| styles.script(style?)) {
            self.script = script;
        }
        Ok(())
    }
}
