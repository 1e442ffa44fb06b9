//! Titles: one line, trimmed, bounded.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use rag_protocol::ingest::Title;

use crate::kind;

/// Maximum number of characters. The title is embedded with every chunk, so it must leave room for
/// them.
pub const MAX_CHARS: usize = 200;

/// Returns a title that the document gives itself, or `None` if nothing is left of it.
pub fn own(text: &str) -> Option<Title> {
    one_line(text).map(|text| Title { text, own: true })
}

/// Returns the title of a document without one: its file's name without the extension.
pub fn from_name(name: &str) -> Title {
    let file = &*file_of(name);
    let is_file = !kind::path(name).trim_end_matches('/').is_empty();
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| {
        if stem.is_empty() || !is_file {
            file
        } else {
            stem
        }
    });
    named(stem)
}

/// Returns the file's name with the extension, which distinguishes files of code.
pub fn file_name(name: &str) -> Title {
    named(&file_of(name))
}

fn named(text: &str) -> Title {
    Title {
        text: one_line(text).unwrap_or_else(|| "untitled".into()),
        own: false,
    }
}

/// Returns the last part of a path or an address, or the host of an address without a path.
fn file_of(name: &str) -> Cow<'_, str> {
    fn last(path: &str) -> &str {
        path.rsplit('/').next().unwrap_or(path)
    }
    match (
        kind::path(name).trim_end_matches('/'),
        name.split_once("://"),
    ) {
        ("", Some((_, host))) => host.split(['/', '?', '#']).next().unwrap_or(host).into(),
        (path, Some(_)) => percent_decode_str(last(path)).decode_utf8_lossy(),
        (path, None) => last(path).into(),
    }
}

fn one_line(text: &str) -> Option<String> {
    let mut line = String::new();
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MAX_CHARS * 4 {
            break; // more characters than are kept, whatever their width
        }
    }
    if let Some((end, _)) = line.char_indices().nth(MAX_CHARS) {
        line.truncate(end);
        line.truncate(line.trim_end().len());
    }
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_trimmed_line() {
        assert_eq!(
            own("  Key\n\trotation\u{0} "),
            Some(Title {
                text: "Key rotation".into(),
                own: true
            })
        );
        assert_eq!(own(" \n "), None);
    }

    #[test]
    fn a_title_has_at_most_200_characters() {
        assert_eq!(own(&"é".repeat(500)).unwrap().text, "é".repeat(200));
        assert_eq!(own(&"a ".repeat(5_000)).unwrap().text.chars().count(), 199);
    }

    #[test]
    fn a_document_without_a_title_is_named_after_its_file() {
        for (name, expected) in [
            ("docs/key-rotation.v2.md", "key-rotation.v2"),
            ("LICENSE", "LICENSE"),
            (".gitignore", ".gitignore"),
            ("", "untitled"),
            ("docs/", "docs"),
            ("https://example.org/guide/keys.html?lang=de#top", "keys"),
            ("https://example.org/guide/", "guide"),
            ("https://example.org/%C3%BCber%20uns.html", "über uns"),
            ("https://example.org/", "example.org"),
        ] {
            assert_eq!(
                from_name(name),
                Title {
                    text: expected.into(),
                    own: false
                }
            );
        }
        assert_eq!(file_name("src/hnsw.h").text, "hnsw.h");
        assert_eq!(file_name("https://example.org/").text, "example.org");
    }
}
