//! Rows of CSV. Any text has rows: what is not well-formed is read as it most likely is meant.
//!
//! A quotation mark that is not closed is a character like others. Else it would swallow the rest
//! of the file. It counts as not closed if no mark before a delimiter or a line end follows, if
//! another value begins with a mark before that one, or if the lines in between look like rows.

use std::borrow::Cow;

/// How values are written.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    pub delimiter: u8,
    /// A mark inside of marks is `\"` as well as `""`.
    pub is_escaped: bool,
    /// The number of values that most rows have, or 0 if it is not known yet.
    pub width: usize,
}

/// Maximum number of bytes that are read again because of marks that are not closed. Beyond it
/// marks are characters.
const MAX_AGAIN: usize = 8 << 20;
/// Number of lines in marks that may look like rows.
const FEW_LINES: usize = 3;

pub struct Rows<'a> {
    file: &'a str,
    at: usize,
    dialect: Dialect,
    /// From here on no mark is closed.
    unclosed_from: usize,
    again: usize,
    /// Places of marks that are not closed: how many, and the first.
    pub unclosed: (usize, usize),
}

impl<'a> Rows<'a> {
    pub fn new(file: &'a str, dialect: Dialect) -> Self {
        Self {
            file,
            at: 0,
            dialect,
            unclosed_from: file.len(),
            again: 0,
            unclosed: (0, 0),
        }
    }

    /// Returns the number of values that most rows have.
    pub fn width(&self) -> usize {
        self.dialect.width
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.file.as_bytes().get(at).copied()
    }

    fn is_end_of_value(&self, at: usize) -> bool {
        self.byte(at)
            .is_none_or(|b| b == self.dialect.delimiter || matches!(b, b'\n' | b'\r'))
    }

    /// Returns the place of the first character that is no space.
    fn after_spaces(&self, from: usize) -> usize {
        let is_space = |b: u8| matches!(b, b' ' | b'\t') && b != self.dialect.delimiter;
        let mut at = from;
        while self.byte(at).is_some_and(is_space) {
            at += 1;
        }
        at
    }

    fn value(&mut self) -> Cow<'a, str> {
        let start = self.after_spaces(self.at);
        if self.byte(start) == Some(b'"')
            && let Some((value, end)) = self.quoted(start)
        {
            self.at = end;
            return value.trim().to_owned().into();
        }
        let start = self.at;
        while !self.is_end_of_value(self.at) {
            self.at += 1;
        }
        self.file[start..self.at].trim().into()
    }

    /// Reads a value in marks. Returns it and its end, or `None` if the mark is not closed.
    fn quoted(&mut self, start: usize) -> Option<(String, usize)> {
        if start >= self.unclosed_from || self.again > MAX_AGAIN {
            self.tell(start);
            return None;
        }
        let read = self.up_to_mark(start);
        match read {
            Ok(found) => Some(found),
            Err(at) => {
                self.again += at - start;
                if at == self.file.len() {
                    self.unclosed_from = start;
                }
                self.tell(start);
                None
            }
        }
    }

    fn tell(&mut self, at: usize) {
        if self.unclosed.0 == 0 {
            self.unclosed.1 = at;
        }
        self.unclosed.0 += 1;
    }

    /// Returns the value and its end, or the place at which it is clear that the mark is not
    /// closed.
    fn up_to_mark(&self, start: usize) -> Result<(String, usize), usize> {
        let mut value = String::new();
        let mut from = start + 1;
        let mut at = from;
        let (mut lines, mut has_delimiter) = (0, false);
        while let Some(byte) = self.byte(at) {
            let next = self.byte(at + 1);
            match byte {
                b'\\' if self.dialect.is_escaped && matches!(next, Some(b'"' | b'\\')) => {
                    value.push_str(&self.file[from..at]);
                    from = at + 1;
                    at += 2;
                    continue;
                }
                b'"' if next == Some(b'"') => {
                    value.push_str(&self.file[from..at]);
                    from = at + 1;
                    at += 2;
                    continue;
                }
                b'"' => {
                    let end = self.after_spaces(at + 1);
                    if self.is_end_of_value(end) {
                        value.push_str(&self.file[from..at]);
                        // Values of TSV have no lines, but spreadsheets write some.
                        let is_tsv = self.dialect.delimiter == b'\t';
                        let is_open = lines > 0 && is_tsv && has_delimiter
                            || lines >= FEW_LINES && self.looks_like_rows(start, at);
                        return if is_open { Err(at) } else { Ok((value, end)) };
                    }
                    let before = self.byte(at - 1);
                    if lines > 0
                        && before.is_some_and(|b| b == self.dialect.delimiter || b == b'\n')
                    {
                        return Err(at);
                    }
                }
                b'\n' => lines += 1,
                byte => has_delimiter |= byte == self.dialect.delimiter,
            }
            at += 1;
        }
        Err(self.file.len())
    }

    /// Returns true if most of the lines between two places have as many values as a row.
    fn looks_like_rows(&self, start: usize, end: usize) -> bool {
        if self.dialect.width < 2 {
            return false;
        }
        let lines: Vec<&str> = self.file[start..end].lines().collect();
        let whole = lines.get(1..lines.len() - 1).unwrap_or_default();
        let is_row = |line: &&&str| {
            let delimiters = line.bytes().filter(|b| *b == self.dialect.delimiter);
            delimiters.count() + 1 == self.dialect.width
        };
        let rows = whole.iter().filter(is_row).count();
        rows * 3 >= whole.len() * 2
    }

    /// Returns the number of the line of a place, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.file[..at].matches('\n').count() + 1
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Vec<Cow<'a, str>>;

    /// Returns the next row that has a character, with its values trimmed.
    fn next(&mut self) -> Option<Self::Item> {
        while matches!(self.byte(self.at), Some(b'\n' | b'\r')) {
            self.at += 1;
        }
        self.byte(self.at)?;
        let mut row = vec![];
        loop {
            row.push(self.value());
            if self.byte(self.at) != Some(self.dialect.delimiter) {
                return Some(row);
            }
            self.at += 1;
        }
    }
}
