//! The terms of a document or of a query, with their frequencies.

use rag_pages::memory::{OutOfMemory, append, push};

/// Longer terms are cut. PostgreSQL's parser has the same limit for words (MAXSTRLEN).
pub const MAX_TERM_BYTES: usize = 2047;

/// The stored frequency of a term that is one part of a compound in a document, and no word of its
/// own. A word is stored as 1, because most are, and 1 takes least room. Higher frequencies are
/// stored as 1 more.
pub const PART: u32 = 2;

/// The position of a term that has none, such as one that is in no text.
const NOWHERE: u32 = u32::MAX;

/// A multiset of terms. Terms are arbitrary bytes, usually lexemes of a text search configuration.
/// It may know at which positions of the text each of them is.
///
/// Add terms in any order, then call [`finish`](Self::finish).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    bytes: Vec<u8>,
    entries: Vec<TermEntry>,
    length: u64,
    /// After [`finish`](Self::finish) the positions of each term, one term after another. Before,
    /// there is only room for them.
    positions: Vec<u32>,
    has_positions: bool,
}

/// A term in the bytes of [`Terms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TermEntry {
    start: usize,
    end: usize,
    frequency: u32,
    /// Its position. After [`finish`](Terms::finish), where its positions end. 0 if terms have no
    /// positions.
    at: u32,
}

impl Terms {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns terms that have positions, if they are added with some.
    pub fn with_positions() -> Self {
        Self {
            has_positions: true,
            ..Self::default()
        }
    }

    /// Returns true if terms have positions.
    pub fn has_positions(&self) -> bool {
        self.has_positions
    }

    /// Removes all terms and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.positions.clear();
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
        self.push(term, frequency, NOWHERE)
    }

    fn push(&mut self, term: &[u8], frequency: u32, at: u32) -> Result<(), OutOfMemory> {
        if term.is_empty() || frequency == 0 {
            return Ok(());
        }
        let start = self.bytes.len();
        append(&mut self.bytes, &term[..term.len().min(MAX_TERM_BYTES)])?;
        let entry = TermEntry {
            start,
            end: self.bytes.len(),
            frequency,
            at: if self.has_positions { at } else { 0 },
        };
        if self.has_positions && at != NOWHERE {
            push(&mut self.positions, 0)?;
        }
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
        self.add_halves_at(term, halves, None)
    }

    /// Adds an occurrence of a term at a position, or at none. The position is left out if terms
    /// have no positions.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add_at(&mut self, term: &[u8], at: Option<u32>) -> Result<(), OutOfMemory> {
        self.push(term, 1, at.unwrap_or(NOWHERE))
    }

    /// Does what [`add_halves`](Self::add_halves) and [`add_at`](Self::add_at) do.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add_halves_at(
        &mut self,
        term: &[u8],
        halves: u32,
        at: Option<u32>,
    ) -> Result<(), OutOfMemory> {
        let length = self.length;
        self.push(term, halves, at.unwrap_or(NOWHERE))?;
        if !term.is_empty() {
            self.length = length + u64::from(halves / 2);
        }
        Ok(())
    }

    /// Sorts the terms of a document, whose frequencies are halves, and makes frequencies of these
    /// as an index with [parts](crate::Parameters::has_parts) stores them: see [`PART`]. Halves
    /// beside words are left out.
    pub fn finish_halves(&mut self) {
        self.finish();
        for entry in &mut self.entries {
            entry.frequency = stored_of(entry.frequency);
        }
    }

    /// Sorts the terms and counts equal ones.
    pub fn finish(&mut self) {
        let bytes = &self.bytes;
        let term = |entry: &TermEntry| &bytes[entry.start..entry.end];
        if self.has_positions {
            return self.finish_positions();
        }
        self.entries.sort_unstable_by(|a, b| term(a).cmp(term(b)));
        self.entries.dedup_by(|later, kept| {
            let equal = term(later) == term(kept);
            if equal {
                kept.frequency = kept.frequency.saturating_add(later.frequency);
            }
            equal
        });
    }

    /// Does what [`finish`](Self::finish) does, and collects the positions of each term.
    fn finish_positions(&mut self) {
        let bytes = &self.bytes;
        let term = |entry: &TermEntry| &bytes[entry.start..entry.end];
        self.entries
            .sort_unstable_by(|a, b| (term(a), a.at).cmp(&(term(b), b.at)));
        self.positions.clear();
        let mut kept = 0;
        for i in 0..self.entries.len() {
            let entry = self.entries[i];
            let is_new = kept == 0 || term(&self.entries[kept - 1]) != term(&entry);
            if is_new {
                self.entries[kept] = entry;
                kept += 1;
            } else {
                let frequency = &mut self.entries[kept - 1].frequency;
                *frequency = frequency.saturating_add(entry.frequency);
            }
            let is_known = !is_new && self.positions.last() == Some(&entry.at);
            // `push` has made room for each
            if entry.at != NOWHERE && !is_known {
                self.positions.push(entry.at);
            }
            self.entries[kept - 1].at = self.positions.len() as u32;
        }
        self.entries.truncate(kept);
    }

    /// Returns the terms, their frequencies and their positions, in the order of their bytes.
    pub fn iter_with_positions(&self) -> impl ExactSizeIterator<Item = (&[u8], u32, &[u32])> {
        let mut start = 0;
        self.iter()
            .zip(&self.entries)
            .map(move |((term, frequency), entry)| {
                let end = entry.at as usize;
                let positions = self.positions.get(start..end).unwrap_or_default();
                start = end;
                (term, frequency, positions)
            })
    }

    /// Returns the positions of a term, in ascending order.
    pub fn positions(&self, term: &[u8]) -> &[u32] {
        let Some(place) = self.number(term) else {
            return &[];
        };
        let start = place
            .checked_sub(1)
            .map_or(0, |before| self.entries[before].at);
        let range = start as usize..self.entries[place].at as usize;
        self.positions.get(range).unwrap_or_default()
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
        self.number(term)
            .map_or(0, |place| self.entries[place].frequency)
    }

    /// Returns the number of a term in the order of [`iter`](Self::iter).
    pub fn number(&self, term: &[u8]) -> Option<usize> {
        let compare = |entry: &TermEntry| self.bytes[entry.start..entry.end].cmp(term);
        self.entries.binary_search_by(compare).ok()
    }
}

/// Returns the frequency that an index with parts stores for one in halves.
pub fn stored_of(halves: u32) -> u32 {
    match halves {
        0 => 0,
        1 => PART,
        2 | 3 => 1,
        halves => halves / 2 + 1,
    }
}

/// Returns the frequency in halves of one that an index with parts stores.
pub fn halves_of(stored: u32) -> u32 {
    match stored {
        0 => 0,
        1 => 2,
        PART => 1,
        stored => (stored - 1).saturating_mul(2),
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
    fn positions_are_those_of_each_term() {
        let mut terms = Terms::with_positions();
        let added = [
            ("wal", Some(9)),
            ("log", Some(3)),
            ("mark", None),
            ("log", None),
            ("log", Some(u32::MAX - 1)),
            ("log", Some(3)),
            ("archive", Some(0)),
        ];
        for (term, at) in added {
            terms.add_at(term.as_bytes(), at).unwrap();
        }
        terms.finish();
        let found: Vec<_> = terms.iter_with_positions().collect();
        let expected: [(&[u8], u32, &[u32]); 4] = [
            (b"archive", 1, &[0]),
            (b"log", 4, &[3, u32::MAX - 1]),
            (b"mark", 1, &[]),
            (b"wal", 1, &[9]),
        ];
        assert_eq!(found, expected);
        for (term, _, positions) in expected {
            assert_eq!(terms.positions(term), positions);
        }
        assert_eq!(terms.positions(b"lo"), &[] as &[u32]);
        let mut without = Terms::new();
        without.add_at(b"log", Some(7)).unwrap();
        without.finish();
        assert_eq!(without, terms_of(&["log"]));
        assert_eq!(without.positions(b"log"), &[] as &[u32]);
    }

    fn terms_of(words: &[&str]) -> Terms {
        let mut terms = Terms::new();
        for word in words {
            terms.add(word.as_bytes()).unwrap();
        }
        terms.finish();
        terms
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
            ("", 2),
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
