//! Finds a member of a JSON object without reading its value.
//!
//! Metadata of documents are `jsonb`, whose numbers have more digits than an `f64`. They pass as
//! text, so that they stay exactly as they are.

use std::ops::Range;

/// Returns the place of the value of a key of the object that `line` is. The rest of the line is
/// not checked. Returns None if there is no such key.
pub fn find(line: &str, key: &str) -> Option<Range<usize>> {
    let bytes = line.as_bytes();
    let mut at = skip_space(bytes, 0);
    if bytes.get(at) != Some(&b'{') {
        return None;
    }
    at += 1;
    loop {
        at = skip_space(bytes, at);
        let name = at..skip_string(bytes, at)?;
        at = skip_space(bytes, name.end);
        if bytes.get(at) != Some(&b':') {
            return None;
        }
        let start = skip_space(bytes, at + 1);
        at = skip_value(bytes, start)?;
        if line[name.start + 1..name.end - 1] == *key {
            return Some(start..at);
        }
        at = skip_space(bytes, at);
        if bytes.get(at) != Some(&b',') {
            return None;
        }
        at += 1;
    }
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Returns the end of the string that begins at `at`.
fn skip_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    loop {
        at += 1;
        match bytes.get(at)? {
            b'\\' => at += 1,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
}

fn skip_value(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => at = skip_string(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            b',' | b'}' | b']' if depth == 0 => return None,
            _ if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                while bytes
                    .get(at)
                    .is_some_and(|b| !matches!(b, b',' | b'}' | b']') && !b.is_ascii_whitespace())
                {
                    at += 1;
                }
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
        find(line, key).map(|place| &line[place])
    }

    #[test]
    fn members_are_found_as_they_are_written() {
        let line = r#" {"a" : [1,{"m":2}], "t":"\"}\\", "m": {"n": 1.00, "s": "}"} , "z":1e400}"#;
        assert_eq!(value(line, "m"), Some(r#"{"n": 1.00, "s": "}"}"#));
        assert_eq!(value(line, "a"), Some(r#"[1,{"m":2}]"#));
        assert_eq!(value(line, "z"), Some("1e400"));
        assert_eq!(value(line, "n"), None);
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for line in [
            "",
            "[]",
            "{",
            r#"{"m""#,
            r#"{"m":"#,
            r#"{"m":{"#,
            r#"{"m":,}"#,
            r#"{"m":"a"#,
        ] {
            assert_eq!(value(line, "m"), None, "{line}");
        }
    }
}
