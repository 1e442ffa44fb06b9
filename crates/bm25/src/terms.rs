//! The terms of a document or of a query, with their frequencies.

use rag_pages::memory::{OutOfMemory, append, push};

/// Longer terms are cut. PostgreSQL's parser has the same limit for words (MAXSTRLEN).
pub const MAX_TERM_BYTES: usize = 2047;

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
        let found = self
            .entries
            .binary_search_by(|entry| self.bytes[entry.start..entry.end].cmp(term));
        found.map_or(0, |place| self.entries[place].frequency)
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
}
