//! Keeps signs of prose from being read as Markdown, and all other signs as they are.
//!
//! `htmd` escapes each sign that could be markup anywhere: `max\_connections`. A reader sees no
//! backslash there, and a search for the name does not find it. So [`protect`] hides these signs
//! from `htmd`, and [`restore`] puts them back in the lines of the result: with a backslash where
//! Markdown would read a heading, a rule, code, emphasis, a link or a tag, else as they are. Items
//! of lists need none, because their words are the same.
//!
//! A hidden sign is one of Unicode's noncharacters, which no text has.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;

use super::html_tag;

/// Signs that Markdown reads inside of a line.
const INLINE: &str = "\\*_`[]<";
/// Signs that it reads at the start of one.
const LEADING: &str = "=~>-+#.";
/// The first noncharacter of signs that may be escaped, and of those that never are.
const PROSE: u32 = 0xFDD0;
const RAW: u32 = 0xFDE0;

/// Hides a text's signs so that they come back without a backslash.
pub fn raw(text: &str) -> String {
    text.chars().map(|c| hidden(c, RAW).unwrap_or(c)).collect()
}

/// Hides the signs of all texts below a node, except those of code.
pub fn protect(root: &Rc<Node>) {
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        if matches!(html_tag(&node), Some("pre" | "code")) {
            continue;
        }
        if let NodeData::Text { contents } = &node.data {
            let protected = protected(&contents.borrow());
            if let Some(protected) = protected {
                *contents.borrow_mut() = protected.into();
            }
        }
        stack.extend(node.children.borrow().iter().cloned());
    }
}

fn protected(text: &str) -> Option<String> {
    let begin = text.len() - text.trim_start().len();
    let digits = text[begin..].trim_start_matches(|c: char| c.is_ascii_digit());
    let first = text.len() - digits.len();
    let is_leading = |at: usize, c: char| match c {
        '.' => at == first && first > begin,
        _ => at == begin && LEADING.contains(c),
    };
    let must_hide = |(at, c)| INLINE.contains(c) || is_leading(at, c);
    text.char_indices().any(must_hide).then(|| {
        let hide = |(at, c)| {
            if must_hide((at, c)) {
                hidden(c, PROSE).unwrap_or(c)
            } else {
                c
            }
        };
        text.char_indices().map(hide).collect()
    })
}

fn hidden(c: char, first: u32) -> Option<char> {
    let index = INLINE
        .chars()
        .chain(LEADING.chars())
        .position(|sign| sign == c)?;
    char::from_u32(first + u32::try_from(index).ok()?)
}

/// Returns the sign that a noncharacter hides, if it is one of a set.
fn shown(c: char, first: u32) -> Option<char> {
    let index = usize::try_from(u32::from(c).checked_sub(first)?).ok()?;
    INLINE.chars().chain(LEADING.chars()).nth(index)
}

/// Puts the hidden signs back into a Markdown text.
pub fn restore(markdown: &str) -> String {
    let is_hidden = |c: char| ('\u{FDD0}'..='\u{FDEF}').contains(&c);
    if !markdown.contains(is_hidden) {
        return markdown.to_owned();
    }
    let mut text = String::with_capacity(markdown.len());
    for line in markdown.split_inclusive('\n') {
        if line.contains(is_hidden) {
            Line::of(line).write(&mut text);
        } else {
            text.push_str(line);
        }
    }
    text
}

/// A line with hidden signs.
struct Line {
    signs: Vec<char>,
    /// True if the sign is one of prose that was hidden.
    is_prose: Vec<bool>,
    /// Index of the first sign that is neither white space nor markup of lists and quotes.
    begin: usize,
}

impl Line {
    fn of(line: &str) -> Self {
        let (mut signs, mut is_prose) = (vec![], vec![]);
        for c in line.chars() {
            let prose = shown(c, PROSE);
            signs.push(prose.or_else(|| shown(c, RAW)).unwrap_or(c));
            is_prose.push(prose.is_some());
        }
        let is_markup = |i: usize| {
            !is_prose[i]
                && (signs[i].is_whitespace()
                    || signs[i].is_ascii_digit()
                    || ">*.".contains(signs[i]))
        };
        let begin = (0..signs.len())
            .find(|i| !is_markup(*i))
            .unwrap_or(signs.len());
        Self {
            signs,
            is_prose,
            begin,
        }
    }

    fn write(&self, text: &mut String) {
        let escaped = self.escaped();
        for (c, is_escaped) in self.signs.iter().zip(escaped) {
            if is_escaped {
                text.push('\\');
            }
            text.push(*c);
        }
    }

    /// Returns which signs need a backslash.
    fn escaped(&self) -> Vec<bool> {
        let mut escaped = vec![false; self.signs.len()];
        for mark in ['*', '_'] {
            self.escape_emphasis(mark, &mut escaped);
        }
        self.escape_links(&mut escaped);
        let backticks = self.signs.iter().filter(|c| **c == '`').count();
        let last_bracket = self.signs.iter().rposition(|c| *c == '>').unwrap_or(0);
        for i in (0..self.signs.len()).filter(|i| self.is_prose[*i]) {
            escaped[i] |= match self.signs[i] {
                '`' => backticks > 1,
                '<' => (last_bracket > i || i == self.begin) && self.begins_tag(i),
                _ => false,
            };
        }
        if self.begin < self.signs.len() && self.is_prose[self.begin] {
            escaped[self.begin] |= self.begins_block();
        }
        escaped
    }

    fn at(&self, i: usize) -> Option<char> {
        self.signs.get(i).copied().filter(|c| *c != '\n')
    }

    /// Returns true if Markdown would read a tag here.
    fn begins_tag(&self, i: usize) -> bool {
        match self.at(i + 1) {
            Some('/') => self.at(i + 2).is_some_and(|c| c.is_ascii_alphabetic()),
            Some(c) => c.is_ascii_alphabetic() || matches!(c, '!' | '?'),
            None => false,
        }
    }

    /// Returns true if Markdown would read a heading, a rule, a quote or a fence at the start of
    /// the line.
    fn begins_block(&self) -> bool {
        let first = self.signs[self.begin];
        let rest = &self.signs[self.begin..];
        let run = rest.iter().take_while(|c| **c == first).count();
        let after = rest.get(run).copied();
        let is_alone = rest.iter().all(|c| *c == first || c.is_whitespace());
        match first {
            '#' => run <= 6 && after.is_none_or(char::is_whitespace),
            '>' => true,
            '=' | '-' | '*' | '_' => is_alone,
            '~' | '`' => run >= 3,
            _ => false,
        }
    }

    /// Escapes the marks of pairs that Markdown would read as emphasis.
    fn escape_emphasis(&self, mark: char, escaped: &mut [bool]) {
        let runs = self.runs(mark);
        let last_end = runs.iter().rposition(|run| run.closes);
        let mut is_open = false;
        for (i, run) in runs.iter().enumerate() {
            let is_read = run.closes && is_open || run.opens && last_end.is_some_and(|end| end > i);
            is_open |= run.opens;
            escaped[run.from..run.to].fill(is_read);
        }
    }

    /// Returns the runs of a mark that may begin or end emphasis.
    fn runs(&self, mark: char) -> Vec<Run> {
        let mut runs = vec![];
        let mut i = 0;
        while i < self.signs.len() {
            let is_mark = |i: usize| self.is_prose[i] && self.signs[i] == mark;
            if !is_mark(i) {
                i += 1;
                continue;
            }
            let from = i;
            while i < self.signs.len() && is_mark(i) {
                i += 1;
            }
            let before = from.checked_sub(1).and_then(|i| self.at(i));
            let after = self.at(i);
            let is_space = |c: Option<char>| c.is_none_or(char::is_whitespace);
            let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            let opens = !is_space(after) && (is_word(after) || !is_word(before));
            let closes = !is_space(before) && (is_word(before) || !is_word(after));
            let is_inside = mark == '_' && is_word(before) && is_word(after);
            runs.push(Run {
                from,
                to: i,
                opens: opens && !is_inside,
                closes: closes && !is_inside,
            });
        }
        runs
    }

    /// Escapes brackets that Markdown would read as a link or as the address of one.
    fn escape_links(&self, escaped: &mut [bool]) {
        let mut open = vec![];
        for i in 0..self.signs.len() {
            match self.signs[i] {
                '[' => open.push(i),
                ']' => {
                    let Some(begin) = open.pop() else { continue };
                    let is_link = self.at(i + 1) == Some('(')
                        || (self.at(i + 1) == Some(':') && begin == self.begin);
                    escaped[begin] |= is_link && self.is_prose[begin];
                }
                _ => {}
            }
        }
    }
}

/// A run of marks for emphasis.
struct Run {
    from: usize,
    to: usize,
    opens: bool,
    closes: bool,
}

#[cfg(test)]
mod tests {
    fn text(html: &str) -> String {
        crate::html::extract(html, "a.html").unwrap().text
    }

    #[test]
    fn names_addresses_and_brackets_are_as_written() {
        for prose in [
            "Set max_connections and pg_stat_*, see https://example.org/my_page_one and [1].",
            "It is 2 * 3 = 6 or *.rs, a < b, ~/x and _private.",
            "1. First, then C:\\temp\\new_file.",
            "- a dash",
            "= 5",
            "the ` key",
            "\\(a_1 + b_1\\)",
            "#hashtag, f[i], [x] and [ ]",
            "-5 degrees",
        ] {
            assert_eq!(text(&format!("<p>{prose}</p>")), prose);
        }
    }

    #[test]
    fn signs_that_markdown_would_read_are_escaped() {
        for (html, expected) in [
            ("<p># Not a heading", "\\# Not a heading"),
            ("<p> # Nor this", "\\# Nor this"),
            ("<p>a<br>====", "a  \n\\===="),
            ("<p>a<br>---", "a  \n\\---"),
            ("<p>```<p>code", "\\`\\`\\`\n\ncode"),
            ("<p>~~~", "\\~~~"),
            ("<p>&gt; said", "\\> said"),
            (
                "<p>*so*, f*g*h and __init__",
                "\\*so\\*, f\\*g\\*h and \\_\\_init\\_\\_",
            ),
            ("<p>[a](b)", "\\[a](b)"),
            ("<p>[a]: b", "\\[a]: b"),
            ("<p>List&lt;String&gt;", "List\\<String>"),
            ("<p>`a` b", "\\`a\\` b"),
            ("<ul><li># x</ul>", "*   \\# x"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    #[test]
    fn code_is_never_escaped() {
        assert_eq!(text("<p>a_b <code>*c*_d_</code>"), "a_b `*c*_d_`");
        assert_eq!(text("<pre>*a* _b_ # c</pre>"), "```\n*a* _b_ # c\n```");
    }

    #[test]
    fn many_signs_take_little_time() {
        let signs = "[*_`<".repeat(200_000);
        assert!(text(&format!("<p>{signs}</p>")).len() >= signs.len());
    }
}
