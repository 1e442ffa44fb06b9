//! Prepares a text of manifests: replaces tabs by spaces and splits it into documents.
//!
//! YAML forbids tabs in indentation, but the examples of the proposals have them. A tab moves to
//! the next even column. Tabs after the first character of a line are kept, as are tabs of a block
//! scalar beyond its indentation. The number of lines does not change, so that errors have the line
//! numbers of the user's text.

use std::borrow::Cow;

/// Columns from one tab stop to the next.
const TAB: usize = 2;

/// One document of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct DocumentText<'a> {
    /// Includes the `---` before it.
    pub text: &'a str,
    /// Number of lines before this document.
    pub line: usize,
}

/// Removes byte order marks, and ends lines with `\n` only.
pub fn with_plain_lines(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let mut text = Cow::Borrowed(text);
    for (end, plain) in [("\r\n", "\n"), ("\r", "\n"), ("\n\u{FEFF}", "\n")] {
        if text.contains(end) {
            text = Cow::Owned(text.replace(end, plain));
        }
    }
    text
}

/// Splits at lines that begin with `---` or are `...`. Documents without content are left out.
pub fn documents(text: &str) -> Vec<DocumentText<'_>> {
    let mut documents = vec![];
    let (mut start, mut first_line, mut end) = (0, 0, 0);
    let (mut marked, mut directives, mut content) = (false, false, false);
    for (i, line) in text.split_inclusive('\n').enumerate() {
        if let Some(rest) = after_marker(line, "---") {
            if content {
                documents.push(DocumentText {
                    text: &text[start..end],
                    line: first_line,
                });
            }
            // Directives stand before the marker of their document.
            if content || marked || !directives {
                (start, first_line, directives) = (end, i, false);
            }
            (marked, content) = (true, !is_empty(rest));
        } else if after_marker(line, "...").is_some() {
            if content {
                documents.push(DocumentText {
                    text: &text[start..end],
                    line: first_line,
                });
            }
            (start, first_line) = (end + line.len(), i + 1);
            (marked, directives, content) = (false, false, false);
        } else if line.starts_with('%') && !marked && !content {
            directives = true;
        } else if !is_empty(line) {
            content = true;
        }
        end += line.len();
    }
    if content {
        documents.push(DocumentText {
            text: &text[start..],
            line: first_line,
        });
    }
    documents
}

/// Returns the rest of a line after a document marker.
pub fn after_marker<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    line.strip_prefix(marker)
        .filter(|rest| rest.chars().next().is_none_or(char::is_whitespace))
}

/// Returns true if a line has at most a comment.
fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// A block scalar that the lines being read may belong to.
struct Block<'a> {
    /// Column of its key. Its lines are farther to the right.
    parent: usize,
    /// White space before its first line, and the width of that. If the spaces suffice, tabs after
    /// them are text.
    indentation: Option<(&'a str, usize)>,
}

/// Replaces tabs in indentation by spaces.
pub fn with_spaces(text: &str) -> Cow<'_, str> {
    if !text
        .lines()
        .any(|line| indentation(line).contains('\t') || line.trim_start().starts_with("-\t"))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut block: Option<Block<'_>> = None;
    for line in text.split_inclusive('\n') {
        let lead = indentation(line);
        let rest = &line[lead.len()..];
        if let Some(scalar) = &mut block {
            let width = lead.chars().fold(0, column_after);
            let spaces = line.len() - line.trim_start_matches(' ').len();
            if scalar.indentation.is_none()
                && spaces > scalar.parent
                && spaces < line.trim_end_matches('\n').len()
            {
                scalar.indentation = Some((&line[..spaces], spaces));
            }
            if rest.trim_end().is_empty() {
                match scalar.indentation {
                    Some((first, _)) if !first.contains('\t') => out.push_str(line),
                    Some((first, width)) if line.starts_with(first) => {
                        push_spaces(&mut out, width);
                        out.push_str(&line[first.len()..]);
                    }
                    _ => out.push_str(rest),
                }
                continue;
            }
            if width > scalar.parent {
                let (first, first_width) = *scalar.indentation.get_or_insert((lead, width));
                if !first.contains('\t') {
                    out.push_str(line);
                } else if let Some(content) = line.strip_prefix(first) {
                    push_spaces(&mut out, first_width);
                    out.push_str(content);
                } else {
                    push_spaces(&mut out, width);
                    out.push_str(rest);
                }
                continue;
            }
        }
        let (content, column, dash) = push_indented(&mut out, line);
        block = parent_of_block(content, column, dash).map(|parent| Block {
            parent,
            indentation: None,
        });
    }
    Cow::Owned(out)
}

/// Copies a line and replaces its indentation, dashes of lists included, by spaces. Returns the
/// rest of the line, its column, and the column of the last dash.
fn push_indented<'a>(out: &mut String, line: &'a str) -> (&'a str, usize, Option<usize>) {
    let (mut column, mut dash, mut length) = (0, None, 0);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => {
                let next = column_after(column, c);
                push_spaces(out, next - column);
                column = next;
            }
            '-' if matches!(chars.peek(), Some(' ' | '\t')) => {
                out.push('-');
                dash = Some(column);
                column += 1;
            }
            _ => break,
        }
        length += 1;
    }
    out.push_str(&line[length..]);
    (&line[length..], column, dash)
}

/// Returns the column that the lines of a block scalar must exceed, if a line ends in its head
/// (`key: |-`).
fn parent_of_block(content: &str, column: usize, dash: Option<usize>) -> Option<usize> {
    let without_comment = content
        .split_once(" #")
        .map_or(content, |(before, _)| before)
        .trim_end();
    let (before, head) = without_comment
        .rsplit_once([' ', '\t'])
        .unwrap_or(("", without_comment));
    let indicators = head.strip_prefix(['|', '>'])?;
    if indicators.len() > 2
        || !indicators
            .bytes()
            .all(|b| b.is_ascii_digit() || b == b'+' || b == b'-')
    {
        return None;
    }
    let before = before.trim_end();
    if before.is_empty() {
        return dash;
    }
    let last = before.rsplit([' ', '\t']).next().unwrap_or_default();
    (before.ends_with(':') || last.starts_with(['!', '&'])).then_some(column)
}

/// Turns a column of the text with spaces into that of the user's text.
pub fn original_column(original: &str, with_spaces: &str, column: usize) -> usize {
    let added = with_spaces
        .chars()
        .count()
        .saturating_sub(original.chars().count());
    column.saturating_sub(added).max(1)
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn column_after(column: usize, c: char) -> usize {
    if c == '\t' {
        (column / TAB + 1) * TAB
    } else {
        column + 1
    }
}

fn push_spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(usize, &str)> {
        documents(text)
            .into_iter()
            .map(|document| (document.line, document.text))
            .collect()
    }

    #[test]
    fn documents_are_between_lines_of_dashes() {
        assert_eq!(split("a: 1\n"), [(0, "a: 1\n")]);
        assert_eq!(
            split("a: 1\n---\nb: 2\n--- # third\nc: 3"),
            [(0, "a: 1\n"), (1, "---\nb: 2\n"), (3, "--- # third\nc: 3")]
        );
        assert_eq!(
            split("{\"a\": 1}\n--- {\"b\": 2}\n"),
            [(0, "{\"a\": 1}\n"), (1, "--- {\"b\": 2}\n")]
        );
        assert_eq!(split("a: 1\n...\nb: 2\n"), [(0, "a: 1\n"), (2, "b: 2\n")]);
        assert_eq!(
            split("a: |\n  ---\n----: x\n"),
            [(0, "a: |\n  ---\n----: x\n")]
        );
    }

    #[test]
    fn documents_without_content_are_ignored() {
        assert_eq!(split(""), []);
        assert_eq!(split("---\n---\n# only a comment\n---\n...\n\n---"), []);
        assert_eq!(
            split("# head\n---\n\n---\na: 1\n---\n"),
            [(3, "---\na: 1\n")]
        );
    }

    #[test]
    fn directives_stay_with_their_document() {
        assert_eq!(
            split("%YAML 1.2\n---\na: 1\n"),
            [(0, "%YAML 1.2\n---\na: 1\n")]
        );
        assert_eq!(
            split("a: 1\n...\n%YAML 1.2\n---\nb: 1\n---\n%c: 1"),
            [
                (0, "a: 1\n"),
                (2, "%YAML 1.2\n---\nb: 1\n"),
                (5, "---\n%c: 1")
            ]
        );
    }

    #[test]
    fn byte_order_marks_and_carriage_returns_are_removed() {
        assert_eq!(
            with_plain_lines("\u{FEFF}a: 1\r\nb: 2\rc: 3\n\u{FEFF}---\n"),
            "a: 1\nb: 2\nc: 3\n---\n"
        );
        assert!(matches!(with_plain_lines("a: 1\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn tabs_of_the_indentation_become_spaces() {
        assert_eq!(
            with_spaces("a:\n\tb:\n\t\t- c\td\t# e\n"),
            "a:\n  b:\n    - c\td\t# e\n"
        );
        assert_eq!(with_spaces("a:\n \t b: 1\n"), "a:\n   b: 1\n");
        assert_eq!(
            with_spaces("a:\n\t-\tb: 1\n\t\tc: 2\n"),
            "a:\n  - b: 1\n    c: 2\n"
        );
        assert_eq!(with_spaces("a:\n-\tb: 1\n"), "a:\n- b: 1\n");
        assert!(matches!(with_spaces("a: b\tc\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn tabs_in_block_scalars_are_kept() {
        let recipe = "a:\n  b: |\n    all:\n    \tcc\n\n    end\n";
        assert_eq!(
            with_spaces(&format!("{recipe}\tc: 1\n")),
            format!("{recipe}  c: 1\n")
        );
        let begins_with_tabs = "a: |-\n  \t\n  \tb\n  c\n";
        assert_eq!(with_spaces(begins_with_tabs), begins_with_tabs);
        assert_eq!(
            with_spaces("a:\n\tb: |- # text\n\n\t\tall:\n\t\t\tcc\n\t\n\t\t end\n\tc:\n\t\td: 1\n"),
            "a:\n  b: |- # text\n\n    all:\n    \tcc\n\n     end\n  c:\n    d: 1\n"
        );
        assert_eq!(
            with_spaces("a:\n\t- >\n\t\t\tx\n\t\t\t\ty\n\t- z\n"),
            "a:\n  - >\n      x\n      \ty\n  - z\n"
        );
    }

    #[test]
    fn columns_are_those_of_the_users_text() {
        assert_eq!(original_column("\t\ta: [", "    a: [", 8), 6);
        assert_eq!(original_column("a", "a", 1), 1);
    }
}
