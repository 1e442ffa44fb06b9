//! Texts as one line of a terminal.

use unicode_width::UnicodeWidthChar;

/// Stands where text was left out.
const LEFT_OUT: char = '…';

/// Returns the beginning of a text, as one line that fits into a number of columns of a terminal.
pub fn fitted(text: &str, width: usize) -> String {
    let text = &one_line(text);
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let mut kept: String = text
        .chars()
        .take_while(|c| {
            used += columns_of(*c);
            used <= width
        })
        .collect();
    kept.truncate(kept.trim_end().len());
    kept.push(LEFT_OUT);
    kept
}

/// Returns the end of a text, as one line that fits into a number of columns of a terminal.
pub fn fitted_end(text: &str, width: usize) -> String {
    let text = &one_line(text);
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let kept = text.chars().rev().take_while(|c| {
        used += columns_of(*c);
        used <= width
    });
    let reversed: Vec<char> = kept.collect();
    std::iter::once(LEFT_OUT)
        .chain(reversed.into_iter().rev())
        .collect()
}

/// Returns the number of columns of a text in a terminal.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns the number of columns of a character: 2 for wide ones, 0 for marks on others.
pub fn columns_of(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Returns a text with single spaces for line ends, control characters and other white space.
pub fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(fitted("数据库检索", 10), "数据库检索");
        assert_eq!(fitted("数据库检索", 9), "数据库检…");
        assert_eq!(fitted_end("docs/guide/keys.md:12-30", 14), "…keys.md:12-30");
    }

    #[test]
    fn a_line_has_single_blanks() {
        assert_eq!(fitted("  short \n text ", 20), "short text");
        assert_eq!(
            fitted("The canteen opens at noon.", 20),
            "The canteen opens a…"
        );
    }
}
