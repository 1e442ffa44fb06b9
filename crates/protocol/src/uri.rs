//! Names in uris.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Names that a file of each folder may have: only the folder tells which one it is.
const COMMON_NAMES: [&str; 17] = [
    "readme",
    "changelog",
    "changes",
    "history",
    "news",
    "index",
    "_index",
    "contributing",
    "license",
    "licence",
    "copying",
    "notice",
    "authors",
    "install",
    "security",
    "support",
    "todo",
];

/// Returns true if a file of each folder may have this name. The name has no extension.
pub fn is_common_name(stem: &str) -> bool {
    COMMON_NAMES
        .iter()
        .any(|name| stem.eq_ignore_ascii_case(name))
}

/// Returns the name of the file of a uri as people read it: what follows the last `/` or `#`. It is
/// empty if nothing follows.
pub fn file_name(uri: &str) -> Cow<'_, str> {
    decoded(uri, uri.rsplit(['/', '#']).next().unwrap_or(uri))
}

/// Returns a part of a uri as people read it. In a uri with a scheme, characters may be
/// percent-encoded. What is no text in UTF-8 then stays as it is.
pub fn decoded<'a>(uri: &str, part: &'a str) -> Cow<'a, str> {
    if !uri.contains("://") || !part.contains('%') {
        return part.into();
    }
    match percent_decode_str(part).decode_utf8() {
        Ok(text) if !text.chars().any(char::is_control) => text,
        _ => part.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded() {
        for (uri, name) in [
            ("file:///srv/My%20File%20%C3%BC%231.md", "My File ü#1.md"),
            ("https://h/r.git#docs/a%20b.md", "a b.md"),
            ("My%20File.md", "My%20File.md"),
            ("file:///srv/100%.md", "100%.md"),
            ("file:///srv/50%25.md", "50%.md"),
            ("file:///srv/%zz%4.md", "%zz%4.md"),
            ("file:///srv/caf%E9.md", "caf%E9.md"),
            ("file:///srv/a%00b%0Ac.md", "a%00b%0Ac.md"),
            ("file:///srv/a%2Fb.md", "a/b.md"),
            ("https://example.com/", ""),
            ("note:tea", "note:tea"),
        ] {
            assert_eq!(file_name(uri), name, "{uri}");
        }
    }
}
