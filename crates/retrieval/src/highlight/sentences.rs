//! Where sentences of a text begin and end, roughly: by signs and lines, without a language.
//!
//! Unicode's rules (UAX 29) end a sentence with each line, after `J.` in `J. Smith`, and after a
//! question in quotation marks: what is shown of a text would begin there.

use std::ops::Range;

/// Returns the sentences of a text, without the white space around them. Headings, elements of
/// lists and rows of tables are sentences, too.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences = vec![];
    let mut start = 0;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        if ends_sentence(text, at, c) {
            push(&mut sentences, text, start..end);
            start = end;
        }
    }
    push(&mut sentences, text, start..text.len());
    sentences
}

fn push(sentences: &mut Vec<Range<usize>>, text: &str, range: Range<usize>) {
    let range = trimmed(text, range);
    if !range.is_empty() {
        sentences.push(range);
    }
}

/// Returns a range of a text without white space at its ends.
pub fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.end - part.trim_start().len();
    let end = range.start + part.trim_end().len();
    start.min(end)..end
}

/// Returns true if a sentence ends with the character at a place.
fn ends_sentence(text: &str, at: usize, c: char) -> bool {
    let rest = &text[at + c.len_utf8()..];
    if c == '\n' {
        return begins_block(rest);
    }
    if matches!(c, '。' | '！' | '？' | '।' | '։' | '።') {
        return !rest.starts_with(['」', '』', '）', '”', '’', '。', '！', '？']);
    }
    let before = &text[..at];
    let is_end = |c: char| matches!(c, '.' | '!' | '?' | '…' | '؟' | '。' | '！' | '？');
    let is_closing = |c: char| {
        matches!(
            c,
            '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '」' | '』' | '）'
        )
    };
    let ends = if is_closing(c) {
        before.ends_with(is_end)
    } else {
        is_end(c) && !(c == '.' && is_abbreviated(before))
    };
    let mut next = rest.chars();
    ends && next.next().is_none_or(char::is_whitespace)
        && !rest.trim_start().starts_with(char::is_lowercase)
}

/// Returns true if a text ends with a single letter, as in `J. Smith`.
fn is_abbreviated(text: &str) -> bool {
    let mut letters = text.chars().rev().take_while(|c| c.is_alphabetic());
    letters.next().is_some_and(char::is_uppercase) && letters.next().is_none()
}

/// Returns true if a line begins a paragraph, a heading, an element of a list or a row of a table.
fn begins_block(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t', '\r']);
    let is_mark = line.starts_with(['\n', '#', '|', '>']);
    let is_item = ["- ", "* ", "+ ", "• "]
        .iter()
        .any(|mark| line.starts_with(mark));
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &line[digits..];
    is_mark || is_item || (digits > 0 && (rest.starts_with(". ") || rest.starts_with(") ")))
}
