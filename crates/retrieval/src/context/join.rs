/// Stands between chunks of a document that do not follow each other.
pub const GAP: &str = "[...]";

/// The text of several chunks of a document, in reading order. What two chunks share is not
/// repeated.
#[derive(Debug, Default)]
pub struct JoinedText {
    text: String,
    /// The position of the last chunk, and the character after its end.
    last: Option<(i32, i64)>,
}

impl JoinedText {
    /// Adds the chunk at position `index`, which begins at the character `start` of the document.
    pub fn push(&mut self, index: i32, start: i32, content: &str) {
        let start = i64::from(start);
        match self.last {
            None => self.text.push_str(content),
            Some((last, _)) if index > last + 1 => {
                self.text.push('\n');
                self.text.push_str(GAP);
                self.text.push('\n');
                self.text.push_str(content);
            }
            // the text between chunks is white space
            Some((_, end)) if start > end => {
                self.text.push('\n');
                self.text.push_str(content);
            }
            Some((_, end)) => {
                let overlap = usize::try_from(end - start).unwrap_or_default();
                self.text.extend(content.chars().skip(overlap));
            }
        }
        let end = start + content.chars().count() as i64;
        let end = self.last.map_or(end, |(_, before)| end.max(before));
        self.last = Some((index, end));
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(chunks: &[(i32, i32, &str)]) -> String {
        let mut joined = JoinedText::default();
        for (index, start, content) in chunks {
            joined.push(*index, *start, content);
        }
        joined.into_text()
    }

    #[test]
    fn overlaps_are_not_repeated() {
        assert_eq!(
            joined(&[(3, 10, "grün, blau, "), (4, 16, "blau, rot")]),
            "grün, blau, rot"
        );
    }

    #[test]
    fn white_space_between_chunks_is_a_line_end() {
        assert_eq!(joined(&[(0, 0, "one"), (1, 6, "two")]), "one\ntwo");
    }

    #[test]
    fn gaps_are_marked() {
        assert_eq!(
            joined(&[(0, 0, "one"), (2, 9, "three")]),
            "one\n[...]\nthree"
        );
    }

    #[test]
    fn a_chunk_within_the_last_one_adds_nothing() {
        assert_eq!(
            joined(&[(0, 0, "abcdef"), (1, 2, "cd"), (2, 4, "efg")]),
            "abcdefg"
        );
    }
}
