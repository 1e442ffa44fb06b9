use super::QuotedChunk;

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
    /// Adds a chunk. A head of a table is added only if the rows before it are not there.
    pub fn push(&mut self, chunk: &QuotedChunk) {
        let (index, start) = (chunk.index, i64::from(chunk.start));
        let (content, piece) = (chunk.content.as_str(), chunk.piece());
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
                self.text.push_str(piece);
            }
            Some((_, end)) => {
                let overlap = usize::try_from(end - start).unwrap_or_default();
                self.text.extend(piece.chars().skip(overlap));
            }
        }
        let end = start + piece.chars().count() as i64;
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
            joined.push(&QuotedChunk {
                index: *index,
                start: *start,
                head_length: 0,
                content: (*content).to_owned(),
            });
        }
        joined.into_text()
    }

    #[test]
    fn a_head_is_before_rows_that_continue_nothing() {
        let rows = |index, start| QuotedChunk {
            index,
            start,
            head_length: 9,
            content: format!("|Größe|\n-\n|{index}|\n"),
        };
        for (chunks, expected) in [
            (vec![rows(1, 40), rows(2, 44)], "|Größe|\n-\n|1|\n|2|\n"),
            (vec![rows(1, 40), rows(2, 45)], "|Größe|\n-\n|1|\n\n|2|\n"),
            (
                vec![rows(1, 40), rows(3, 48)],
                "|Größe|\n-\n|1|\n\n[...]\n|Größe|\n-\n|3|\n",
            ),
        ] {
            let mut joined = JoinedText::default();
            for chunk in &chunks {
                joined.push(chunk);
            }
            assert_eq!(joined.into_text(), expected);
        }
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
