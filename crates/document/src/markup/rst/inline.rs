//! Markup inside of a paragraph.

use std::collections::HashMap;

/// Returns text without its markup: emphasis, literals, roles, references and substitutions.
pub fn plain(text: &str, substitutions: &HashMap<String, String>) -> String {
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    // An escaped space separates markup from a word, and is not shown.
    let mut is_apart = false;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix('\\') {
            // A space after it is no space.
            let escaped = after.chars().next();
            words.extend(escaped.filter(|c| !c.is_whitespace()));
            is_apart = escaped.is_some_and(char::is_whitespace);
            rest = after
                .get(escaped.map_or(0, char::len_utf8)..)
                .unwrap_or_default();
            continue;
        }
        if let Some((shown, after)) =
            marked(rest, if is_apart { "" } else { &words }, substitutions)
        {
            words.push_str(&shown);
            rest = after;
            is_apart = false;
            continue;
        }
        is_apart = false;
        // The end of the name of a reference.
        let is_reference = c == '_'
            && words.ends_with(|c: char| c.is_alphanumeric())
            && !rest[1..].starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '(');
        if !is_reference || is_in_name(&words) {
            words.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    words
}

/// Returns true for names of programs that end in a line: `__init_`.
fn is_in_name(words: &str) -> bool {
    words
        .split_whitespace()
        .next_back()
        .is_some_and(|word| word.contains('_'))
}

/// Reads what begins with a mark. Returns what is shown of it, and what follows.
fn marked<'a>(
    rest: &'a str,
    before: &str,
    substitutions: &HashMap<String, String>,
) -> Option<(String, &'a str)> {
    let is_open = !before.ends_with(|c: char| c.is_alphanumeric() || c == '\\');
    if !is_open {
        return None;
    }
    if let Some(inner) = rest.strip_prefix("``") {
        let (literal, after) = inner.split_once("``")?;
        return Some((literal.to_owned(), after));
    }
    if let Some(role) = rest.strip_prefix(':')
        && let Some((name, after)) = role.split_once(":`")
        && is_role(name)
    {
        let (text, after) = after.split_once('`')?;
        return Some((of_role(name, text), after));
    }
    for mark in ["**", "*", "_`", "`"] {
        let Some(inner) = rest.strip_prefix(mark) else {
            continue;
        };
        let close = if mark == "_`" { "`" } else { mark };
        let (text, after) = inner.split_once(close)?;
        if text.is_empty() || text.starts_with([' ', '\n']) || text.ends_with([' ', '\n']) {
            return None;
        }
        if !mark.contains('`') {
            return Some((text.to_owned(), after));
        }
        // The role may follow.
        if let Some(role) = after.strip_prefix(':')
            && let Some((name, after)) = role.split_once(':')
            && is_role(name)
        {
            return Some((of_role(name, text), after));
        }
        return Some((without_target(text), after.trim_start_matches('_')));
    }
    if let Some(inner) = rest.strip_prefix('[')
        && let Some((mark, after)) = inner.split_once("]_")
        && !mark.contains([' ', '[', ']'])
    {
        return Some((format!("[{}]", mark.trim_start_matches('#')), after));
    }
    let (name, after) = rest.strip_prefix('|')?.split_once('|')?;
    let shown = substitutions.get(name)?;
    Some((shown.clone(), after.trim_start_matches('_')))
}

fn is_role(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "-_+.:".contains(c);
    !name.is_empty() && name.len() <= 40 && name.chars().all(is_part)
}

fn of_role(name: &str, text: &str) -> String {
    match name.rsplit(':').next().unwrap_or(name) {
        "math" => super::super::tex::formula(text),
        "sup" | "superscript" => format!("^{}", crate::formula::grouped(text)),
        "sub" | "subscript" => format!("_{}", crate::formula::grouped(text)),
        _ => without_target(text)
            .trim_start_matches(['~', '!'])
            .to_owned(),
    }
}

/// Returns the words of `words <target>`.
fn without_target(text: &str) -> String {
    match text.rsplit_once('<') {
        Some((words, target)) if target.ends_with('>') && !words.trim().is_empty() => {
            words.trim().to_owned()
        }
        _ => text.trim_matches(['<', '>']).to_owned(),
    }
}
