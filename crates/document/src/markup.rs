//! Text with light markup: reStructuredText, AsciiDoc, Org and TeX.
//!
//! Each reader turns lines into blocks. A text may be nested without an end, so what is nested more
//! than [`MAX_DEPTH`] times is read as plain text.

use crate::{ExtractedDocument, blocks, blocks::Block, title};

pub mod asciidoc;
pub mod org;
pub mod rst;
pub mod tex;

/// Maximum number of lists, quotations and so on in each other.
const MAX_DEPTH: usize = 12;

/// Returns a document of blocks with the title and the author that it names. `included` is the
/// number of files that it includes, which are not read.
fn document(
    blocks: &[Block],
    declared: Option<&str>,
    author: Option<&str>,
    included: usize,
    name: &str,
) -> ExtractedDocument {
    let text = blocks::markdown(blocks);
    let declared = declared.and_then(title::own);
    let mut extracted = ExtractedDocument::in_markdown(text, declared, name);
    extracted.set_author(author);
    extracted.lost(included, "included file", "included files", "not read");
    extracted
}

/// Returns the number of columns before the first word. A tab ends at each eighth column.
fn indent(line: &str) -> usize {
    let mut column = 0;
    for c in line.chars() {
        match c {
            ' ' => column += 1,
            '\t' => column += 8 - column % 8,
            _ => break,
        }
    }
    column
}

/// Returns a line without a number of columns of white space.
fn without_indent(line: &str, columns: usize) -> &str {
    let mut column = 0;
    for (at, c) in line.char_indices() {
        if column >= columns || !matches!(c, ' ' | '\t') {
            return &line[at..];
        }
        column += if c == '\t' { 8 - column % 8 } else { 1 };
    }
    ""
}

/// Returns lines without the white space that all of them begin with.
fn dedented<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let least = filled.map(|line| indent(line)).min().unwrap_or(0);
    let mut lines: Vec<&str> = lines
        .iter()
        .map(|line| without_indent(line, least))
        .collect();
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    let blank = lines.iter().take_while(|line| line.trim().is_empty());
    lines.drain(..blank.count());
    lines
}

/// Returns the block of an item, followed by what else is in it, one level deeper.
fn item(label: &str, inner: Vec<Block>) -> Vec<Block> {
    let mut inner = inner.into_iter().peekable();
    let text = match inner.next_if(|first| matches!(first, Block::Text(_))) {
        Some(Block::Text(text)) => text,
        _ => String::new(),
    };
    let mut blocks = vec![];
    if !text.trim().is_empty() {
        blocks.push(Block::Item {
            depth: 0,
            label: label.to_owned(),
            text,
        });
    }
    blocks.extend(inner.map(|block| match block {
        Block::Item { depth, label, text } => Block::Item {
            depth: depth + 1,
            label,
            text,
        },
        block => block,
    }));
    blocks
}

/// Returns the number or letter that an item begins with, and what follows: `1.`, `a)`, `(iv)`.
fn numbered(line: &str) -> Option<(&str, &str)> {
    let open = usize::from(line.starts_with('('));
    let inner = &line[open..];
    let length = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '#')?;
    let mark = &inner[..length];
    let is_number = mark.bytes().all(|b| b.is_ascii_digit()) && length <= 9;
    let is_roman = mark.bytes().all(|b| b"ivxIVX".contains(&b)) && length <= 6;
    let is_one = length == 1 && !mark.starts_with(|c: char| c.is_ascii_digit());
    if length == 0 || !(is_number || is_roman || is_one) {
        return None;
    }
    let rest = match open {
        1 => inner[length..].strip_prefix(')')?,
        _ => inner[length..].strip_prefix(['.', ')'])?,
    };
    let is_item = rest.is_empty() || rest.starts_with([' ', '\t']);
    is_item.then(|| (&line[..open + length + 1], rest))
}

#[cfg(test)]
mod tests;
