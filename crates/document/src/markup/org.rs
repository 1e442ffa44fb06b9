//! Org, the format of Emacs.
//!
//! Headings, lists, tables, blocks of code and footnotes are read. Settings, drawers, comments and
//! formulas of tables are left out. Files that the text includes are not read, which is a warning.

use super::{MAX_DEPTH, dedented, document, indent, item, numbered};
use crate::{DocumentError, ExtractedDocument, blocks::Block, html};

#[derive(Default)]
struct Reader {
    title: Option<String>,
    author: Option<String>,
    /// Number of files that the text includes.
    included: usize,
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
        let mut blocks = vec![];
        // A drawer that is not closed is a line of text.
        let is_end = |line: &&str| line.trim().eq_ignore_ascii_case(":end:");
        let last_end = lines.iter().rposition(is_end);
        let mut at = 0;
        while let Some(line) = lines.get(at).copied() {
            let words = line.trim_start();
            let end = if words.is_empty() || words == "#" || words.starts_with("# ") {
                at + 1
            } else if let Some((level, text)) = heading(line).filter(|_| depth == 0) {
                let text = plain(text);
                blocks.push(Block::Heading { level, text });
                at + 1
            } else if let Some(rest) = words.strip_prefix("#+") {
                self.keyword(rest, lines, at, depth, &mut blocks)
            } else if is_drawer(words) && last_end.is_some_and(|last| last > at) {
                match lines[at..].iter().position(is_end) {
                    Some(length) => at + length + 1,
                    None => at + 1,
                }
            } else if words.starts_with('|') {
                let is_row = |line: &&&str| line.trim_start().starts_with('|');
                let count = lines[at..].iter().take_while(is_row).count();
                blocks.push(table(&lines[at..at + count]));
                at + count
            } else if words == ":" || words.starts_with(": ") {
                let is_fixed = |line: &&&str| {
                    let words = line.trim_start();
                    words == ":" || words.starts_with(": ")
                };
                let count = lines[at..].iter().take_while(is_fixed).count();
                let text = lines[at..at + count].iter();
                let text = text.map(|line| line.trim_start()[1..].strip_prefix(' ').unwrap_or(""));
                blocks.push(code("", text.collect::<Vec<_>>().join("\n")));
                at + count
            } else if let Some((label, rest)) = marker(line) {
                let columns = indent(line);
                let end = end_of_item(lines, at + 1, columns);
                // A term has its description behind two colons.
                let rest = match label.is_empty() {
                    true => rest.replacen(" :: ", ": ", 1),
                    false => rest.to_owned(),
                };
                let mut inner = vec![&*rest];
                // An empty line between the first line and the rest is lost by that.
                let is_apart = lines.get(at + 1).is_some_and(|line| line.is_empty());
                inner.extend(is_apart.then_some(""));
                inner.extend(dedented(&lines[at + 1..end]));
                blocks.extend(item(label, self.blocks(&inner, depth + 1)));
                end
            } else {
                let is_inside = |line: &&&str| !line.is_empty() && !begins(line, depth);
                let count = 1 + lines[at + 1..].iter().take_while(is_inside).count();
                let text = lines[at..at + count].iter().map(|line| line.trim_start());
                let text = text.collect::<Vec<_>>().join("\n");
                let text = match text
                    .strip_prefix("[fn:")
                    .and_then(|rest| rest.split_once(']'))
                {
                    Some((name, note)) => format!("[^{name}]: {}", plain(note.trim())),
                    None => plain(&text),
                };
                let is_rule = text.len() >= 5 && text.bytes().all(|b| b == b'-');
                blocks.extend((!is_rule).then_some(Block::Text(text)));
                at + count
            };
            at = end;
        }
        blocks
    }

    /// Reads what begins with `#+`. Returns its end.
    fn keyword(
        &mut self,
        rest: &str,
        lines: &[&str],
        at: usize,
        depth: usize,
        blocks: &mut Vec<Block>,
    ) -> usize {
        let lower = rest.to_lowercase();
        if let Some(kind) = lower.strip_prefix("begin_") {
            let kind = kind.split_whitespace().next().unwrap_or_default();
            let close = format!("#+end_{kind}");
            let inner = &lines[at + 1..];
            let is_end = |line: &&str| line.trim().to_lowercase() == close;
            let length = inner.iter().position(is_end).unwrap_or(inner.len());
            let inner = &inner[..length];
            let argument = rest.split_whitespace().nth(1).unwrap_or_default();
            let unescaped = || {
                let lines = dedented(inner);
                // A comma protects lines that Org would read.
                let lines = lines.iter().map(|line| match line.strip_prefix(',') {
                    Some(rest) if rest.starts_with(['*', '#', ',']) => rest,
                    _ => line,
                });
                lines.collect::<Vec<_>>().join("\n")
            };
            match kind {
                "src" => blocks.push(code(argument, unescaped())),
                "example" => blocks.push(code("", unescaped())),
                "comment" => {}
                "export" if argument.eq_ignore_ascii_case("html") => {
                    let page = html::extract(&inner.join("\n"), "export").ok();
                    blocks.extend(page.map(|page| Block::Markdown(page.text)));
                }
                "export" => {}
                "verse" => blocks.push(Block::Text(plain(&unescaped()))),
                _ => blocks.extend(self.blocks(&dedented(inner), depth + 1)),
            }
            return (at + length + 2).min(lines.len());
        }
        let (name, value) = rest.split_once(':').unwrap_or((rest, ""));
        let value = plain(value.trim());
        match name.to_lowercase().as_str() {
            "title" => {
                let title = self.title.get_or_insert_default();
                if !title.is_empty() {
                    title.push(' ');
                }
                title.push_str(&value);
            }
            "author" => self.author = Some(value),
            "caption" | "subtitle" => blocks.push(Block::Text(value)),
            "include" => self.included += 1,
            _ => {}
        }
        at + 1
    }
}

/// Returns true for a line that ends the paragraph above it.
fn begins(line: &str, depth: usize) -> bool {
    let words = line.trim_start();
    words.starts_with("#+")
        || words.starts_with('|')
        || words.starts_with("[fn:") && !line.starts_with(' ')
        || is_drawer(words)
        || marker(line).is_some()
        || depth == 0 && heading(line).is_some()
}

/// Returns the level and the words of a heading, without tags and priority.
fn heading(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches('*');
    let level = line.len() - rest.len();
    if level == 0 || !rest.starts_with(' ') {
        return None;
    }
    let mut words = rest.trim();
    if let Some((before, tags)) = words.rsplit_once([' ', '\t']) {
        let is_tag = |c: char| c.is_alphanumeric() || "_@#%:".contains(c);
        if tags.len() > 2
            && tags.starts_with(':')
            && tags.ends_with(':')
            && tags.chars().all(is_tag)
        {
            words = before.trim_end();
        }
    }
    if let Some((_, after)) = words
        .strip_prefix("[#")
        .and_then(|rest| rest.split_once("] "))
    {
        words = after;
    }
    Some((level, words))
}

fn is_drawer(words: &str) -> bool {
    let name = words
        .strip_prefix(':')
        .and_then(|rest| rest.strip_suffix(':'));
    let is_part = |c: char| c.is_alphanumeric() || "-_".contains(c);
    name.is_some_and(|name| !name.is_empty() && name.chars().all(is_part))
}

/// Returns the label of an item, and its words without a box.
fn marker(line: &str) -> Option<(&str, &str)> {
    let words = line.trim_start();
    let bullet = words.strip_prefix(['-', '+']).or_else(|| {
        // At the margin it is a heading.
        words.strip_prefix('*').filter(|_| words.len() < line.len())
    });
    let (label, rest) = match bullet {
        Some(rest) => ("", rest),
        None => numbered(words).filter(|(label, _)| !label.starts_with('('))?,
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start();
    let boxes = ["[X] ", "[ ] ", "[-] "];
    let rest = boxes
        .iter()
        .find_map(|sign| rest.strip_prefix(sign))
        .unwrap_or(rest);
    Some((label, rest))
}

/// Returns the place at which an item ends: a line that is not indented more, or two empty lines.
fn end_of_item(lines: &[&str], at: usize, columns: usize) -> usize {
    let mut end = at;
    let mut empty = 0;
    for (i, line) in lines.iter().enumerate().skip(at) {
        if line.is_empty() {
            empty += 1;
            if empty == 2 {
                break;
            }
            continue;
        }
        if indent(line) <= columns {
            break;
        }
        empty = 0;
        end = i + 1;
    }
    end
}

fn table(lines: &[&str]) -> Block {
    let rows = lines
        .iter()
        .filter(|line| !line.trim_start().starts_with("|-"));
    let row = |line: &&str| {
        let line = line.trim();
        let inner = line[1..].strip_suffix('|').unwrap_or(&line[1..]);
        inner
            .split('|')
            .map(|cell| plain(cell.trim()).replace("\\vert", "|"))
            .collect()
    };
    Block::Table(rows.map(row).collect())
}

fn code(language: &str, text: String) -> Block {
    Block::Code {
        language: language.to_owned(),
        text,
    }
}

/// Returns text without its markup.
fn plain(text: &str) -> String {
    inside(text, 0)
}

/// Returns text without its markup, which is inside of other markup.
fn inside(text: &str, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return text.to_owned();
    }
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((shown, after)) = marked(rest, &words, depth + 1) {
            words.push_str(&shown);
            rest = after;
            continue;
        }
        words.push(c);
        rest = &rest[c.len_utf8()..];
    }
    words
}

fn marked<'a>(rest: &'a str, before: &str, depth: usize) -> Option<(String, &'a str)> {
    if let Some(inner) = rest.strip_prefix("[[") {
        let (link, after) = inner.split_once("]]")?;
        let shown = match link.split_once("][") {
            Some((_, words)) => inside(words, depth),
            None => {
                let is_picture = [".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp"];
                match is_picture.iter().any(|end| link.ends_with(end)) {
                    true => String::new(),
                    false => link.trim_start_matches("file:").to_owned(),
                }
            }
        };
        return Some((shown, after));
    }
    if let Some(inner) = rest.strip_prefix("[fn:") {
        let (name, after) = inner.split_once(']')?;
        return Some(match name.split_once(':') {
            Some((_, note)) => (format!(" ({})", note.trim()), after),
            None => (format!("[^{name}]"), after),
        });
    }
    for (open, close) in [("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$")] {
        if let Some((formula, after)) = rest.strip_prefix(open).and_then(|r| r.split_once(close)) {
            return Some((super::tex::formula(formula), after));
        }
    }
    for sign in ["^{", "_{"] {
        if let Some((script, after)) = rest.strip_prefix(sign).and_then(|r| r.split_once('}'))
            && before.ends_with(|c: char| c.is_alphanumeric() || c == ')')
        {
            let shown = crate::formula::grouped(script);
            return Some((format!("{}{shown}", &sign[..1]), after));
        }
    }
    if let Some(after) = rest.strip_prefix("\\\\") {
        return Some(("\n".into(), after.trim_start_matches('\n')));
    }
    let is_alone = before.is_empty()
        || before.ends_with(|c: char| c.is_whitespace() || "-–—('\"{".contains(c));
    let mark = rest
        .chars()
        .next()
        .filter(|c| is_alone && "*/_=~+".contains(*c))?;
    let inner = &rest[1..];
    // The end is not inside of a word.
    let mut from = 0;
    let end = loop {
        let at = from + inner.get(from..)?.find(mark)?;
        let follows = inner[at + 1..].chars().next();
        let is_end = follows.is_none_or(|c| c.is_whitespace() || "-–—.,;:!?'\")}[\\".contains(c));
        if is_end && at > 0 && !inner[..at].ends_with(char::is_whitespace) {
            break at;
        }
        from = at + 1;
        if from > 2000 {
            return None;
        }
    };
    let words = &inner[..end];
    if words.starts_with(char::is_whitespace) || words.matches('\n').count() > 1 {
        return None;
    }
    let words = if matches!(mark, '=' | '~') {
        words.to_owned()
    } else {
        inside(words, depth)
    };
    Some((words, &inner[end + 1..]))
}
