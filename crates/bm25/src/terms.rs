//! The terms of a document or of a query, with their frequencies.

use rag_pages::memory::{OutOfMemory, append, push};

/// Longer terms are cut. PostgreSQL's parser has the same limit for words (MAXSTRLEN).
pub const MAX_TERM_BYTES: usize = 2047;

/// The stored frequency of a term that is one part of a compound in a document, and no word of its
/// own. A word is stored as 1, because most are, and 1 takes least room. Higher frequencies are
/// stored as 1 more.
pub const PART: u32 = 2;

/// A multiset of terms. Terms are arbitrary bytes, usually lexemes of a text search configuration.
///
/// Add terms in any order, then call [`finish`](Self::finish).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    bytes: Vec<u8>,
    entries: Vec<TermEntry>,
    length: u64,
}

/// A term in the bytes of [`Terms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TermEntry {
    start: usize,
    end: usize,
    frequency: u32,
}

impl Terms {
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all terms and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.length = 0;
    }

    /// Adds an occurrence of a term. Empty terms are left out.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add(&mut self, term: &[u8]) -> Result<(), OutOfMemory> {
        self.push_counted(term, 1)
    }

    /// Adds some occurrences of a term.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn push_counted(&mut self, term: &[u8], frequency: u32) -> Result<(), OutOfMemory> {
        if term.is_empty() || frequency == 0 {
            return Ok(());
        }
        let start = self.bytes.len();
        append(&mut self.bytes, &term[..term.len().min(MAX_TERM_BYTES)])?;
        let entry = TermEntry {
            start,
            end: self.bytes.len(),
            frequency,
        };
        push(&mut self.entries, entry)?;
        self.length += u64::from(frequency);
        Ok(())
    }

    /// Adds a term whose frequency is counted in halves: 2 for a word, and 1 for a part of a
    /// compound. Parts do not make a document longer.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add_halves(&mut self, term: &[u8], halves: u32) -> Result<(), OutOfMemory> {
        let length = self.length;
        self.push_counted(term, halves)?;
        self.length = length + u64::from(halves / 2);
        Ok(())
    }

    /// Sorts the terms of a document, whose frequencies are halves, and makes frequencies of these
    /// as an index with [parts](crate::Parameters::has_parts) stores them: see [`PART`]. Halves
    /// beside words are left out.
    pub fn finish_halves(&mut self) {
        self.finish();
        for entry in &mut self.entries {
            entry.frequency = match entry.frequency {
                1 => PART,
                2 | 3 => 1,
                halves => halves / 2 + 1,
            };
        }
    }

    /// Sorts the terms and counts equal ones.
    pub fn finish(&mut self) {
        let bytes = &self.bytes;
        let term = |entry: &TermEntry| &bytes[entry.start..entry.end];
        self.entries.sort_unstable_by(|a, b| term(a).cmp(term(b)));
        self.entries.dedup_by(|later, kept| {
            let equal = term(later) == term(kept);
            if equal {
                kept.frequency = kept.frequency.saturating_add(later.frequency);
            }
            equal
        });
    }

    /// Returns the terms and their frequencies in the order of their bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], u32)> {
        let bytes = &self.bytes;
        self.entries
            .iter()
            .map(move |entry| (&bytes[entry.start..entry.end], entry.frequency))
    }

    /// Returns the number of different terms.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of terms with repetitions.
    pub fn length(&self) -> u32 {
        u32::try_from(self.length).unwrap_or(u32::MAX)
    }

    /// Returns the frequency of a term, or 0.
    pub fn frequency(&self, term: &[u8]) -> u32 {
        let place = self.place(term);
        place.map_or(0, |place| self.entries[place].frequency)
    }

    /// Returns the place of a term in [`iter`](Self::iter).
    pub fn place(&self, term: &[u8]) -> Option<usize> {
        self.entries
            .binary_search_by(|entry| self.bytes[entry.start..entry.end].cmp(term))
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_terms_are_counted() {
        let mut terms = Terms::new();
        for term in ["log", "wal", "log", "", "archive", "log"] {
            terms.add(term.as_bytes()).unwrap();
        }
        terms.finish();
        let found: Vec<_> = terms.iter().collect();
        assert_eq!(found, [(&b"archive"[..], 1), (b"log", 3), (b"wal", 1)]);
        assert_eq!((terms.len(), terms.length()), (3, 5));
        assert_eq!((terms.frequency(b"log"), terms.frequency(b"lo")), (3, 0));
    }

    #[test]
    fn parts_are_halves_and_not_counted_in_the_length() {
        let mut terms = Terms::new();
        let added = [
            ("a", 1),
            ("b", 2),
            ("c", 2),
            ("c", 1),
            ("d", 1),
            ("d", 1),
            ("e", 2),
            ("e", 2),
        ];
        for (term, halves) in added {
            terms.add_halves(term.as_bytes(), halves).unwrap();
        }
        terms.finish_halves();
        let found: Vec<_> = terms.iter().collect();
        let expected = [
            (&b"a"[..], PART),
            (b"b", 1),
            (b"c", 1),
            (b"d", 1),
            (b"e", 3),
        ];
        assert_eq!((found.as_slice(), terms.length()), (&expected[..], 4));
    }
}
