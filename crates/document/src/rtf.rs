//! Rich Text Format: groups of control words and text.
//!
//! Headings, lists, tables and footnotes become Markdown, as they do for Word. Numbers of lists are
//! those that the program wrote beside the items. Text is read in the code page of its font, or
//! from the Unicode characters beside it. Headers, footers, comments, pictures, codes of fields and
//! deleted text are dropped. Hidden text is dropped and counted.

use rag_protocol::ingest::Stage;

use crate::{DocumentError, ExtractedDocument, blocks, package::malformed, title};

mod flow;
mod font;
mod reader;
mod token;

pub use font::encoding;

/// What is not in the text.
#[derive(Debug, Default)]
struct Losses {
    /// Number of texts that are formatted as hidden.
    hidden: usize,
    /// Number of signs of a symbol font that are not known.
    signs: usize,
    /// The file ends inside of a group.
    is_cut: bool,
}

pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let bytes = bytes.trim_ascii_start();
    if !bytes.starts_with(b"{\\rtf") {
        return Err(malformed("RTF document", &"it does not begin with {\\rtf"));
    }
    let read = reader::read(bytes).map_err(|why| malformed("RTF document", &why))?;
    let text = blocks::markdown(&read.blocks);
    let mut extracted = ExtractedDocument::in_markdown(text, title::own(&read.title), name);
    let Losses {
        hidden,
        signs,
        is_cut,
    } = read.losses;
    extracted.lost(hidden, "hidden text", "hidden texts", "removed");
    extracted.lost(
        signs,
        "sign of a symbol font",
        "signs of symbol fonts",
        "replaced with U+FFFD",
    );
    if is_cut {
        let message = "the file ends inside of a group: its end may be missing".into();
        extracted.warn(Stage::Extract, message);
    }
    Ok(extracted)
}

#[cfg(test)]
mod tests;
