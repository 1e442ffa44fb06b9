//! reStructuredText, with the directives of Sphinx.
//!
//! Sections are found by the lines below (and above) their titles. Directives that show what they
//! contain are read: code, admonitions, tables, figures, and descriptions of functions and
//! classes. Comments, targets of links and tables of contents are left out. Included files are not
//! read, which is a warning.

use std::collections::HashMap;

use super::{MAX_DEPTH, dedented, document, indent, item, numbered};
use crate::{DocumentError, ExtractedDocument, blocks::Block, html};

mod inline;
mod table;

pub use table::csv;

/// Signs of the lines below titles.
const UNDERLINES: &str = "=-`:'\"~^_*+#<>.!$%&(),/;?@[\\]{|}";

/// What has been found out about a file.
#[derive(Default)]
pub struct Reader {
    /// Kinds of section titles in the order of their first use: the level is the place.
    titles: Vec<(char, bool)>,
    substitutions: HashMap<String, String>,
    author: Option<String>,
    /// Number of files that the text includes.
    included: usize,
}

pub fn extract(file: &str, name: &str) -> Result<ExtractedDocument, DocumentError> {
    let lines: Vec<&str> = file.lines().collect();
    let mut reader = Reader {
        substitutions: substitutions(&lines),
        ..Reader::default()
    };
    let blocks = reader.blocks(&lines, 0);
    let author = reader.author.as_deref();
    Ok(document(&blocks, None, author, reader.included, name))
}

fn substitutions(lines: &[&str]) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for line in lines {
        if let Some(rest) = line.trim_start().strip_prefix(".. |")
            && let Some((name, rest)) = rest.split_once("| ")
            && let Some((kind, text)) = rest.trim().split_once("::")
        {
            let text = match kind {
                "replace" => text.trim(),
                _ => "",
            };
            found.insert(name.to_owned(), text.to_owned());
        }
    }
    found
}

impl Reader {
    pub fn blocks(&mut self, lines: &[&str], depth: usize) -> Vec<Block> {
        if depth > MAX_DEPTH {
            return vec![Block::Text(lines.join("\n"))];
        }
        let mut blocks = vec![];
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at];
            if line.trim().is_empty() {
                at += 1;
            } else if indent(line) > 0 {
                let end = end_of_indented(lines, at, 1);
                blocks.extend(self.blocks(&dedented(&lines[at..end]), depth + 1));
                at = end;
            } else if let Some((block, end)) = self.title(lines, at) {
                blocks.push(block);
                at = end;
            } else if line == ".." || line.starts_with(".. ") {
                let end = end_of_indented(lines, at + 1, 1);
                blocks.extend(self.explicit(&lines[at..end], depth));
                at = end;
            } else if let Some((read, end)) = self.body(lines, at, depth) {
                blocks.extend(read);
                at = end;
            } else {
                let (read, end) = self.paragraph(lines, at, depth);
                blocks.extend(read);
                at = end;
            }
        }
        blocks
    }

    /// Reads a section title, or a line that separates two parts.
    fn title(&mut self, lines: &[&str], at: usize) -> Option<(Block, usize)> {
        let is_free = |at: usize| lines.get(at).is_none_or(|line| line.trim().is_empty());
        if let Some(sign) = underline(lines[at]) {
            if let (Some(text), Some(below)) = (lines.get(at + 1), lines.get(at + 2))
                && underline(below) == Some(sign)
                && !text.trim().is_empty()
            {
                return Some((self.heading(text, sign, true), at + 3));
            }
            let is_line = lines[at].trim_end().len() >= 4 && is_free(at + 1);
            return is_line.then(|| (Block::Text(String::new()), at + 1));
        }
        let below = lines.get(at + 1)?;
        let sign = underline(below)?;
        let title = lines[at].trim_end();
        let is_long = below.trim_end().chars().count() >= title.chars().count().min(4);
        let is_alone = at == 0 || is_free(at - 1) || is_long;
        (is_long && is_alone).then(|| (self.heading(title, sign, false), at + 2))
    }

    fn heading(&mut self, text: &str, sign: char, is_over: bool) -> Block {
        let kind = (sign, is_over);
        let place = self.titles.iter().position(|known| *known == kind);
        let place = place.unwrap_or_else(|| {
            self.titles.push(kind);
            self.titles.len() - 1
        });
        Block::Heading {
            level: place + 1,
            text: self.words(text),
        }
    }

    fn words(&self, text: &str) -> String {
        inline::plain(text.trim(), &self.substitutions)
    }

    /// Reads lists, tables and lines of verse.
    fn body(&mut self, lines: &[&str], at: usize, depth: usize) -> Option<(Vec<Block>, usize)> {
        let line = lines[at];
        if let Some((rows, end)) = table::grid(lines, at).or_else(|| table::simple(lines, at)) {
            let rows = rows.iter().map(|row| self.cells(row)).collect();
            return Some((vec![Block::Table(rows)], end));
        }
        if line.starts_with("| ") || line == "|" {
            let is_verse = |line: &&&str| line.starts_with("| ") || **line == "|";
            let count = lines[at..].iter().take_while(is_verse).count();
            let verse = lines[at..at + count]
                .iter()
                .map(|line| self.words(&line[1..]));
            let verse: Vec<String> = verse.collect();
            return Some((vec![Block::Text(verse.join("\n"))], at + count));
        }
        if line.starts_with(">>> ") {
            let count = lines[at..]
                .iter()
                .take_while(|line| !line.trim().is_empty());
            let end = at + count.count();
            return Some((vec![code("python", &lines[at..end])], end));
        }
        if let Some((name, rest)) = field(line) {
            let end = end_of_indented(lines, at + 1, 1);
            let value = [&[rest], &lines[at + 1..end]].concat();
            let value: Vec<&str> = value.iter().map(|line| line.trim()).collect();
            let value = self.words(&value.join(" "));
            if name.eq_ignore_ascii_case("author") {
                self.author.get_or_insert(value.clone());
            }
            // Without a value it is a message to a program.
            let text = if value.is_empty() {
                value
            } else {
                format!("{name}: {value}")
            };
            return Some((vec![Block::Text(text)], end));
        }
        let (label, marker) = marker(line)?;
        let end = end_of_indented(lines, at + 1, marker.min(2));
        let mut inner = vec![line.get(marker..).unwrap_or_default().trim_start()];
        inner.extend(dedented(&lines[at + 1..end]));
        // An empty line between the first line and the rest is lost by that.
        let is_apart = lines.get(at + 1).is_some_and(|line| line.trim().is_empty());
        if is_apart {
            inner.insert(1, "");
        }
        let inner = self.blocks(&inner, depth + 1);
        Some((item(label, inner), end))
    }

    fn cells(&self, row: &[String]) -> Vec<String> {
        row.iter().map(|cell| self.words(cell)).collect()
    }

    /// Reads a paragraph, with the code or the definition that follows.
    fn paragraph(&mut self, lines: &[&str], at: usize, depth: usize) -> (Vec<Block>, usize) {
        let is_inside = |line: &&&str| !line.trim().is_empty() && indent(line) == 0;
        let count = lines[at..].iter().take_while(is_inside).count().max(1);
        let end = at + count;
        let text = lines[at..end].join("\n");
        let next = lines[end..].iter().position(|line| !line.trim().is_empty());
        let is_code = text.trim_end().ends_with("::")
            && next.is_some_and(|next| indent(lines[end + next]) > 0);
        if is_code {
            let last = end_of_indented(lines, end, 1);
            let text = text.trim_end().trim_end_matches(':');
            let is_sign = text.is_empty() || text.ends_with([' ', '\n']);
            let words = self.words(&format!("{text}{}", if is_sign { "" } else { ":" }));
            return (vec![Block::Text(words), code("", &lines[end..last])], last);
        }
        let mut blocks = vec![Block::Text(self.words(&text))];
        let is_term = next == Some(0) && indent(lines[end]) > 0;
        let mut last = end;
        if is_term {
            last = end_of_indented(lines, end, 1);
            blocks.extend(self.blocks(&dedented(&lines[end..last]), depth + 1));
        }
        (blocks, last)
    }

    /// Reads what begins with two dots.
    fn explicit(&mut self, lines: &[&str], depth: usize) -> Vec<Block> {
        let first = lines[0].get(2..).unwrap_or_default().trim();
        if let Some((name, rest)) = first
            .strip_prefix('[')
            .and_then(|note| note.split_once(']'))
            && !name.contains(' ')
        {
            let mark = name.trim_start_matches('#');
            let rest = [&[rest], &lines[1..]].concat();
            let text: Vec<&str> = rest.iter().map(|line| line.trim()).collect();
            let text = self.words(&text.join(" "));
            return vec![Block::Text(format!("[{mark}] {text}"))];
        }
        let Some((name, argument)) = first.split_once("::") else {
            return vec![];
        };
        let is_name = |c: char| c.is_alphanumeric() || "-_:+.".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return vec![];
        }
        let mut body = dedented(&lines[1..]);
        let mut options: HashMap<String, String> = HashMap::new();
        while let Some((name, value)) = body.first().and_then(|line| field(line)) {
            options.insert(name.to_owned(), value.trim().to_owned());
            body.remove(0);
        }
        let body = dedented(&body);
        self.directive(name, argument.trim(), &options, &body, depth + 1)
    }

    fn directive(
        &mut self,
        name: &str,
        argument: &str,
        options: &HashMap<String, String>,
        body: &[&str],
        depth: usize,
    ) -> Vec<Block> {
        let title = |reader: &Self| Block::Text(reader.words(argument));
        match name.rsplit(':').next().unwrap_or(name) {
            "code" | "code-block" | "sourcecode" | "parsed-literal" | "doctest" | "ipython"
            | "prompt" | "console" => vec![code(argument, body)],
            "math" => {
                let lines = [&[argument], body].concat();
                vec![Block::Text(super::tex::formula(&lines.join(" ")))]
            }
            "image" | "figure" => {
                let alt = options.get("alt").cloned().unwrap_or_default();
                let mut blocks = vec![Block::Text(alt)];
                blocks.extend(self.blocks(body, depth));
                blocks
            }
            "include" | "literalinclude" | "csv-table" if body.is_empty() => {
                self.included += 1;
                vec![]
            }
            "csv-table" => {
                let header = options.get("header").map(|line| table::csv(line));
                let rows = body.iter().map(|line| table::csv(line));
                let rows = header.into_iter().chain(rows).map(|row| self.cells(&row));
                let rows = rows.collect();
                vec![title(self), Block::Table(rows)]
            }
            "list-table" => {
                let rows = table::lists(body)
                    .iter()
                    .map(|row| self.cells(row))
                    .collect();
                vec![title(self), Block::Table(rows)]
            }
            "toctree" | "contents" | "index" | "meta" | "role" | "default-role" | "highlight"
            | "currentmodule" | "sectnum" | "section-numbering" | "tabularcolumns" | "replace"
            | "unicode" | "date" | "include" | "target-notes" | "comment" | "autosummary"
            | "automodule" | "autoclass" | "autofunction" => vec![],
            "rst-class" | "container" => self.blocks(body, depth),
            "raw" if argument == "html" => {
                let page = html::extract(&body.join("\n"), "raw").ok();
                page.map(|page| Block::Markdown(page.text))
                    .into_iter()
                    .collect()
            }
            "raw" => vec![],
            "note" | "warning" | "tip" | "important" | "caution" | "danger" | "attention"
            | "error" | "hint" | "seealso" | "todo" | "versionadded" | "versionchanged"
            | "deprecated" => {
                let label = match name {
                    "seealso" => "See also".to_owned(),
                    "versionadded" => format!("Added in version {argument}"),
                    "versionchanged" => format!("Changed in version {argument}"),
                    "deprecated" => format!("Deprecated since version {argument}"),
                    name => name[..1].to_uppercase() + &name[1..],
                };
                let is_version = label.contains("version ");
                let first = if is_version { "" } else { argument };
                let lines = [&[first], body].concat();
                let mut inner = self.blocks(&lines, depth);
                match inner.first_mut() {
                    Some(Block::Text(text)) => *text = format!("{label}: {text}"),
                    _ => inner.insert(0, Block::Text(format!("{label}:"))),
                }
                inner
            }
            // What others show: the heads of functions, titles of boxes, and what is in them.
            _ => [vec![title(self)], self.blocks(body, depth)].concat(),
        }
    }
}

/// Returns the sign of a line that has only that sign.
fn underline(line: &str) -> Option<char> {
    let line = line.trim_end();
    let sign = line
        .chars()
        .next()
        .filter(|sign| UNDERLINES.contains(*sign))?;
    (line.len() >= 2 && line.chars().all(|c| c == sign)).then_some(sign)
}

/// Returns the place at which lines are indented less, or the end.
fn end_of_indented(lines: &[&str], at: usize, columns: usize) -> usize {
    let is_inside = |line: &&&str| line.trim().is_empty() || indent(line) >= columns;
    let mut end = at
        + lines[at.min(lines.len())..]
            .iter()
            .take_while(is_inside)
            .count();
    while end > at && lines[end - 1].trim().is_empty() {
        end -= 1;
    }
    end
}

/// Reads `:name: value`.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix(':')?.split_once(':')?;
    let is_field = !name.is_empty()
        && !name.starts_with([' ', '`'])
        && (value.is_empty() || value.starts_with(' '));
    is_field.then_some((name, value))
}

/// Returns the label of an item, and the length of its marker.
fn marker(line: &str) -> Option<(&str, usize)> {
    let bullet = line.strip_prefix(['-', '*', '+', '•', '‣', '⁃']);
    if let Some(rest) = bullet {
        let length = line.len() - rest.len();
        return (rest.is_empty() || rest.starts_with(' ')).then_some(("", length));
    }
    let (label, _) = numbered(line)?;
    let length = label.len();
    Some((if label.contains('#') { "" } else { label }, length))
}

fn code(language: &str, lines: &[&str]) -> Block {
    Block::Code {
        language: language
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned(),
        text: dedented(lines).join("\n"),
    }
}
