//! Finds where sentences begin, by Unicode's rules (UAX 29), many times faster for ASCII text.
//!
//! The rules start again after the end of a line, so each line is examined separately. A line in
//! ASCII uses the rules as far as they concern ASCII, any other one `unicode-segmentation`.

use unicode_segmentation::UnicodeSegmentation;

/// The sentence starts of a text, in order.
pub struct Sentences<'a> {
    text: &'a str,
    /// The end of the line that `starts` belong to.
    line_end: usize,
    starts: std::vec::IntoIter<usize>,
    next: Option<usize>,
}

impl<'a> Sentences<'a> {
    pub fn of(text: &'a str) -> Self {
        let mut sentences = Self {
            text,
            line_end: 0,
            starts: vec![].into_iter(),
            next: None,
        };
        sentences.advance();
        sentences
    }

    /// Returns true if a sentence begins after the previous place and up to byte `at`.
    pub fn begins_up_to(&mut self, at: usize) -> bool {
        let mut begins = false;
        while self.next.is_some_and(|next| next <= at) {
            begins = true;
            self.advance();
        }
        begins
    }

    fn advance(&mut self) {
        self.next = loop {
            if let Some(start) = self.starts.next() {
                break Some(start);
            }
            let from = self.line_end;
            if from == self.text.len() {
                break None;
            }
            let rest = &self.text[from..];
            let line = &rest[..rest.find('\n').map_or(rest.len(), |at| at + 1)];
            self.line_end = from + line.len();
            let mut starts = std::mem::take(&mut self.starts).collect::<Vec<_>>();
            starts.clear();
            if line.is_ascii() {
                starts.push(from);
                ascii_starts(line.as_bytes(), |at| starts.push(from + at));
            } else {
                starts.extend(line.split_sentence_bound_indices().map(|(at, _)| from + at));
            }
            self.starts = starts.into_iter();
        };
    }
}

/// Where sentences begin in a line of ASCII, but for the first.
fn ascii_starts(line: &[u8], mut begins: impl FnMut(usize)) {
    let is_close =
        |byte: u8| matches!(byte, b'"' | b'\'' | b'(' | b')' | b'[' | b']' | b'{' | b'}');
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t' | 0x0B | 0x0C);
    let mut at = 0;
    while let Some(found) = line[at..]
        .iter()
        .position(|byte| matches!(byte, b'.' | b'!' | b'?' | b'\r'))
    {
        let terminator = at + found;
        at = terminator + 1;
        if line[terminator] == b'\r' {
            // The end of a line (SB4), with the line feed if that follows (SB3).
            let end = if line.get(at) == Some(&b'\n') {
                at + 1
            } else {
                at
            };
            if end < line.len() {
                begins(end);
            }
            at = end;
            continue;
        }
        let is_full_stop = line[terminator] == b'.';
        let before = terminator.checked_sub(1).map(|i| line[i]);
        let after = line.get(at).copied();
        // SB6, SB7: decimals and initials.
        if is_full_stop && after.is_some_and(|c| c.is_ascii_digit()) {
            continue;
        }
        if is_full_stop
            && before.is_some_and(|c| c.is_ascii_alphabetic())
            && after.is_some_and(|c| c.is_ascii_uppercase())
        {
            continue;
        }
        let mut next = at;
        while line.get(next).is_some_and(|c| is_close(*c)) {
            next += 1;
        }
        while line.get(next).is_some_and(|c| is_space(*c)) {
            next += 1;
        }
        match line.get(next) {
            None => return,
            // SB11 takes the end of the line in; SB8a: a comma, another terminator.
            Some(b'\n') => {
                at = next;
                continue;
            }
            Some(b'\r') => {
                at = next;
                continue;
            }
            Some(b',' | b'-' | b':' | b';' | b'.' | b'!' | b'?') => {
                at = next;
                continue;
            }
            Some(_) => {}
        }
        // SB8: a word in small letters follows, after anything but letters, ends and terminators.
        let word = line[next..]
            .iter()
            .find(|c| c.is_ascii_alphabetic() || matches!(c, b'\r' | b'\n' | b'.' | b'!' | b'?'));
        at = next;
        if is_full_stop && word.is_some_and(u8::is_ascii_lowercase) {
            continue;
        }
        begins(next);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn starts(text: &str) -> Vec<usize> {
        let mut sentences = Sentences::of(text);
        (0..text.len())
            .filter(|at| sentences.begins_up_to(*at))
            .collect()
    }

    fn expected(text: &str) -> Vec<usize> {
        text.split_sentence_bound_indices()
            .map(|(at, _)| at)
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None,
            ..Default::default() })]

        #[test]
        fn sentence_starts_are_those_of_the_standard(
            text in prop_oneof![
                "[aA1.!? \t\u{B}\u{C}\r\n\"'(),;:\\-_#]{0,24}",
                "[a-zA-Z0-9 .!?,\n\r\"()]{0,60}",
                "[a1A.!? \n\ré。\u{85}\u{2028}\"]{0,24}",
            ]
        ) {
            prop_assert_eq!(starts(&text), expected(&text), "{:?}", text);
        }
    }
}
