//! Shortens data URIs: a picture in base64 is no text, and would be embedded and found as noise.
//!
//! `data:image/png;base64,iVBORw0...` becomes `data:image/png;base64,…`. Short ones stay, and line
//! ends inside of one do too, so that lines keep their numbers. Where nothing refers to the data,
//! as in records, any of them becomes `data:image/png`.

use std::borrow::Cow;

pub const SCHEME: &str = "data:";
const BASE64: &str = ";base64,";
/// Maximum length of the part before the data, in bytes.
const MAX_HEAD: usize = 200;
/// Minimum number of bytes of data that are removed.
const MIN_BASE64: usize = 64;
const MIN_ENCODED: usize = 200;
/// What is left of the data.
const LEFT: char = '…';

/// Returns a text without the data of its data URIs, or `None` if it has none.
pub fn shortened(text: &str) -> Option<String> {
    let mut short = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(SCHEME) {
        let head = head(&rest[at..]).unwrap_or(SCHEME.len());
        let (before, data) = rest.split_at(at + head);
        short.push_str(before);
        let (length, line_ends) = data_length(&before[at..], data);
        if length > 0 {
            short.push(LEFT);
            short.extend(std::iter::repeat_n('\n', line_ends));
        }
        rest = &data[length..];
    }
    if rest.len() == text.len() {
        return None;
    }
    short.push_str(rest);
    (short.len() < text.len()).then_some(short)
}

/// Returns the length of the part of a URI before its data: `data:image/png;base64,`.
fn head(uri: &str) -> Option<usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"/\\+.;=_-:".contains(byte);
    let end = uri
        .bytes()
        .take(MAX_HEAD)
        .position(|byte| !is_part(&byte))?;
    (uri.as_bytes()[end] == b',').then_some(end + 1)
}

/// Returns the length of the data that are removed, and the number of line ends in it.
fn data_length(head: &str, data: &str) -> (usize, usize) {
    if head.ends_with(BASE64) {
        return base64_length(data.as_bytes());
    }
    if !head.ends_with(',') {
        return (0, 0);
    }
    let is_end = |c: char| c.is_whitespace() || "\"'()<>`".contains(c);
    // Up to the next one: else each of many would be read to the end of the text.
    let data = data.find(SCHEME).map_or(data, |next| &data[..next]);
    let length = data.find(is_end).unwrap_or(data.len());
    let is_encoded = length >= MIN_ENCODED && data[..length].contains('%');
    (if is_encoded { length } else { 0 }, 0)
}

/// Returns the length of data in base64, which may be broken into lines of equal length.
fn base64_length(data: &[u8]) -> (usize, usize) {
    let (mut end, mut line_ends) = (run(data), 0);
    if end < MIN_BASE64 {
        return (0, 0);
    }
    let width = end;
    loop {
        let gap = data[end..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let next = run(&data[end + gap..]);
        let ends = data[end..end + gap]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        if ends != 1 || next < MIN_BASE64.min(width) {
            return (end, line_ends);
        }
        end += gap + next;
        line_ends += 1;
    }
}

/// Returns the length of signs of base64, also with the escapes of addresses and JSON.
fn run(data: &[u8]) -> usize {
    let mut length = 0;
    while let Some(byte) = data.get(length) {
        let is_data = byte.is_ascii_alphanumeric() || b"+/=_-%".contains(byte);
        let is_escaped_slash = *byte == b'\\' && data.get(length + 1) == Some(&b'/');
        if !is_data && !is_escaped_slash {
            break;
        }
        length += 1;
    }
    length
}

/// Returns a value with `data:image/png` in place of a whole data URI in base64: noise for people
/// and for models.
pub fn named(value: &str) -> Cow<'_, str> {
    let mut rest = value;
    let mut kept = String::new();
    while let Some(at) = rest.find(BASE64) {
        let (before, after) = (&rest[..at], &rest[at + BASE64.len()..]);
        let begin = before.rfind(SCHEME).map_or("", |begin| &before[begin..]);
        let is_uri =
            !begin.is_empty() && begin.len() <= 100 && !begin.contains(char::is_whitespace);
        let end = run(after.as_bytes());
        let left = after[end..].strip_prefix(LEFT);
        kept.push_str(before);
        if !is_uri {
            kept.push_str(&rest[at..at + BASE64.len() + end]);
        }
        rest = left.filter(|_| is_uri).unwrap_or(&after[end..]);
    }
    if kept.is_empty() {
        return value.into();
    }
    kept.push_str(rest);
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_pictures_are_removed_and_lines_kept() {
        let data = "iVBORw0KGgo/AAAANSUhEUg+".repeat(10);
        let lines = [data.as_str(); 3].join("\n  ");
        for (text, expected) in [
            (
                format!("a ![x](data:image/png;base64,{data}) b"),
                "a ![x](data:image/png;base64,…) b",
            ),
            (
                format!(
                    "{{\"a\": \"data:image\\/png;base64,{}\"}}",
                    data.replace('/', "\\/")
                ),
                "{\"a\": \"data:image\\/png;base64,…\"}",
            ),
            (
                format!("<img src='data:image/png;base64,{lines}'>"),
                "<img src='data:image/png;base64,…\n\n'>",
            ),
            (
                format!("url(data:image/svg+xml,{})x", "%3Csvg%20".repeat(40)),
                "url(data:image/svg+xml,…)x",
            ),
        ] {
            assert_eq!(shortened(&text).unwrap(), expected);
        }
    }

    #[test]
    fn other_text_stays() {
        let words = "words and words ".repeat(50);
        for text in [
            "no",
            "data: all of it",
            "data:image/png;base64,AAAA",
            "metadata:,",
            &"data:,".repeat(500_000),
            &format!("data:text/plain;base64,QQ== {words}"),
            &format!("data:,{words}"),
        ] {
            assert_eq!(shortened(text), None, "{text}");
        }
    }

    #[test]
    fn files_in_values_are_only_named() {
        for (value, expected) in [
            ("data:image/png;base64,iVBORw0KGgo=", "data:image/png"),
            (
                "data:image/png;base64,… and more",
                "data:image/png and more",
            ),
            (
                "See ![chart](data:image/png;base64,AA+/==) and data:text/plain;charset=x;base64,QUJD.",
                "See ![chart](data:image/png) and data:text/plain;charset=x.",
            ),
            ("no data: here;base64,QUJD", "no data: here;base64,QUJD"),
            (";base64,", ";base64,"),
            ("data:image/svg+xml,<svg/>", "data:image/svg+xml,<svg/>"),
        ] {
            assert_eq!(named(value), expected);
        }
    }
}
