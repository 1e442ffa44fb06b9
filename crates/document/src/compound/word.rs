//! Word documents before 2007 (`.doc`, [MS-DOC]).
//!
//! The stream `WordDocument` begins with offsets into itself and into the stream of tables. There
//! the table of pieces says where the characters are. Footnotes, endnotes, comments and text boxes
//! follow the main text. Headers and footers are left out.

use super::{Compound, in_code_page, u16_at, u32_at, usize_at, utf16};
use crate::{
    DocumentError, ExtractedDocument,
    blocks::{self, Block},
    package::encrypted,
    title,
};

const FORMAT: &str = "Word document";
/// The version of the format from which on a file has a table of pieces: Word 97.
const WORD_97: u16 = 0xC1;

pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    let mut file = Compound::open(bytes, FORMAT)?;
    let main = file.required("WordDocument")?;
    let flags = u16_at(&main, 0x0A).unwrap_or_default();
    if flags & 0x0100 != 0 {
        return Err(encrypted(FORMAT));
    }
    if u16_at(&main, 2).unwrap_or_default() < WORD_97 {
        return Err(file.malformed("it has the format of Word before 97"));
    }
    let tables = file.required(match flags & 0x0200 {
        0 => "0Table",
        _ => "1Table",
    })?;
    let text = text(&main, &tables).ok_or_else(|| file.malformed("it has no table of pieces"))?;
    let declared = file.title();
    let title = declared.as_deref().and_then(title::own);
    let text = blocks::markdown(&paragraphs(&text));
    Ok(ExtractedDocument::in_markdown(text, title, name))
}

/// Returns the characters of the document without its headers, signs of structure included.
fn text(main: &[u8], tables: &[u8]) -> Option<String> {
    /// Where the numbers of characters are of the main text, the footnotes, the headers, the
    /// comments, the endnotes, the text boxes, and those of headers.
    const LENGTHS: [usize; 7] = [0x4C, 0x50, 0x54, 0x5C, 0x60, 0x64, 0x68];
    const OF_HEADERS: [usize; 2] = [2, 6];
    let pieces = pieces(main, tables)?;
    let mut text = String::new();
    let mut begin = 0_u64;
    for (n, at) in LENGTHS.into_iter().enumerate() {
        let end = begin + u64::from(u32_at(main, at)?);
        if !OF_HEADERS.contains(&n) {
            for piece in &pieces {
                let (from, to) = (begin.max(piece.begin), end.min(piece.end));
                if from < to {
                    text.push_str(&piece.characters(main, from, to)?);
                }
            }
            // A part ends with a paragraph.
            text.push('\r');
        }
        begin = end;
    }
    Some(text)
}

/// Characters that follow one another in the file.
struct Piece {
    /// The numbers of its first character, and of the one behind its last.
    begin: u64,
    end: u64,
    /// Its place in the stream, in bytes.
    place: u64,
    /// Its characters are bytes of Windows-1252, else UTF-16.
    is_narrow: bool,
}

impl Piece {
    fn characters(&self, main: &[u8], from: u64, to: u64) -> Option<String> {
        let width = if self.is_narrow { 1 } else { 2 };
        let at = |character: u64| usize::try_from(self.place + (character - self.begin) * width);
        // A file that was cut off has less.
        let end = at(to).ok()?.min(main.len());
        let bytes = main.get(at(from).ok()?.min(end)..end)?;
        Some(match self.is_narrow {
            true => in_code_page(bytes, 1252),
            false => utf16(bytes),
        })
    }
}

fn pieces(main: &[u8], tables: &[u8]) -> Option<Vec<Piece>> {
    const PLACE: usize = 0x1A2;
    /// A modification that pieces refer to, and the table of pieces.
    const MODIFICATION: u8 = 1;
    const PIECES: u8 = 2;
    let at = usize_at(main, PLACE)?;
    let mut rest = tables.get(at..at.checked_add(usize_at(main, PLACE + 4)?)?)?;
    while *rest.first()? == MODIFICATION {
        rest = rest.get(3 + usize::from(u16_at(rest, 1)?)..)?;
    }
    if *rest.first()? != PIECES {
        return None;
    }
    let table = rest.get(5..usize_at(rest, 1)?.checked_add(5)?)?;
    let count = table.len().checked_sub(4)? / 12;
    let mut pieces = vec![];
    for n in 0..count {
        let place = u32_at(table, 4 * (count + 1) + 8 * n + 2)?;
        let is_narrow = place & (1 << 30) != 0;
        let place = u64::from(place & !(1 << 30));
        pieces.push(Piece {
            begin: u64::from(u32_at(table, 4 * n)?),
            end: u64::from(u32_at(table, 4 * n + 4)?),
            place: if is_narrow { place / 2 } else { place },
            is_narrow,
        });
    }
    Some(pieces)
}

/// Returns the paragraphs of the characters, and the rows of tables.
fn paragraphs(text: &str) -> Vec<Block> {
    let mut blocks = vec![];
    let mut rows: Vec<Vec<String>> = vec![];
    let mut cells: Vec<String> = vec![];
    let mut words = String::new();
    // How deep in fields, and which of them are in their instruction.
    let mut fields: Vec<bool> = vec![];
    let mut is_cell_end = false;
    for sign in text.chars() {
        let was_cell_end = std::mem::take(&mut is_cell_end);
        match sign {
            '\u{13}' => fields.push(true),
            '\u{14}' => {
                if let Some(is_instruction) = fields.last_mut() {
                    *is_instruction = false;
                }
            }
            '\u{15}' => {
                fields.pop();
            }
            _ if fields.contains(&true) => {}
            // A row ends with an empty cell.
            '\u{7}' if was_cell_end && words.is_empty() => rows.push(std::mem::take(&mut cells)),
            '\u{7}' => {
                cells.push(std::mem::take(&mut words));
                is_cell_end = true;
            }
            '\r' | '\u{C}' | '\u{E}' if !cells.is_empty() => words.push(' '),
            '\r' | '\u{C}' | '\u{E}' => {
                if !words.trim().is_empty() {
                    if !rows.is_empty() {
                        blocks.push(Block::Table(std::mem::take(&mut rows)));
                    }
                    blocks.push(Block::Text(words.trim().to_owned()));
                }
                words.clear();
            }
            '\u{B}' => words.push('\n'),
            '\u{1E}' => words.push('-'),
            '\t' | '\n' => words.push(sign),
            // Pictures, notes and optional hyphens.
            sign if sign < ' ' => {}
            sign => words.push(sign),
        }
    }
    cells.push(words);
    cells.retain(|cell| !cell.trim().is_empty());
    if !rows.is_empty() {
        blocks.push(Block::Table(rows));
    }
    blocks.extend(cells.into_iter().map(Block::Text));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_paragraphs_rows_and_fields() {
        let text = "One\rTwo \u{13}HYPERLINK \"http://x\"\u{14}link\u{15}\u{B}more\r\
            a\u{7}b\u{7}\u{7}\u{7}c\rd\u{7}\u{7}\r\u{1}\rEnd";
        assert_eq!(
            blocks::markdown(&paragraphs(text)),
            "One\n\nTwo link\nmore\n\n| a | b |\n| --- | --- |\n| | c d |\n\nEnd"
        );
    }
}
