//! Titles: one line, trimmed, bounded.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use rag_protocol::{ingest::Title, uri::is_common_name};

use crate::kind;

/// Maximum number of characters. Only the first ones are embedded and cited: see
/// [`Title::SHOWN_CHARS`].
pub const MAX_CHARS: usize = 1000;

/// Returns a title that the document gives itself, or `None` if nothing is left of it.
pub fn own(text: &str) -> Option<Title> {
    one_line(text, MAX_CHARS).map(|text| Title { text, own: true })
}

/// Returns a heading as one line.
pub fn heading(text: &str) -> Option<String> {
    one_line(text, Title::SHOWN_CHARS)
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
    match folder_of(name).filter(|_| is_file && is_common_name(stem)) {
        Some(folder) => named(&format!("{folder}/{stem}")),
        None => named(stem),
    }
}

/// Returns the folder of a file, or the host of an address.
fn folder_of(name: &str) -> Option<Cow<'_, str>> {
    let path = kind::path(name).trim_matches('/');
    let folder = path.rsplit('/').nth(1).filter(|folder| !folder.is_empty());
    match (folder, name.split_once("://")) {
        (Some(folder), Some(_)) => Some(percent_decode_str(folder).decode_utf8_lossy()),
        (Some(folder), None) => Some(folder.into()),
        (None, Some((_, host))) => host
            .split(['/', '?', '#'])
            .next()
            .filter(|host| !host.is_empty())
            .map(Into::into),
        (None, None) => None,
    }
}

/// Returns the file's name with the extension, which distinguishes files of code.
pub fn file_name(name: &str) -> Title {
    named(&file_of(name))
}

fn named(text: &str) -> Title {
    Title {
        text: one_line(text, MAX_CHARS).unwrap_or_else(|| "untitled".into()),
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

fn one_line(text: &str, max_chars: usize) -> Option<String> {
    let mut line = String::new();
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > max_chars * 4 {
            break; // more characters than are kept, whatever their width
        }
    }
    if let Some((end, _)) = line.char_indices().nth(max_chars) {
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
    fn a_title_has_at_most_1000_characters_of_which_200_are_embedded() {
        let title = own(&"é".repeat(2_000)).unwrap();
        assert_eq!(title.text, "é".repeat(1_000));
        assert_eq!(title.embedded(), "é".repeat(200));
        let title = own(&"a ".repeat(5_000)).unwrap();
        assert_eq!(title.text.chars().count(), 999);
        assert_eq!(title.embedded().chars().count(), 199);
        assert_eq!(own("short").unwrap().embedded(), "short");
        assert_eq!(heading(&"é".repeat(500)).unwrap(), "é".repeat(200));
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
            ("README.md", "README"),
            ("docs/api/README.md", "api/README"),
            ("docs/Changelog", "docs/Changelog"),
            ("docs/readmes.md", "readmes"),
            ("https://example.org/a%20b/index.html", "a b/index"),
            ("https://example.org/index.html", "example.org/index"),
            ("file:///srv/docs/index.md", "docs/index"),
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
