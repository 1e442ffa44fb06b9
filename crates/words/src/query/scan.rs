//! Divides a query into words, clauses and OR.

use std::ops::Range;

use super::{MAX_SLOP, Node, Occur};
use crate::class::{Class, class_at};

/// Least number of characters that `-` excludes, and that `+` requires.
const EXCLUDED: usize = 3;
const REQUIRED: usize = 2;
/// Least number of letters and digits before `*`, and before `~`.
const PREFIX: usize = 2;
const TYPO: usize = 3;

/// A piece of a query between blanks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<'t> {
    pub range: Range<usize>,
    pub kind: Kind<'t>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'t> {
    Word,
    Clause(Occur, Node<'t>),
    Or,
}

/// Returns the pieces of a query.
pub fn items(text: &str) -> Vec<Item<'_>> {
    let mut items = vec![];
    let mut at = 0;
    loop {
        at += blanks(&text[at..]);
        if at == text.len() {
            return items;
        }
        let (bytes, kind) = item(&text[at..]);
        items.push(Item {
            range: at..at + bytes,
            kind,
        });
        at += bytes;
    }
}

/// Returns the number of bytes of the blanks that a text begins with.
pub fn blanks(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// Reads the piece that a text begins with. Returns the number of its bytes.
pub fn item(text: &str) -> (usize, Kind<'_>) {
    let (occur, rest) = match text.as_bytes()[0] {
        b'+' => (Some(Occur::Must), &text[1..]),
        b'-' => (Some(Occur::MustNot), &text[1..]),
        _ => (None, text),
    };
    let sign = text.len() - rest.len();
    if let Some((bytes, node)) = phrase(rest) {
        let occur = occur.unwrap_or(Occur::Must);
        return (sign + bytes, Kind::Clause(occur, node));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end, run(&text[..end], &text[sign..end], occur))
}

/// Reads a piece without quotation marks. `rest` is the piece without its sign.
fn run<'t>(piece: &'t str, rest: &'t str, occur: Option<Occur>) -> Kind<'t> {
    if piece == "OR" {
        return Kind::Or;
    }
    let node = pattern(rest).or_else(|| {
        let least = if occur == Some(Occur::MustNot) {
            EXCLUDED
        } else {
            REQUIRED
        };
        occur?;
        let word = rest.trim_end_matches(['.', ',', ';', ':', '!', '?']);
        is_word(word, least).then_some(Node::Words(word))
    });
    match node {
        Some(node) => Kind::Clause(occur.unwrap_or(Occur::Should), node),
        None => Kind::Word,
    }
}

/// Returns true if a text is one word that begins with a letter, perhaps with signs in it.
fn is_word(text: &str, least: usize) -> bool {
    let begins = text.chars().next().is_some_and(char::is_alphabetic);
    begins && has_word_signs(text) && is_long(text, least)
}

/// Returns true if a text has so many characters, or one in a script in which that is a word.
fn is_long(text: &str, least: usize) -> bool {
    let (class, _) = class_at(text, 0);
    text.chars().nth(least - 1).is_some() || !class.is_spaced()
}

fn has_word_signs(text: &str) -> bool {
    text.chars()
        .all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.@&'#+".contains(c))
}

/// Reads a prefix, or a word that may be misspelled.
fn pattern(text: &str) -> Option<Node<'_>> {
    if let Some(word) = text.strip_suffix('*') {
        return is_pattern(word, PREFIX).then_some(Node::Prefix(word));
    }
    let (word, edits) = match text.as_bytes() {
        [.., b'~'] => (&text[..text.len() - 1], None),
        [.., b'~', digit @ b'1'..=b'2'] => (&text[..text.len() - 2], Some(digit - b'0')),
        _ => return None,
    };
    is_pattern(word, TYPO).then_some(Node::Typo { text: word, edits })
}

/// Returns true if a text is a word with so many letters and digits at its end.
fn is_pattern(text: &str, least: usize) -> bool {
    let begins = text.chars().next().is_some_and(char::is_alphanumeric);
    let is_letter = |c: &char| {
        let mut bytes = [0; 4];
        let (class, _) = class_at(c.encode_utf8(&mut bytes), 0);
        class != Class::Sign
    };
    begins && has_word_signs(text) && text.chars().rev().take_while(is_letter).count() >= least
}

/// Reads the phrase that a text begins with, and `~3` after it. Returns the number of its bytes.
fn phrase(text: &str) -> Option<(usize, Node<'_>)> {
    let first = text.chars().next().filter(|c| "\"“„".contains(*c))?;
    let start = first.len_utf8();
    let closing = if first == '"' {
        &['"'][..]
    } else {
        &['"', '“', '”']
    };
    let end = start + text[start..].find(closing)?;
    let after = end + text[end..].chars().next()?.len_utf8();
    let (bytes, slop) = slop(&text[after..]);
    let after = after + bytes;
    let next = text[after..].chars().next();
    if next.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let text = &text[start..end];
    Some((after, Node::Phrase { text, slop }))
}

/// Reads `~3`. Returns the number of its bytes.
fn slop(text: &str) -> (usize, u32) {
    let Some(rest) = text.strip_prefix('~') else {
        return (0, 0);
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return (0, 0);
    }
    let number = rest[..digits].parse().unwrap_or(MAX_SLOP);
    (1 + digits, number.min(MAX_SLOP))
}
