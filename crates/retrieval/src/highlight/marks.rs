//! Writes a text with marks around words.

use std::ops::Range;

/// How words are marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkStyle {
    pub start: String,
    pub stop: String,
    /// Stands where text was left out.
    pub ellipsis: String,
    /// The text is part of an HTML page: its own signs are no markup.
    pub escapes_html: bool,
}

/// Returns a part of a text with marks around places of it, in ascending order.
pub fn marked(
    text: &str,
    part: Range<usize>,
    places: &[Range<usize>],
    style: &MarkStyle,
) -> String {
    let mut shown = String::with_capacity(marked_bytes(text, part.clone(), places, style));
    write(text, part, places, style, &mut |piece| {
        shown.push_str(piece)
    });
    shown
}

/// Returns the number of bytes of [`marked`].
pub fn marked_bytes(
    text: &str,
    part: Range<usize>,
    places: &[Range<usize>],
    style: &MarkStyle,
) -> usize {
    let mut bytes: usize = 0;
    write(text, part, places, style, &mut |piece| {
        bytes = bytes.saturating_add(piece.len())
    });
    bytes
}

fn write(
    text: &str,
    part: Range<usize>,
    places: &[Range<usize>],
    style: &MarkStyle,
    f: &mut dyn FnMut(&str),
) {
    if !text[..part.start].trim_start().is_empty() {
        f(&style.ellipsis);
    }
    let mut at = part.start;
    for place in places {
        escaped(&text[at..place.start], style.escapes_html, f);
        f(&style.start);
        escaped(&text[place.clone()], style.escapes_html, f);
        f(&style.stop);
        at = place.end;
    }
    escaped(&text[at..part.end], style.escapes_html, f);
    if !text[part.end..].trim_end().is_empty() {
        f(&style.ellipsis);
    }
}

fn escaped(text: &str, escapes: bool, f: &mut dyn FnMut(&str)) {
    if !escapes {
        return f(text);
    }
    for piece in text.split_inclusive(['&', '<', '>', '"', '\'']) {
        let sign = piece.as_bytes()[piece.len() - 1];
        let entity = match sign {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            _ => {
                f(piece);
                continue;
            }
        };
        f(&piece[..piece.len() - 1]);
        f(entity);
    }
}

/// Returns places of a text in characters from 0 on. They are given in bytes, in ascending order.
pub fn character_places(text: &str, places: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut at, mut characters) = (0, 0);
    let mut count = |to: usize| {
        characters += text[at..to].chars().count();
        at = to;
        characters
    };
    let places = places.iter();
    places
        .map(|place| count(place.start)..count(place.end))
        .collect()
}
