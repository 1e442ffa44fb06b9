//! Replaces pictures whose data are in the file by their description.
//!
//! Editors export them as `![chart](data:...)`, as `![chart][image1]` with the data at the end, or
//! as `<img>`. A link to data becomes its words.

use std::{borrow::Cow, ops::Range};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::data_uri::SCHEME;

/// Returns a text without pictures and links to data. Its lines have the same numbers.
pub fn described(text: &str) -> Cow<'_, str> {
    if !text.contains(SCHEME) {
        return text.into();
    }
    let mut replaced = replacements(text);
    if replaced.is_empty() {
        return text.into();
    }
    replaced.sort_by_key(|(range, _)| range.start);
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for (range, words) in replaced {
        if range.start < at {
            continue;
        }
        kept.push_str(&text[at..range.start]);
        kept.push_str(&words);
        let line_ends = |text: &str| text.matches('\n').count();
        let missing = line_ends(&text[range.clone()]).saturating_sub(line_ends(&words));
        kept.extend(std::iter::repeat_n('\n', missing));
        at = range.end;
    }
    kept.push_str(&text[at..]);
    kept.into()
}

fn replacements(text: &str) -> Vec<(Range<usize>, String)> {
    let mut replaced = vec![];
    // The outermost picture or link to data, its words, and the number of those in it.
    let mut open: Option<(Range<usize>, String, usize)> = None;
    let parser = Parser::new_ext(text, Options::empty());
    for (_, definition) in parser.reference_definitions().iter() {
        if is_data(&definition.dest) {
            replaced.push((definition.span.clone(), String::new()));
        }
    }
    for (event, range) in parser.into_offset_iter() {
        match (event, &mut open) {
            (Event::Start(Tag::Image { .. } | Tag::Link { .. }), Some((.., inner))) => *inner += 1,
            (
                Event::Start(Tag::Image { dest_url, .. } | Tag::Link { dest_url, .. }),
                open @ None,
            ) if is_data(&dest_url) => *open = Some((range, String::new(), 0)),
            (Event::Text(piece) | Event::Code(piece), Some((_, words, _))) => {
                words.push_str(&piece);
            }
            (Event::SoftBreak | Event::HardBreak, Some((_, words, _))) => words.push('\n'),
            (Event::End(TagEnd::Image | TagEnd::Link), open) => match open.take() {
                Some((range, words, 0)) => replaced.push((range, words)),
                Some((range, words, inner)) => *open = Some((range, words, inner - 1)),
                None => {}
            },
            (Event::Html(html) | Event::InlineHtml(html), None) => {
                images(&html, range.start, &mut replaced);
            }
            _ => {}
        }
    }
    replaced
}

fn is_data(address: &str) -> bool {
    address
        .get(..SCHEME.len())
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// Finds the `<img>` of a piece of HTML that begins at byte `begin`.
fn images(html: &str, begin: usize, replaced: &mut Vec<(Range<usize>, String)>) {
    let mut at = 0;
    while let Some(found) = html[at..].find("<img") {
        let from = at + found;
        let Some(length) = html[from..].find('>') else {
            break;
        };
        let tag = &html[from..=from + length];
        if attribute(tag, "src").is_some_and(is_data) {
            let words = attribute(tag, "alt").unwrap_or_default().to_owned();
            replaced.push((begin + from..begin + from + tag.len(), words));
        }
        at = from + tag.len();
    }
}

/// Returns the value of a tag's attribute.
pub fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag;
    while let Some(at) = rest.find(name) {
        let is_name = rest[..at].ends_with(|c: char| c.is_whitespace());
        rest = &rest[at + name.len()..];
        let Some(value) = rest.trim_start().strip_prefix('=').filter(|_| is_name) else {
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        return match quote {
            Some(quote) => value[1..].split(quote).next(),
            None => value.split(|c: char| c.is_whitespace() || c == '>').next(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_with_data_are_their_descriptions() {
        for (text, expected) in [
            (
                "a ![chart *one*](data:image/png;base64,…) b",
                "a chart one b",
            ),
            (
                "a ![][image1] b\n\n[image1]: <data:image/png;base64,…>\n",
                "a  b\n\n\n",
            ),
            (
                "![x][i]\n\n[i]: data:image/png;base64,… 'T'\nend",
                "x\n\n\nend",
            ),
            (
                "a <img alt='logo' src=\"data:image/png;base64,…\"> b",
                "a logo b",
            ),
            ("<p>\n<img src=data:x,…>\n</p>", "<p>\n\n</p>"),
            ("[file](data:application/pdf;base64,…)", "file"),
            (
                "[![x](data:a,b)](https://example.org)",
                "[x](https://example.org)",
            ),
            ("[![x](y)](data:a,b)", "x"),
        ] {
            assert_eq!(described(text), expected, "{text}");
        }
        for text in [
            "![x](y.png) data:",
            "`![x](data:a,b)`",
            "<img alt=data: src=y>",
            "<img src=data:a",
        ] {
            assert_eq!(described(text), text);
        }
    }
}
