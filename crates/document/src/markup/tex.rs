//! LaTeX.
//!
//! The body of a document is read: sections, lists, tables, captions, footnotes, code, and formulas
//! in a line. Macros without arguments that the file defines are read as what they stand for.
//! Commands for the layout and drawings are left out. Files that the text includes are not read,
//! which is a warning, as drawings are.

use std::collections::HashMap;

use super::document;
use crate::{DocumentError, ExtractedDocument, blocks::Block};

mod accents;
mod formula;
mod tokens;
mod writer;

pub use formula::formula;
use writer::Writer;

/// Maximum number of bytes that macros may stand for.
const MAX_EXPANDED: usize = 1 << 20;
/// Maximum number of macros in each other.
const MAX_MACROS: usize = 8;

pub fn extract(file: &str, name: &str) -> Result<ExtractedDocument, DocumentError> {
    let file = tokens::without_comments(file);
    let macros = macros(&file);
    let (before, body) = match file.split_once("\\begin{document}") {
        Some((before, body)) => {
            let body = body.split("\\end{document}").next().unwrap_or(body);
            (before, body)
        }
        None => ("", &*file),
    };
    let mut writer = Writer::new(&macros, file.contains("\\chapter"));
    // The title and the author may be named above the text.
    writer.read_declarations(before);
    writer.read(body, 0);
    let done = writer.finish();
    let (title, author) = (done.title.as_deref(), done.author.as_deref());
    let mut blocks: Vec<Block> = vec![];
    if let Some(title) = title.filter(|_| done.has_title) {
        let text = title.to_owned();
        blocks.push(Block::Heading { level: 1, text });
    }
    blocks.extend(done.blocks);
    let mut extracted = document(&blocks, title, author, done.included, name);
    extracted.lost(done.drawings, "drawing", "drawings", "left out");
    Ok(extracted)
}

/// Returns the macros without arguments that a file defines.
fn macros(file: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for command in [
        "\\newcommand",
        "\\renewcommand",
        "\\providecommand",
        "\\def",
    ] {
        for (at, _) in file.match_indices(command) {
            let rest = file[at + command.len()..]
                .trim_start_matches('*')
                .trim_start();
            let (name, rest) = match tokens::group(rest) {
                Some((name, rest)) => (name.trim(), rest),
                None => rest.split_at(tokens::command_length(rest)),
            };
            let Some(name) = name.strip_prefix('\\').filter(|name| !name.is_empty()) else {
                continue;
            };
            if let Some((body, _)) = tokens::group(rest)
                && !body.contains('#')
                && body.len() < 10_000
            {
                found.insert(name.to_owned(), body.to_owned());
            }
        }
    }
    found
}
