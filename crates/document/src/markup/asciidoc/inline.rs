//! Markup inside of a paragraph.

use std::collections::HashMap;

use super::super::MAX_DEPTH;
use crate::formula::grouped;

/// Returns text without its markup, and the footnotes in it, which are counted from a number.
pub fn plain(
    text: &str,
    attributes: &HashMap<String, String>,
    notes: usize,
) -> (String, Vec<String>) {
    inside(text, attributes, notes, 0)
}

fn inside(
    text: &str,
    attributes: &HashMap<String, String>,
    notes: usize,
    depth: usize,
) -> (String, Vec<String>) {
    if depth > MAX_DEPTH {
        return (text.to_owned(), vec![]);
    }
    let mut words = String::with_capacity(text.len());
    let mut below = vec![];
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((shown, after)) = raw(rest, attributes, &words)
            .or_else(|| footnote(rest, attributes, notes + below.len(), depth + 1, &mut below))
            .or_else(|| macro_of(rest, attributes, &words, depth + 1))
            .or_else(|| marked(rest, attributes, &words, depth + 1))
        {
            words.push_str(&shown);
            rest = after;
            continue;
        }
        let is_break = rest.starts_with(" +\n") || rest == " +";
        match is_break {
            true => rest = rest[2..].trim_start_matches('\n'),
            false => rest = &rest[c.len_utf8()..],
        }
        words.push(if is_break { '\n' } else { c });
    }
    (words, below)
}

/// Reads escapes, attributes, and what is written as it is.
fn raw<'a>(
    rest: &'a str,
    attributes: &HashMap<String, String>,
    before: &str,
) -> Option<(String, &'a str)> {
    if let Some(after) = rest.strip_prefix('\\') {
        let sign = after
            .chars()
            .next()
            .filter(|c| "*_`#+^~{<[:'\"h".contains(*c))?;
        return Some((sign.to_string(), &after[sign.len_utf8()..]));
    }
    if let Some(inner) = rest.strip_prefix('{') {
        let (name, after) = inner.split_once('}')?;
        let shown = match name {
            "nbsp" | "sp" | "empty" | "zwsp" => if name == "nbsp" { " " } else { "" }.to_owned(),
            "amp" => "&".to_owned(),
            "lt" => "<".to_owned(),
            "gt" => ">".to_owned(),
            name => attributes.get(&name.to_lowercase())?.clone(),
        };
        return Some((shown, after));
    }
    for mark in ["+++", "++", "``"] {
        if let Some((inner, after)) = rest.strip_prefix(mark).and_then(|r| r.split_once(mark))
            && !inner.is_empty()
        {
            return Some((inner.to_owned(), after));
        }
    }
    if let Some(inner) = rest.strip_prefix("\"`")
        && let Some((words, after)) = inner.split_once("`\"")
    {
        return Some((format!("“{words}”"), after));
    }
    if rest.starts_with("[[")
        && let Some((_, after)) = rest.split_once("]]")
    {
        return Some((String::new(), after));
    }
    // Words with a style.
    let inner = rest
        .strip_prefix('[')
        .filter(|_| !before.ends_with(char::is_alphanumeric))?;
    let (role, after) = inner.split_once(']')?;
    let is_role = role.starts_with(['.', '#']) && after.starts_with(['#', '*', '_', '`']);
    is_role.then(|| (String::new(), after))
}

fn footnote<'a>(
    rest: &'a str,
    attributes: &HashMap<String, String>,
    before: usize,
    depth: usize,
    below: &mut Vec<String>,
) -> Option<(String, &'a str)> {
    let inner = rest.strip_prefix("footnote:")?;
    let (_, inner) = inner.split_once('[')?;
    let (text, after) = bracketed(inner)?;
    if text.is_empty() {
        return Some((String::new(), after));
    }
    let mark = format!("[^{}]", before + 1);
    let words = inside(text, attributes, 0, depth).0;
    below.push(format!("{mark}: {words}"));
    Some((mark, after))
}

/// Returns the text up to the bracket that closes it.
fn bracketed(inner: &str) -> Option<(&str, &str)> {
    let mut depth = 1usize;
    for (at, c) in inner.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&inner[..at], &inner[at + 1..]));
        }
        if at > 5000 {
            return None;
        }
    }
    None
}

/// Reads links, references, pictures and names of keys.
fn macro_of<'a>(
    rest: &'a str,
    attributes: &HashMap<String, String>,
    before: &str,
    depth: usize,
) -> Option<(String, &'a str)> {
    if let Some(inner) = rest.strip_prefix("<<") {
        let (target, after) = inner.split_once(">>")?;
        let words = target.split_once(',').map_or(target, |(_, words)| words);
        return Some((words.trim().trim_start_matches('#').to_owned(), after));
    }
    if before.ends_with(|c: char| c.is_alphanumeric() || c == ':') {
        return None;
    }
    const NAMES: [&str; 17] = [
        "https://",
        "http://",
        "ftp://",
        "mailto:",
        "link:",
        "xref:",
        "image::",
        "image:",
        "kbd:",
        "btn:",
        "menu:",
        "stem:",
        "latexmath:",
        "asciimath:",
        "pass:",
        "anchor:",
        "icon:",
    ];
    let name = NAMES.into_iter().find(|name| rest.starts_with(name))?;
    let inner = &rest[name.len()..];
    let stop = inner.find(|c: char| c.is_whitespace() || matches!(c, '[' | '<' | '>' | ']'));
    let at = stop.filter(|at| inner[*at..].starts_with('['))?;
    let (target, text) = (&inner[..at], &inner[at + 1..]);
    let (text, after) = bracketed(text)?;
    let first = text
        .split(',')
        .next()
        .unwrap_or_default()
        .trim_matches(['"', '^', ' ']);
    let words = match name {
        "image::" | "image:" => first.strip_prefix("alt=").unwrap_or(first).to_owned(),
        "anchor:" | "icon:" => String::new(),
        "stem:" | "latexmath:" | "asciimath:" => super::super::tex::formula(text),
        "menu:" => [target, text].map(str::trim).join(" > "),
        "kbd:" | "btn:" | "pass:" => text.to_owned(),
        // Names of a window or a role may follow.
        _ if !first.is_empty() && !first.contains('=') => {
            let is_whole = !text.contains("window=") && !text.contains("role=");
            let words = if is_whole {
                text.trim_matches(['"', '^'])
            } else {
                first
            };
            inside(words, attributes, 0, depth).0
        }
        _ => match name.ends_with('/') {
            true => format!("{name}{target}"),
            false => target.to_owned(),
        },
    };
    Some((words, after))
}

/// Reads words between two marks.
fn marked<'a>(
    rest: &'a str,
    attributes: &HashMap<String, String>,
    before: &str,
    depth: usize,
) -> Option<(String, &'a str)> {
    for mark in ["**", "__", "##"] {
        if let Some((inner, after)) = rest.strip_prefix(mark).and_then(|r| r.split_once(mark))
            && !inner.trim().is_empty()
            && !inner.contains('\n')
        {
            return Some((inner.to_owned(), after));
        }
    }
    let mark = rest.chars().next().filter(|c| "*_`#^~+".contains(*c))?;
    let inner = &rest[1..];
    let end = inner.find(mark)?;
    let (words, after) = (&inner[..end], &inner[end + 1..]);
    if words.is_empty() || words.len() > 1000 || words.trim() != words {
        return None;
    }
    match mark {
        '^' | '~' if words.contains(char::is_whitespace) => return None,
        '^' => return Some((format!("^{}", grouped(words)), after)),
        '~' => return Some((format!("_{}", grouped(words)), after)),
        _ => {}
    }
    let is_alone = !before.ends_with(|c: char| c.is_alphanumeric() || c == mark)
        && !after.starts_with(|c: char| c.is_alphanumeric() || c == mark);
    if !is_alone {
        return None;
    }
    let words = match mark {
        '`' | '+' => words.trim_matches('+').to_owned(),
        // Other marks may be inside.
        _ => inside(words, attributes, 0, depth).0,
    };
    Some((words, after))
}
