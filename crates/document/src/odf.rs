//! OpenDocument (ISO/IEC 26300), the formats of LibreOffice: a ZIP archive of XML files, or one XML
//! file that holds the same elements.
//!
//! | part | content | module |
//! |---|---|---|
//! | `content.xml` | paragraphs, lists, tables, slides, and the styles that they were given by hand | `story` |
//! | `styles.xml` | which paragraphs are titles or hidden; numbers of headings | `styles`, `lists` |
//! | `meta.xml` | title and author | |
//! | `Object 1/content.xml` and so on | charts, and formulas in MathML | |
//!
//! Texts and slides are read here, sheets by [`crate::records::spreadsheet`]. The text is as if all
//! tracked changes were accepted. Comments, headers and footers are left out, as in Word.

use std::collections::HashMap;

use crate::{
    DocumentError, ExtractedDocument,
    blocks::{self, Block},
    decode, html,
    package::{self, Package, encrypted, malformed},
    title,
    xml::text_of,
};

mod changes;
mod controls;
mod elements;
mod frames;
mod lists;
mod story;
mod styles;

use story::Story;
pub use styles::Styles;

/// Maximum number of charts and formulas that are read.
const MAX_OBJECTS: usize = 200;

/// The parts of a file.
pub struct Parts {
    pub content: String,
    styles: String,
    meta: String,
    /// By their folder in the archive.
    objects: HashMap<String, Object>,
    format: &'static str,
}

/// What a document shows of another part.
#[derive(Debug, Clone)]
enum Object {
    Formula(String),
    Chart(Vec<Block>),
}

/// What is not in the text.
#[derive(Debug, Default)]
struct Losses {
    /// Number of texts that are formatted as hidden.
    hidden: usize,
    /// Number of hidden slides.
    slides: usize,
    /// Number of signs of a symbol font that are not known.
    signs: usize,
    /// Number of files inside of the document.
    objects: usize,
}

/// Reads a text.
pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    read(Parts::open(bytes, "text document")?, name)
}

/// Reads a text, slides or drawings.
pub fn read(parts: Parts, name: &str) -> Result<ExtractedDocument, DocumentError> {
    let styles = parts.styles()?;
    let mut losses = Losses::default();
    let story = Story::new(&styles, &parts.objects, &mut losses);
    let blocks = story.read(&parts.content);
    let blocks = blocks.map_err(|e| malformed(parts.format, &e))?;
    let text = blocks::markdown(&blocks);
    let mut extracted = ExtractedDocument::in_markdown(text, None, name);
    parts.describe(&mut extracted);
    let Losses {
        hidden,
        slides,
        signs,
        objects,
    } = losses;
    extracted.lost(hidden, "hidden text", "hidden texts", "removed");
    extracted.lost(slides, "hidden slide", "hidden slides", "left out");
    extracted.lost(
        signs,
        "sign of a symbol font",
        "signs of symbol fonts",
        "replaced with U+FFFD",
    );
    extracted.lost(objects, "embedded file", "embedded files", "left out");
    Ok(extracted)
}

/// Returns true for a file in one of these formats, in an archive or not.
pub fn is_open_document(bytes: &[u8]) -> bool {
    const ROOT: &[u8] = b"urn:oasis:names:tc:opendocument:xmlns:office:1.0";
    const TYPE: &[u8] = b"mimetypeapplication/vnd.oasis.opendocument.";
    let head = &bytes[..bytes.len().min(4096)];
    let has = |part: &[u8]| head.windows(part.len()).any(|window| window == part);
    match head.starts_with(b"PK") {
        true => {
            has(TYPE) || package::names(bytes).is_some_and(|names| names.iter().any(is_content))
        }
        false => has(ROOT),
    }
}

impl Parts {
    /// # Errors
    /// The file is none of these formats, damaged, encrypted or too large.
    pub fn open(bytes: &[u8], format: &'static str) -> Result<Self, DocumentError> {
        if !bytes.starts_with(b"PK") && is_open_document(bytes) {
            let content = decode::text(bytes, None)?.text.into_owned();
            return Ok(Self {
                // All is in one file.
                styles: String::new(),
                meta: meta_of(&content).to_owned(),
                content,
                objects: HashMap::new(),
                format,
            });
        }
        let mut package = Package::open(bytes, format)?;
        let manifest = package.text("META-INF/manifest.xml")?.unwrap_or_default();
        if manifest.contains("encryption-data") {
            return Err(encrypted(format));
        }
        let Some(content) = package.text("content.xml")? else {
            return Err(package.malformed(&"it has no content.xml"));
        };
        let mut objects = HashMap::new();
        let names = package.names_with_end("/content.xml");
        for name in names.iter().take(MAX_OBJECTS) {
            let xml = package.text(name)?.unwrap_or_default();
            let folder = name.trim_end_matches("/content.xml").to_owned();
            objects.extend(object(&xml).map(|object| (folder, object)));
        }
        Ok(Self {
            content,
            styles: package.text("styles.xml")?.unwrap_or_default(),
            meta: package.text("meta.xml")?.unwrap_or_default(),
            objects,
            format,
        })
    }

    pub fn styles(&self) -> Result<Styles, DocumentError> {
        let mut styles = Styles::default();
        for part in [&self.styles, &self.content] {
            styles.read(part).map_err(|e| malformed(self.format, &e))?;
        }
        Ok(styles)
    }

    /// Adds the title and the author.
    pub fn describe(&self, extracted: &mut ExtractedDocument) {
        let declared = |name| text_of(&self.meta, name);
        if let Some(title) = declared("title").as_deref().and_then(title::own) {
            extracted.title = title;
        }
        let author = declared("initial-creator").or_else(|| declared("creator"));
        extracted.set_author(author.as_deref());
    }
}

fn is_content(name: &String) -> bool {
    name == "content.xml"
}

/// Returns what a file of one part says of itself.
fn meta_of(content: &str) -> &str {
    let begin = content.find("<office:meta").unwrap_or(content.len());
    let length = content[begin..].find("</office:meta").unwrap_or(0);
    &content[begin..begin + length]
}

/// Reads a chart or a formula. Other objects are documents of their own.
fn object(xml: &str) -> Option<Object> {
    if let Some(formula) = html::formula_of(xml) {
        return Some(Object::Formula(formula));
    }
    if !xml.contains("<chart:chart") {
        return None;
    }
    let (styles, objects, mut losses) = (Styles::default(), HashMap::new(), Losses::default());
    let story = Story::new(&styles, &objects, &mut losses);
    story.read(xml).ok().map(Object::Chart)
}

#[cfg(test)]
mod tests;
