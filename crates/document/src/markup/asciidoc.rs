//! AsciiDoc.
//!
//! Sections, lists, tables, blocks of code and admonitions are read, with the attributes that the
//! file defines. Comments are left out. Included files are not read, which is a warning. Parts that
//! depend on an attribute are read in any case.

use std::collections::HashMap;

use super::{MAX_DEPTH, document, item};
use crate::{DocumentError, ExtractedDocument, blocks::Block, html};

mod inline;
mod marker;
mod table;

use marker::{Marker, attached};

#[derive(Default)]
struct Reader {
    attributes: HashMap<String, String>,
    title: Option<String>,
    author: Option<String>,
    notes: usize,
    /// The signs of the items that are open.
    open: Vec<String>,
    /// Number of files that the text includes.
    included: usize,
}

/// What stands above a block in brackets, and its title.
#[derive(Default)]
struct Above {
    /// The parts between commas.
    style: Vec<String>,
    title: Option<String>,
}

pub fn extract(file: &str, name: &str) -> Result<ExtractedDocument, DocumentError> {
    let lines: Vec<&str> = file.lines().map(str::trim_end).collect();
    let mut reader = Reader::default();
    let blocks = reader.blocks(&lines, 0);
    let (title, author) = (reader.title.as_deref(), reader.author.as_deref());
    Ok(document(&blocks, title, author, reader.included, name))
}

impl Reader {
    fn blocks(&mut self, lines: &[&str], depth: usize) -> Vec<Block> {
        if depth > MAX_DEPTH {
            return vec![Block::Text(lines.join("\n"))];
        }
        let open = std::mem::take(&mut self.open);
        let mut blocks = vec![];
        let mut above = Above::default();
        let mut counts = HashMap::new();
        let mut at = 0;
        while let Some(line) = lines.get(at).copied() {
            if line.is_empty() || is_silent(line) {
                at += 1;
                continue;
            }
            if line.starts_with("include::") && line.ends_with(']') {
                self.included += 1;
                at += 1;
                continue;
            }
            if self.attribute(line) || self.above(line, &mut above) {
                at += 1;
                continue;
            }
            let above = std::mem::take(&mut above);
            if let Some(title) = &above.title {
                blocks.push(Block::Text(self.words(title)));
            }
            if let Some((block, end)) = self.heading(lines, at, &above) {
                blocks.push(block);
                at = end;
                continue;
            }
            let (read, end) = match delimiter(line) {
                Some(delimiter) => self.delimited(lines, at, delimiter, &above, depth),
                None => match self.list(lines, at, depth, &mut counts) {
                    Some(item) => item,
                    None => {
                        counts.clear();
                        self.paragraph(lines, at, &above)
                    }
                },
            };
            blocks.extend(read);
            at = end;
        }
        self.open = open;
        blocks
    }

    /// Reads `:name: value`.
    fn attribute(&mut self, line: &str) -> bool {
        let Some((name, value)) = line.strip_prefix(':').and_then(|rest| rest.split_once(':'))
        else {
            return false;
        };
        let is_name = |c: char| c.is_alphanumeric() || "-_!".contains(c);
        if name.is_empty() || !name.chars().all(is_name) || value.starts_with(':') {
            return false;
        }
        let value = self.words(value.trim().trim_end_matches(" \\"));
        match name {
            "author" => self.author = Some(value),
            "doctitle" | "title" => self.title = Some(value),
            // Attributes may contain others, so a text is limited here.
            name if value.len() <= 1000 => {
                self.attributes.insert(name.to_lowercase(), value);
            }
            _ => {}
        }
        true
    }

    /// Reads a line that belongs to the block below.
    fn above(&self, line: &str, above: &mut Above) -> bool {
        if let Some(inner) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            if !inner.starts_with('[') && !inner.is_empty() {
                above.style = inner
                    .split(',')
                    .map(|part| part.trim().to_owned())
                    .collect();
            }
            return true;
        }
        let title = line.strip_prefix('.').filter(|title| {
            !title.is_empty() && !title.starts_with([' ', '.']) && delimiter(line).is_none()
        });
        if let Some(title) = title {
            above.title = Some(title.to_owned());
        }
        title.is_some()
    }

    fn heading(&mut self, lines: &[&str], at: usize, above: &Above) -> Option<(Block, usize)> {
        let line = lines[at];
        let sign = line
            .chars()
            .next()
            .filter(|sign| matches!(sign, '=' | '#'))?;
        let words = line.trim_start_matches(sign);
        let level = line.len() - words.len();
        if !words.starts_with(' ') || level > 6 {
            return None;
        }
        let mut end = at + 1;
        let text = self.words(words);
        let is_first = level == 1 && self.title.is_none();
        if is_first {
            self.title = Some(text.clone());
            end = self.authors(lines, end);
        }
        let is_discrete = above.style.first().is_some_and(|style| style == "discrete");
        let level = if is_discrete { 6 } else { level };
        Some((Block::Heading { level, text }, end))
    }

    /// Reads the lines with authors and revision below the title.
    fn authors(&mut self, lines: &[&str], at: usize) -> usize {
        let is_name = |line: &&str| {
            let has_address = line.contains('@') && line.contains('<');
            let is_plain = line.split_whitespace().count() <= 4
                && line
                    .chars()
                    .all(|c| c.is_alphabetic() || " .-'".contains(c))
                && line.starts_with(char::is_uppercase);
            has_address || is_plain
        };
        let Some(line) = lines.get(at).filter(|line| is_name(line)) else {
            return at;
        };
        let names = line
            .split(';')
            .map(|author| author.split('<').next().unwrap_or_default().trim());
        self.author = Some(names.collect::<Vec<_>>().join(", "));
        let is_revision = |line: &&&str| {
            line.starts_with('v') && line[1..].starts_with(|c: char| c.is_ascii_digit())
                || line.starts_with(|c: char| c.is_ascii_digit())
        };
        at + 1 + usize::from(lines.get(at + 1).filter(is_revision).is_some())
    }

    /// Reads a block between two equal lines. One that is not closed ends with the text.
    fn delimited(
        &mut self,
        lines: &[&str],
        at: usize,
        delimiter: Delimiter,
        above: &Above,
        depth: usize,
    ) -> (Vec<Block>, usize) {
        let close = if delimiter == Delimiter::Fence {
            "```"
        } else {
            lines[at]
        };
        let inner = &lines[at + 1..];
        let length = inner.iter().position(|line| *line == close);
        let length = length.unwrap_or(inner.len());
        let inner = &inner[..length];
        let end = (at + length + 2).min(lines.len());
        let style = above.style.first().map_or("", String::as_str);
        let language = || above.style.get(1).cloned().unwrap_or_default();
        let code = |language: String| Block::Code {
            language,
            text: inner.join("\n"),
        };
        let blocks = match delimiter {
            Delimiter::Comment => vec![],
            _ if matches!(style, "stem" | "latexmath" | "asciimath") => {
                vec![Block::Text(super::tex::formula(&inner.join(" ")))]
            }
            Delimiter::Code => vec![code(match style {
                "" | "source" | "listing" => language(),
                style => style.trim_start_matches("source%").to_owned(),
            })],
            Delimiter::Fence => vec![code(lines[at][3..].trim().to_owned())],
            Delimiter::Table => {
                let rows = table::read(lines[at], inner, &above.style);
                let cell = |cell: &String| self.words(cell);
                let rows = rows
                    .iter()
                    .map(|row| row.iter().map(cell).collect())
                    .collect();
                vec![Block::Table(rows)]
            }
            Delimiter::Raw => {
                let page = html::extract(&inner.join("\n"), "raw").ok();
                page.map(|page| Block::Markdown(page.text))
                    .into_iter()
                    .collect()
            }
            Delimiter::Verse if style == "verse" => {
                vec![Block::Text(self.words(&inner.join("\n")))]
            }
            _ => {
                let mut blocks = self.blocks(inner, depth + 1);
                if let Some(label) = admonition(style) {
                    label_first(&mut blocks, label);
                }
                if let (Delimiter::Verse, [_, by @ ..]) = (delimiter, above.style.as_slice()) {
                    blocks.push(Block::Text(by.join(", ")));
                }
                blocks
            }
        };
        (blocks, end)
    }

    /// Reads an item with what belongs to it. `counts` has the numbers of the items before.
    fn list<'t>(
        &mut self,
        lines: &[&'t str],
        at: usize,
        depth: usize,
        counts: &mut HashMap<&'t str, usize>,
    ) -> Option<(Vec<Block>, usize)> {
        let marker = marker::marker(lines[at])?;
        let mut below = HashMap::new();
        let label = match marker.label {
            "." => {
                let count = counts.entry(marker.sign).or_default();
                *count += 1;
                format!("{count}.")
            }
            label => label.to_owned(),
        };
        self.open.push(marker.sign.to_owned());
        let mut inner: Vec<&str> = vec![marker.rest];
        let mut blocks = vec![];
        let mut end = at + 1;
        while let Some(line) = lines.get(end) {
            if line.is_empty() {
                // A list goes on after empty lines, if an item follows.
                let next = lines[end..].iter().position(|line| !line.is_empty());
                let is_deeper = next
                    .and_then(|next| marker::marker(lines[end + next]))
                    .is_some_and(|next| self.is_below(&marker, &next));
                if !is_deeper {
                    break;
                }
                end += next.unwrap_or(1);
                continue;
            }
            if *line == "+" {
                // What follows is a part of the item.
                let stop = attached(lines, end + 1);
                inner.push("");
                inner.extend(&lines[end + 1..stop]);
                inner.push("");
                end = stop;
                continue;
            }
            if let Some(next) = marker::marker(line) {
                if !self.is_below(&marker, &next) {
                    break;
                }
                let Some((deeper, stop)) = self.nested(lines, end, depth, &mut below) else {
                    break;
                };
                blocks.extend(deeper);
                end = stop;
                continue;
            }
            if is_silent(line) {
                end += 1;
                continue;
            }
            let next = lines.get(end + 1).and_then(|next| marker::marker(next));
            if line.starts_with('[') && next.is_some_and(|next| self.is_below(&marker, &next)) {
                // The style of a list.
                end += 1;
                continue;
            }
            if line.starts_with('[') || delimiter(line).is_some() {
                break;
            }
            inner.push(line.trim_start());
            end += 1;
        }
        self.open.pop();
        let mut read = match marker.term {
            Some(term) => vec![Block::Text(self.words(term))],
            None => vec![],
        };
        let mut own = self.blocks(&inner, depth + 1);
        if marker.term.is_none() {
            own.extend(blocks);
            own = item(&label, own);
        } else {
            own.extend(blocks);
        }
        read.extend(own);
        Some((read, end))
    }

    /// Returns true if an item belongs to the one that is open.
    fn is_below(&self, outer: &Marker, inner: &Marker) -> bool {
        let kind = |marker: &Marker| marker.sign.chars().next();
        let is_longer = kind(outer) != kind(inner) || inner.sign.len() > outer.sign.len();
        is_longer && !self.open.iter().any(|open| open == inner.sign)
    }

    fn nested<'t>(
        &mut self,
        lines: &[&'t str],
        at: usize,
        depth: usize,
        counts: &mut HashMap<&'t str, usize>,
    ) -> Option<(Vec<Block>, usize)> {
        if depth >= MAX_DEPTH {
            return Some((vec![Block::Text(lines[at].to_owned())], at + 1));
        }
        self.list(lines, at, depth + 1, counts)
    }

    fn paragraph(&mut self, lines: &[&str], at: usize, above: &Above) -> (Vec<Block>, usize) {
        let is_inside = |line: &&&str| !line.is_empty() && delimiter(line).is_none();
        let count = lines[at..].iter().take_while(is_inside).count().max(1);
        let end = at + count;
        let lines = &lines[at..end];
        let style = above.style.first().map_or("", String::as_str);
        let is_code = style == "source" || style == "listing" || lines[0].starts_with([' ', '\t']);
        if is_code {
            let language = above.style.get(1).cloned().unwrap_or_default();
            let text = super::dedented(lines).join("\n");
            return (vec![Block::Code { language, text }], end);
        }
        let shown = lines.iter().filter(|line| !is_silent(line));
        let text = shown.copied().collect::<Vec<_>>().join("\n");
        let notes = self.notes;
        let (words, below) = inline::plain(&text, &self.attributes, notes);
        self.notes += below.len();
        let mut blocks = vec![Block::Text(words)];
        blocks.extend(below.into_iter().map(Block::Text));
        if let Some(label) = admonition(style) {
            label_first(&mut blocks, label);
        }
        (blocks, end)
    }

    fn words(&self, text: &str) -> String {
        inline::plain(text.trim(), &self.attributes, 0).0
    }
}

/// Lines that are no text: comments, conditions, page breaks.
fn is_silent(line: &str) -> bool {
    let is_comment = line.starts_with("//") && !line.starts_with("///");
    let is_condition = ["ifdef::", "ifndef::", "ifeval::", "endif::", "toc::"]
        .iter()
        .any(|begin| line.starts_with(begin));
    is_comment || is_condition || matches!(line, "'''" | "---" | "***" | "<<<" | "* * *")
}

#[derive(Clone, Copy, PartialEq)]
enum Delimiter {
    Comment,
    Code,
    Fence,
    Table,
    Raw,
    Verse,
    Other,
}

fn delimiter(line: &str) -> Option<Delimiter> {
    if line.starts_with("```") {
        return Some(Delimiter::Fence);
    }
    if matches!(line, "|===" | ",===" | ":===" | "!===") {
        return Some(Delimiter::Table);
    }
    if line == "--" {
        return Some(Delimiter::Other);
    }
    let sign = line.chars().next()?;
    if line.len() < 4 || !line.chars().all(|c| c == sign) {
        return None;
    }
    match sign {
        '/' => Some(Delimiter::Comment),
        '-' | '.' => Some(Delimiter::Code),
        '+' => Some(Delimiter::Raw),
        '_' => Some(Delimiter::Verse),
        '=' | '*' => Some(Delimiter::Other),
        _ => None,
    }
}

fn admonition(style: &str) -> Option<&'static str> {
    let label = ["Note", "Tip", "Important", "Warning", "Caution"];
    label
        .into_iter()
        .find(|label| label.to_uppercase() == style)
}

fn label_first(blocks: &mut Vec<Block>, label: &str) {
    match blocks.first_mut() {
        Some(Block::Text(text)) => *text = format!("{label}: {text}"),
        _ => blocks.insert(0, Block::Text(format!("{label}:"))),
    }
}
