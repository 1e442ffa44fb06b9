//! Word documents (Office Open XML, ECMA-376): a ZIP archive of XML files. These are read:
//!
//! | part | content | module |
//! |---|---|---|
//! | the main part, `word/document.xml` in most files | paragraphs of runs of texts; tables; text boxes | `story` |
//! | styles | which paragraphs are headings, items of lists, hidden | `styles` |
//! | numbering | numbers of lists and headings, which Word counts | `numbering` |
//! | footnotes, endnotes | notes, which follow the block that refers to them | `notes` |
//! | charts, diagrams, imported files | what they show | `chart` |
//! | core properties | the title | |
//!
//! Headings, list items and tables become Markdown, and formulas a line. The text is as if all
//! tracked changes were accepted. Field codes, comments, headers and footers are dropped. Hidden
//! text (`w:vanish`) is dropped and counted. So are files inside of the document, and signs of
//! symbol fonts that are not known.

use std::collections::HashMap;

use crate::{
    DocumentError, ExtractedDocument,
    blocks::{self, Block},
    compound::{is_compound, word},
    decode, html,
    package::{Package, Relation, is_encrypted, resolved, target},
    title, xml,
};

pub mod chart;
mod field;
pub mod formula;
mod notes;
mod number;
mod numbering;
mod paragraph;
mod parts;
mod story;
mod styles;
pub mod symbols;
mod table;
mod words;

pub use number::{roman, written};
use parts::{Losses, Parts};
use story::Story;
pub use table::{Shape, Table};
pub use words::{Script, Words};

/// Maximum number of charts, diagrams and imported files that are read.
const MAX_INSERTED: usize = 200;

pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    if is_compound(bytes) && !is_encrypted(bytes) {
        return word::extract(bytes, name);
    }
    let mut package = Package::open(bytes, "Word document")?;
    let of_file = package.relations("")?;
    let (place, document) = main_part(&mut package, &of_file)?;
    let relations = package.relations(&place)?;
    let mut losses = Losses::default();
    let mut parts = read_parts(&mut package, &place, &relations, &mut losses)?;
    let blocks = Story::new(&mut parts, &mut losses)
        .read(&document)
        .map_err(|e| package.malformed(&e))?;
    let core = target(&of_file, "core-properties").unwrap_or("docProps/core.xml");
    let declared = package
        .text(core)?
        .and_then(|core| xml::text_of(&core, "title"));
    let title = declared.as_deref().and_then(title::own);
    let mut extracted = ExtractedDocument::in_markdown(blocks::markdown(&blocks), title, name);
    tell(&losses, &mut extracted);
    Ok(extracted)
}

/// Returns the name and the text of the main part: what the file says, else where it mostly is.
fn main_part(
    package: &mut Package,
    of_file: &[Relation],
) -> Result<(String, String), DocumentError> {
    let named = target(of_file, "officeDocument").unwrap_or_default();
    for place in [named, "word/document.xml"] {
        if let Some(text) = package.text(place)? {
            return Ok((place.to_owned(), text));
        }
    }
    Err(package.malformed(&"it has no word/document.xml"))
}

fn read_parts(
    package: &mut Package,
    place: &str,
    relations: &[Relation],
    losses: &mut Losses,
) -> Result<Parts, DocumentError> {
    let folder = place.rsplit_once('/').map_or("", |(folder, _)| folder);
    // Each of them is optional.
    let text = |package: &mut Package, kind: &str| {
        let usual = resolved(folder, &format!("{kind}.xml"));
        package.text(target(relations, kind).unwrap_or(&usual))
    };
    let mut parts = Parts::default();
    if let Some(styles) = text(package, "styles")? {
        parts.styles = styles::Styles::read(&styles).map_err(|e| package.malformed(&e))?;
    }
    if let Some(numbering) = text(package, "numbering")? {
        let read = numbering::Numbering::read(&numbering);
        parts.numbering = read.map_err(|e| package.malformed(&e))?;
    }
    for kind in ["footnotes", "endnotes"] {
        if let Some(notes) = text(package, kind)? {
            let story = Story::new(&mut parts, losses);
            story.read(&notes).map_err(|e| package.malformed(&e))?;
        }
    }
    parts.inserted = inserted(package, relations, losses)?;
    Ok(parts)
}

/// Reads what the document shows of other parts.
fn inserted(
    package: &mut Package,
    relations: &[Relation],
    losses: &mut Losses,
) -> Result<HashMap<String, Vec<Block>>, DocumentError> {
    let mut inserted = HashMap::new();
    for Relation { id, kind, target } in relations {
        if inserted.len() >= MAX_INSERTED {
            break;
        }
        let blocks = match kind.as_str() {
            "chart" => package.text(target)?.map(|xml| chart::chart(&xml)),
            "diagramData" => package.text(target)?.map(|xml| chart::diagram(&xml)),
            "aFChunk" => {
                let bytes = package.bytes(target)?.unwrap_or_default();
                let blocks = imported(&bytes, target);
                losses.imports += usize::from(blocks.is_none());
                blocks
            }
            _ => None,
        };
        inserted.extend(blocks.map(|blocks| (id.clone(), blocks)));
    }
    Ok(inserted)
}

/// Reads a file that Word shows as a part of the document, if it is HTML or text.
fn imported(bytes: &[u8], name: &str) -> Option<Vec<Block>> {
    let file = decode::text(bytes, None).ok()?.text;
    let begins = file.trim_start().get(..200).unwrap_or(&file).to_lowercase();
    if name.ends_with(".txt") {
        Some(vec![Block::Text(file.into_owned())])
    } else if begins.starts_with('<') && begins.contains("html") {
        let page = html::extract(&file, name).ok()?;
        Some(vec![Block::Markdown(page.text)])
    } else {
        None
    }
}

fn tell(losses: &Losses, extracted: &mut ExtractedDocument) {
    let Losses {
        hidden,
        signs,
        objects,
        imports,
    } = *losses;
    extracted.lost(hidden, "hidden text", "hidden texts", "removed");
    extracted.lost(
        signs,
        "sign of a symbol font",
        "signs of symbol fonts",
        "replaced with U+FFFD",
    );
    extracted.lost(objects, "embedded file", "embedded files", "left out");
    extracted.lost(imports, "imported file", "imported files", "left out");
}

#[cfg(test)]
mod tests;
