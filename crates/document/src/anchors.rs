//! Places in a text that an address can name: `#install`.
//!
//! HTML has them as ids. A Markdown text has none: there the names are those that GitHub and other
//! viewers derive from the headings, and they are derived again when the text is.

use std::collections::HashMap;

use rag_protocol::ingest::NamedPlace;
use serde::{Deserialize, Serialize};
use unicode_normalization::char::is_combining_mark;

use crate::{Heading, Structure};

/// Maximum number of places of a document, and maximum length of their names in bytes.
pub const MAX_ANCHORS: usize = 5_000;
const MAX_NAME: usize = 500;

/// A place that an address can name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Byte of the text at which the line of the place begins.
    pub at: usize,
    /// What follows `#` in an address, before it is encoded.
    pub name: String,
}

/// Returns a name if it can be that of a place.
pub fn name(text: &str) -> Option<String> {
    let text = text.trim();
    let is_name = !text.is_empty() && text.len() <= MAX_NAME && !text.contains(char::is_control);
    is_name.then(|| text.to_owned())
}

/// Returns the places of the headings of a Markdown text.
pub fn of_headings(structure: &Structure) -> Vec<Anchor> {
    let Structure::Sections { headings, .. } = structure else {
        return vec![];
    };
    let named = headings.iter().filter_map(|heading| {
        let name = heading.name.clone()?;
        Some(Anchor {
            at: heading.at,
            name,
        })
    });
    named.take(MAX_ANCHORS).collect()
}

/// Returns places of a text from which characters were removed.
pub fn moved(anchors: Vec<Anchor>, before: &str, after: &str) -> Vec<Anchor> {
    let mut kept = after.char_indices().peekable();
    let mut old = before.char_indices();
    let mut at = 0;
    let moved = anchors.into_iter().map(|anchor| {
        while at < anchor.at {
            let Some((_, c)) = old.next() else { break };
            at += c.len_utf8();
            kept.next_if(|(_, same)| *same == c);
        }
        let place = kept.peek().map_or(after.len(), |(place, _)| *place);
        Anchor {
            at: place,
            ..anchor
        }
    });
    moved.collect()
}

/// Returns places as they are stored, in characters.
pub fn stored(anchors: &[Anchor], text: &str) -> Vec<NamedPlace> {
    let (mut at, mut characters) = (0, 0);
    let stored = anchors.iter().filter_map(|anchor| {
        characters += text.get(at..anchor.at)?.chars().count();
        at = anchor.at;
        Some(NamedPlace {
            start_index: characters,
            name: anchor.name.clone(),
        })
    });
    stored.collect()
}

/// Returns stored places of a text. Those beyond its end are left out.
pub fn restored(places: &[NamedPlace], text: &str) -> Vec<Anchor> {
    let mut bytes = text.char_indices().map(|(at, _)| at).enumerate().peekable();
    let restored = places.iter().filter_map(|place| {
        while bytes.next_if(|(n, _)| *n < place.start_index).is_some() {}
        let (_, at) = bytes.peek().filter(|(n, _)| *n == place.start_index)?;
        Some(Anchor {
            at: *at,
            name: place.name.clone(),
        })
    });
    restored.collect()
}

/// Returns the name of the innermost place that a piece at `at` belongs to: the last one before it
/// in its own section, else the place of the section's heading, else those of the headings around
/// it. `path` has these headings, outermost first.
pub fn around<'a>(anchors: &'a [Anchor], at: usize, path: &[&Heading]) -> Option<&'a str> {
    let passed = &anchors[..anchors.partition_point(|anchor| anchor.at <= at)];
    let Some(innermost) = path.last() else {
        return passed.last().map(|anchor| anchor.name.as_str());
    };
    let last = passed.last().filter(|anchor| anchor.at >= innermost.at);
    let of_heading = |heading: &&Heading| {
        let first = passed.partition_point(|anchor| anchor.at < heading.at);
        passed.get(first).filter(|anchor| anchor.at < heading.end)
    };
    last.or_else(|| path.iter().rev().find_map(of_heading))
        .map(|anchor| anchor.name.as_str())
}

/// The names of headings as GitHub derives them.
#[derive(Default)]
pub struct Slugs(HashMap<String, usize>);

impl Slugs {
    /// Returns the name of the next heading, or `None` if no sign of its words can be in a name.
    pub fn next(&mut self, words: &str) -> Option<String> {
        let slug: String = words
            .trim()
            .chars()
            .filter_map(slug_sign)
            .flatten()
            .collect();
        if !slug.contains(|c: char| c != '-') {
            return None;
        }
        let mut name = slug.clone();
        while self.0.contains_key(&name) {
            let number = self.0.entry(slug.clone()).or_default();
            *number += 1;
            name = format!("{slug}-{number}");
        }
        self.0.insert(name.clone(), 0);
        self::name(&name)
    }
}

/// Returns the signs that stand for one of a heading: small letters, and hyphens for blanks.
fn slug_sign(c: char) -> Option<std::char::ToLowercase> {
    match c {
        c if c.is_whitespace() => Some('-'.to_lowercase()),
        '-' | '_' | '‿' => Some(c.to_lowercase()),
        // decimal digits only
        '²' | '³' | '¹' | '¼' | '½' | '¾' => None,
        c if c.is_alphanumeric() || is_combining_mark(c) => Some(c.to_lowercase()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors(places: &[(usize, &str)]) -> Vec<Anchor> {
        let anchor = |(at, name): &(usize, &str)| Anchor {
            at: *at,
            name: (*name).to_owned(),
        };
        places.iter().map(anchor).collect()
    }

    #[test]
    fn names_of_headings_are_those_of_github() {
        let mut slugs = Slugs::default();
        for (words, expected) in [
            ("Install", Some("install")),
            (
                "Chapter 2 — Getting Started",
                Some("chapter-2--getting-started"),
            ),
            ("Überblick", Some("überblick")),
            ("Foo --- Bar", Some("foo-----bar")),
            ("The [profile.*] sections", Some("the-profile-sections")),
            (
                "mergeProps - new (src/a.ts:85)",
                Some("mergeprops---new-srcats85"),
            ),
            ("A §1 B", Some("a-1-b")),
            ("max_connections?", Some("max_connections")),
            ("हिन्दी", Some("हिन्दी")),
            ("你好，世界", Some("你好世界")),
            ("🎬 Demo", Some("-demo")),
            ("😄", None),
            ("???", None),
        ] {
            assert_eq!(slugs.next(words).as_deref(), expected, "{words}");
        }
    }

    #[test]
    fn headings_with_the_same_words_are_numbered() {
        let mut slugs = Slugs::default();
        let next = |words: &str| slugs.next(words).unwrap();
        let words = ["Usage", "Usage", "Usage 1", "usage!", "Usage-2"];
        let names = words.map(next);
        assert_eq!(
            names,
            ["usage", "usage-1", "usage-1-1", "usage-2", "usage-2-1"]
        );
    }

    #[test]
    fn places_are_stored_in_characters() {
        let text = "äöü\n# B\n\nc";
        let places = anchors(&[(7, "b"), (12, "c")]);
        let stored = stored(&places, text);
        let indexes: Vec<usize> = stored.iter().map(|place| place.start_index).collect();
        assert_eq!(indexes, [4, 9]);
        assert_eq!(restored(&stored, text), places);
        assert_eq!(restored(&stored, "äöü\n#"), places[..1]);
    }

    #[test]
    fn places_move_with_the_text() {
        let (before, after) = ("a\u{200B}\u{200B}b\u{200B}\nc", "ab\nc");
        let places = anchors(&[(0, "a"), (7, "b"), (12, "c"), (13, "end")]);
        let expected = anchors(&[(0, "a"), (1, "b"), (3, "c"), (4, "end")]);
        assert_eq!(moved(places, before, after), expected);
    }

    #[test]
    fn a_piece_is_at_the_place_of_its_section() {
        let heading = |at: usize, level: u8| Heading {
            at,
            end: at + 5,
            level,
            text: "x".into(),
            name: None,
        };
        let places = anchors(&[(0, "top"), (20, "term"), (40, "sub")]);
        let (top, second, sub) = (heading(0, 1), heading(30, 2), heading(40, 3));
        assert_eq!(around(&places, 10, &[&top]), Some("top"));
        assert_eq!(around(&places, 25, &[&top]), Some("term"));
        // a section without a name is in the one around it
        assert_eq!(around(&places, 35, &[&top, &second]), Some("top"));
        assert_eq!(around(&places, 50, &[&top, &second, &sub]), Some("sub"));
        assert_eq!(around(&places, 5, &[]), Some("top"));
        assert_eq!(around(&places[1..], 10, &[&top]), None);
    }
}
