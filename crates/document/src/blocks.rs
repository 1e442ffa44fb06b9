//! Blocks of a document, and how they are written as Markdown.
//!
//! Words are written as they are. Markdown would read some of them as markup that changes where
//! the text is cut: a paragraph that begins with `#`, a line of `---`, a fence of code. A line
//! that begins with `[1]:` would define what `[1]` means in a heading. Such a line gets a
//! backslash before the sign. Notes (`[^1]:`) are written by the readers of documents.

use std::borrow::Cow;

use crate::{Structure, markdown, title};

/// A part of a document, from top to bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A heading from level 1 to 6.
    Heading {
        level: usize,
        text: String,
    },
    /// An item of a list. `label` is its number as it is shown, or empty for a bullet.
    Item {
        /// From 0.
        depth: usize,
        label: String,
        text: String,
    },
    Text(String),
    /// Rows of cells.
    Table(Vec<Vec<String>>),
    /// Lines of code in a language, which may be empty.
    Code {
        language: String,
        text: String,
    },
    /// A text that is Markdown already.
    Markdown(String),
}

impl Block {
    /// Returns true for a block of words that has none. A file may have millions of them.
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Heading { text, .. }
            | Self::Item { text, .. }
            | Self::Text(text)
            | Self::Code { text, .. }
            | Self::Markdown(text) => text.trim().is_empty(),
            Self::Table(_) => false,
        }
    }
}

/// Returns the blocks as Markdown.
pub fn markdown(blocks: &[Block]) -> String {
    let mut text = String::new();
    // The indentation of the item before, in levels.
    let mut before: Option<usize> = None;
    for block in blocks {
        let written = match block {
            Block::Heading { level, text } => heading(*level, text),
            Block::Item {
                depth,
                label,
                text: words,
            } => {
                let Some(words) = words_of(words) else {
                    continue;
                };
                // More than one level at once would be read as code.
                let depth = (*depth).min(before.map_or(1, |before| before + 1)).min(8);
                if !text.is_empty() {
                    text.push_str(if before.is_some() { "\n" } else { "\n\n" });
                }
                before = Some(depth);
                text.push_str(&"  ".repeat(depth));
                text.push_str(if label.is_empty() { "-" } else { label });
                text.push(' ');
                text.push_str(&escaped(words));
                continue;
            }
            Block::Text(words) => words_of(words).map(|words| escaped(words).into_owned()),
            Block::Table(rows) => table(rows),
            Block::Code {
                language,
                text: code,
            } => fenced(language, code),
            Block::Markdown(text) => words_of(text).map(str::to_owned),
        };
        if let Some(written) = written {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&written);
            before = None;
        }
    }
    text
}

/// Returns the words of blocks in one line, as a cell of a table has them.
pub fn one_line(blocks: &[Block]) -> String {
    let mut line = String::new();
    for block in blocks {
        let mut push = |words: &str| {
            for word in words.split_whitespace() {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
        };
        match block {
            Block::Heading { text, .. }
            | Block::Text(text)
            | Block::Code { text, .. }
            | Block::Markdown(text) => push(text),
            Block::Item { label, text, .. } => {
                if words_of(text).is_some() {
                    push(if label.is_empty() { "-" } else { label });
                    push(text);
                }
            }
            Block::Table(rows) => rows.iter().flatten().for_each(|cell| push(cell)),
        }
    }
    line
}

fn words_of(text: &str) -> Option<&str> {
    let words = text.trim();
    (!words.is_empty()).then_some(words)
}

fn heading(level: usize, text: &str) -> Option<String> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = title::heading(&words)?;
    let signs = "#".repeat(level.clamp(1, 6));
    let plain = format!("{signs} {words}");
    if is_heading(&plain, &expected) {
        return Some(plain);
    }
    let mut escaped = format!("{signs} ");
    for c in words.chars() {
        if "\\`*_[]<>&{}#~|!".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    Some(escaped)
}

/// Returns true if Markdown reads a line as a heading with these words.
fn is_heading(line: &str, expected: &str) -> bool {
    match markdown::structure(line) {
        Structure::Sections { headings, .. } => {
            matches!(headings.as_slice(), [only] if only.text == expected)
        }
        _ => false,
    }
}

/// Returns the words with a backslash where a line would be more than text.
pub fn escaped(words: &str) -> Cow<'_, str> {
    // The name that a definition begins with may go over lines.
    let last_definition = words.rfind("]:");
    let mut text = String::new();
    // The end of what has been written to `text`.
    let mut written = 0;
    let mut begin = 0;
    for line in words.split_inclusive('\n') {
        let is_before_definition = last_definition.is_some_and(|at| begin < at);
        if let Some(at) = markup_in(line, begin > 0, is_before_definition) {
            text.push_str(&words[written..begin + at]);
            text.push('\\');
            written = begin + at;
        }
        begin += line.len();
    }
    if text.is_empty() {
        return words.into();
    }
    text.push_str(&words[written..]);
    text.into()
}

/// Returns the place of a sign that would make a line a heading, the line below one, a
/// definition, or the beginning of a block that does not end at an empty line.
fn markup_in(line: &str, is_continued: bool, is_before_definition: bool) -> Option<usize> {
    // A line below another one may be in the same quotation.
    let quoted = line.trim_start_matches(['>', ' ', '\t']);
    if is_continued && is_underline(quoted.trim_end()) {
        return Some(line.len() - quoted.len());
    }
    // Quotations and items may hold blocks.
    let mut rest = line.trim_start();
    while let Some(inner) = inside_marker(rest) {
        rest = inner;
    }
    let after_signs = rest.trim_start_matches('#');
    let signs = rest.len() - after_signs.len();
    let is_heading = (1..=6).contains(&signs)
        && (after_signs.is_empty() || after_signs.starts_with([' ', '\t', '\r', '\n']));
    let is_fence = rest.starts_with("```") || rest.starts_with("~~~");
    let is_definition = is_before_definition && rest.starts_with('[') && !rest.starts_with("[^");
    (is_heading || is_fence || is_definition || begins_raw_html(rest))
        .then(|| line.len() - rest.len())
}

/// Returns true for the line that makes the line above it a heading.
fn is_underline(line: &str) -> bool {
    ["=", "-"]
        .iter()
        .any(|sign| !line.is_empty() && line.trim_start_matches(sign).is_empty())
}

/// Returns what follows after the sign of a quotation or an item.
fn inside_marker(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix('>') {
        return Some(rest.trim_start());
    }
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*', '+'])?,
        1..=9 => line[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let inner = rest.trim_start();
    (inner.len() < rest.len()).then_some(inner)
}

/// Returns true for HTML that Markdown reads up to its end, over empty lines.
fn begins_raw_html(line: &str) -> bool {
    const NAMES: [&str; 4] = ["script", "pre", "style", "textarea"];
    let Some(rest) = line.strip_prefix('<') else {
        return false;
    };
    rest.starts_with(['!', '?'])
        || NAMES.iter().any(|name| {
            rest.get(..name.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(name))
                && !rest[name.len()..].starts_with(|c: char| c.is_alphanumeric())
        })
}

/// Returns a table. Its head has a cell for each column, and other rows may be shorter: with all
/// of them, one wide row among many would be larger than memory.
fn table(rows: &[Vec<String>]) -> Option<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    let rows = rows
        .iter()
        .filter(|row| row.iter().any(|cell| !cell.trim().is_empty()));
    for (i, row) in rows.enumerate() {
        text.push_str(if i > 0 { "\n|" } else { "|" });
        let width = if i == 0 { columns } else { row.len() };
        for column in 0..width {
            let cell = row.get(column).map_or("", String::as_str);
            for word in cell.split_whitespace() {
                text.push(' ');
                text.push_str(&word.replace('|', "\\|"));
            }
            text.push_str(" |");
        }
        if i == 0 {
            text.push_str("\n|");
            text.push_str(&" --- |".repeat(columns));
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Returns lines of code between fences that they do not contain.
fn fenced(language: &str, code: &str) -> Option<String> {
    let code = code.trim_matches(['\n', '\r']).trim_end();
    if code.trim().is_empty() {
        return None;
    }
    let mut longest = 2;
    let mut run = 0;
    for c in code.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    Some(format!("{fence}{language}\n{code}\n{fence}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headings(text: &str) -> Vec<String> {
        match markdown::structure(text) {
            Structure::Sections { headings, .. } => headings.into_iter().map(|h| h.text).collect(),
            _ => vec![],
        }
    }

    #[test]
    fn words_that_look_like_markup_stay_words() {
        for (words, expected) in [
            ("# set the limit", "\\# set the limit"),
            ("plain", "plain"),
            ("#hashtag #1", "#hashtag #1"),
            ("Title\n---", "Title\n\\---"),
            ("Title\n=", "Title\n\\="),
            (">Title\n> =", ">Title\n> \\="),
            ("---", "---"),
            ("1. # x", "1. \\# x"),
            ("> ## x", "> \\## x"),
            ("```sh\nrm", "\\```sh\nrm"),
            ("<!-- open", "\\<!-- open"),
            ("<Script>", "\\<Script>"),
            ("<premium>", "<premium>"),
            ("-5 # below", "-5 # below"),
            ("[1]: see below", "\\[1]: see below"),
            ("- [a\nb]: x", "- \\[a\nb]: x"),
            ("[draft] of [1]", "[draft] of [1]"),
        ] {
            assert_eq!(markdown(&[Block::Text(words.into())]), expected);
        }
    }

    #[test]
    fn headings_keep_their_words() {
        for (words, expected) in [
            ("List<T> of *all*", "# List\\<T\\> of \\*all\\*"),
            ("max_connections", "# max_connections"),
            ("C #", "# C \\#"),
            ("Sets {x}", "# Sets \\{x\\}"),
            ("two\nlines", "# two lines"),
        ] {
            let heading = Block::Heading {
                level: 1,
                text: words.into(),
            };
            assert_eq!(markdown(std::slice::from_ref(&heading)), expected);
        }
    }

    #[test]
    fn items_are_indented_step_by_step() {
        let item = |depth, label: &str, text: &str| Block::Item {
            depth,
            label: label.into(),
            text: text.into(),
        };
        let blocks = [
            Block::Text("before".into()),
            item(3, "", "deep"),
            item(3, "a)", "deeper"),
            item(0, "1.", "one"),
            item(0, "2.", " "),
            Block::Text(" ".into()),
            item(0, "3.", "three"),
            Block::Text("after".into()),
        ];
        assert_eq!(
            markdown(&blocks),
            "before\n\n  - deep\n    a) deeper\n1. one\n3. three\n\nafter"
        );
    }

    #[test]
    fn a_wide_row_does_not_widen_the_others() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let table = Block::Table(vec![row(&["k"]), row(&["a", "b"]), row(&["c"])]);
        let expected = "| k | |\n| --- | --- |\n| a | b |\n| c |";
        assert_eq!(markdown(&[table]), expected);
        // With all its cells, the table would have 20 GB.
        let mut rows = vec![vec!["x".to_owned(); 100_000]];
        rows.resize(100_000, vec!["y".to_owned()]);
        assert_eq!(markdown(&[Block::Table(rows)]).lines().count(), 100_001);
    }

    #[test]
    fn code_with_fences_has_longer_fences() {
        let code = Block::Code {
            language: "md".into(),
            text: "\n```\n# no\n```\n".into(),
        };
        let text = markdown(&[code]);
        assert_eq!(text, "````md\n```\n# no\n```\n````");
        assert!(headings(&text).is_empty());
    }

    proptest! {
        #[test]
        fn only_headings_are_headings(
            words in prop::collection::vec(
                "(([#>*+=`~<!-]|-- |1\\. |# |\n|<pre>|<!--|\\[|\\]:|x|é| ){0,12}|[ -~\n]{0,30})", 1..6),
            level in 1usize..7,
        ) {
            let mut blocks = vec![];
            let mut expected = vec![];
            for text in words {
                expected.extend(title::heading(&text));
                blocks.push(Block::Text(text.clone()));
                blocks.push(Block::Heading { level, text: text.clone() });
                blocks.push(Block::Item { depth: 0, label: String::new(), text: text.clone() });
                blocks.push(Block::Item { depth: 1, label: "2.".into(), text });
            }
            let text = markdown(&blocks);
            prop_assert_eq!(headings(&text), expected, "{}", text);
        }
    }
}
