//! A record of a pending document: some of its terms, with their frequencies, and perhaps their
//! positions.

mod write;

use std::mem::offset_of;

use rag_pages::{
    Tid,
    memory::{self, OutOfMemory},
};

use crate::{
    format::{RECORD_HEAD, RecordBytes, u16_at, u32_at},
    segment::layout::ByteReader,
};

pub use write::encode_document;

/// Flags of a record.
pub const DEAD: u8 = 1;
/// There are more records of this document.
pub const CONTINUES: u8 = 2;
/// This is not the first record of this document.
pub const CONTINUATION: u8 = 4;
/// The record has the positions of its terms.
pub const POSITIONS: u8 = 8;

/// A byte that stands for a number which is stored elsewhere in the record.
const WIDE: u8 = u8::MAX;
/// Bytes of a term in a record, beside the term itself: hash, frequency, length.
const TERM_HEAD: usize = 6;
const WIDE_FREQUENCY: usize = 4;
const WIDE_LENGTH: usize = 2;

/// A record on a page.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    head: &'a [u8],
    hashes: &'a [u8],
    frequencies: &'a [u8],
    lengths: &'a [u8],
    wide_frequencies: &'a [u8],
    wide_lengths: &'a [u8],
    strings: &'a [u8],
    positions: &'a [u8],
}

impl<'a> Record<'a> {
    /// Finds the parts of the record at the start of `bytes`.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, _) = bytes.split_at_checked(RECORD_HEAD)?;
        let size = usize::from(u16_at(head, offset_of!(RecordBytes, bytes)));
        let terms = usize::from(u16_at(head, offset_of!(RecordBytes, terms)));
        let rest = bytes.get(RECORD_HEAD..size)?;
        let (hashes, rest) = rest.split_at_checked(4 * terms)?;
        let (frequencies, rest) = rest.split_at_checked(terms)?;
        let (lengths, rest) = rest.split_at_checked(terms)?;
        let (wide_frequencies, rest) = rest.split_at_checked(WIDE_FREQUENCY * wide(frequencies))?;
        let (wide_lengths, strings) = rest.split_at_checked(WIDE_LENGTH * wide(lengths))?;
        let mut record = Self {
            head,
            hashes,
            frequencies,
            lengths,
            wide_frequencies,
            wide_lengths,
            strings,
            positions: &[],
        };
        let end = record.start(terms);
        if record.has(POSITIONS) {
            (record.strings, record.positions) = strings.split_at_checked(end)?;
        }
        (end == record.strings.len()).then_some(record)
    }

    #[inline]
    pub fn tid(&self) -> Tid {
        Tid::read(self.head)
    }

    /// Returns the encoded length of the whole document.
    #[inline]
    pub fn norm(&self) -> u8 {
        self.head[offset_of!(RecordBytes, norm)]
    }

    fn has(&self, flag: u8) -> bool {
        self.head[offset_of!(RecordBytes, flags)] & flag != 0
    }

    #[inline]
    pub fn is_dead(&self) -> bool {
        self.has(DEAD)
    }

    /// Returns true if there are more records of the same document.
    #[inline]
    pub fn continues(&self) -> bool {
        self.has(CONTINUES)
    }

    /// Returns true if this is not the first record of its document.
    #[inline]
    pub fn is_continuation(&self) -> bool {
        self.has(CONTINUATION)
    }

    /// Returns the bytes of the whole record.
    #[inline]
    pub fn bytes(&self) -> usize {
        usize::from(u16_at(self.head, offset_of!(RecordBytes, bytes)))
    }

    /// Returns the number of its terms.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the place and the frequency of a term, whose hash is that of [`hash`].
    #[inline]
    fn place_of(&self, hash: u32, term: &[u8]) -> Option<(usize, u32)> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.hash(middle) < hash {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let place = (low..self.len())
            .take_while(|i| self.hash(*i) == hash)
            .find(|i| self.term(*i) == term)?;
        Some((place, self.frequency(place)))
    }

    /// Returns the frequency of a term, whose hash is that of [`hash`], if the record has it.
    #[inline]
    pub fn find(&self, hash: u32, term: &[u8]) -> Option<u32> {
        // a record with further positions of a term has it with frequency 0
        let found = self.place_of(hash, term).map(|(_, frequency)| frequency);
        found.filter(|frequency| *frequency > 0)
    }

    /// Appends the positions of a term, whose hash is that of [`hash`], if the record has some.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn find_positions(
        &self,
        hash: u32,
        term: &[u8],
        found: &mut Vec<u32>,
    ) -> Result<(), OutOfMemory> {
        let Some((place, _)) = self.place_of(hash, term) else {
            return Ok(());
        };
        let (mut positions, mut of_term) = (self.positions(), vec![]);
        for _ in 0..=place {
            // what a search does not need to know is left to the check
            positions.next(&mut of_term)?;
        }
        memory::append(found, &of_term)
    }

    /// Begins to read the positions of its terms, in the order of [`terms`](Self::terms).
    pub fn positions(&self) -> RecordPositions<'a> {
        RecordPositions(self.has(POSITIONS).then(|| ByteReader::new(self.positions)))
    }

    /// Returns its terms with their frequencies, in the order of their hashes.
    pub fn terms(&self) -> impl Iterator<Item = (&'a [u8], u32)> + use<'a> {
        let record = *self;
        let (mut start, mut wide_before) = (0, 0);
        (0..record.len()).map(move |i| {
            let end = start + record.length(i, wide_before);
            wide_before += usize::from(record.lengths[i] == WIDE);
            let term = &record.strings[start..end];
            start = end;
            (term, record.frequency(i))
        })
    }

    #[inline]
    fn hash(&self, i: usize) -> u32 {
        u32_at(self.hashes, 4 * i)
    }

    /// Returns the length of a term. So many lengths before it are wide.
    #[inline]
    fn length(&self, i: usize, wide_before: usize) -> usize {
        match self.lengths[i] {
            WIDE => usize::from(u16_at(self.wide_lengths, WIDE_LENGTH * wide_before)),
            length => usize::from(length),
        }
    }

    /// Returns where a term starts in `strings`, or where the last one ends.
    #[inline]
    fn start(&self, i: usize) -> usize {
        let lengths = &self.lengths[..i];
        let sum: usize = lengths.iter().map(|length| usize::from(*length)).sum();
        let wide = if self.wide_lengths.is_empty() {
            0
        } else {
            wide(lengths)
        };
        let wide_sum: usize = (0..wide)
            .map(|k| usize::from(u16_at(self.wide_lengths, WIDE_LENGTH * k)))
            .sum();
        sum - wide * usize::from(WIDE) + wide_sum
    }

    #[inline]
    fn term(&self, i: usize) -> &'a [u8] {
        let start = self.start(i);
        &self.strings[start..start + self.length(i, wide(&self.lengths[..i]))]
    }

    #[inline]
    fn frequency(&self, i: usize) -> u32 {
        match self.frequencies[i] {
            WIDE => {
                let before = wide(&self.frequencies[..i]);
                u32_at(self.wide_frequencies, WIDE_FREQUENCY * before)
            }
            frequency => u32::from(frequency),
        }
    }

    /// Returns what is wrong with the record, if anything. A search does not need to know.
    pub fn problem(&self) -> Option<&'static str> {
        let ascends = (1..self.len()).all(|i| self.hash(i - 1) <= self.hash(i));
        let hashes = self.terms().enumerate();
        let mut hashes = hashes.map(|(i, (term, _))| hash(term) == self.hash(i));
        if self.tid().offset == 0 {
            Some("heap row has no valid offset")
        } else if self.len() == 0 {
            Some("record has no terms")
        } else if !ascends || !hashes.all(|is_right| is_right) {
            Some("record has wrong hashes")
        } else if self.terms().any(|(_, f)| f == 0) && !self.may_go_on() {
            Some("record has a term with frequency 0")
        } else if !self.has_readable_positions() {
            Some("record has positions that are not readable")
        } else {
            None
        }
    }

    /// Returns true if positions of the record before may go on in this one.
    fn may_go_on(&self) -> bool {
        self.has(POSITIONS) && self.is_continuation()
    }

    fn has_readable_positions(&self) -> bool {
        let (mut positions, mut of_term) = (self.positions(), vec![]);
        let mut terms = 0..self.len();
        terms.all(|_| positions.next(&mut of_term) == Ok(Some(())))
            && positions.0.is_none_or(|rest| rest.len() == 0)
    }
}

/// The positions of the terms of a record, one term after another.
pub struct RecordPositions<'a>(Option<ByteReader<'a>>);

impl RecordPositions<'_> {
    /// Reads the positions of the next term: none if the record has no positions. Returns `None` if
    /// they are not readable.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn next(&mut self, positions: &mut Vec<u32>) -> Result<Option<()>, OutOfMemory> {
        positions.clear();
        match &mut self.0 {
            None => Ok(Some(())),
            Some(reader) => read_positions(reader, positions),
        }
    }
}

fn read_positions(
    reader: &mut ByteReader<'_>,
    positions: &mut Vec<u32>,
) -> Result<Option<()>, OutOfMemory> {
    let Some(count) = reader.varint() else {
        return Ok(None);
    };
    let mut next = Some(0_u32);
    for _ in 0..count {
        let difference = reader.varint();
        let position = next.zip(difference).and_then(|(a, b)| a.checked_add(b));
        let Some(position) = position else {
            return Ok(None);
        };
        next = position.checked_add(1);
        memory::push(positions, position)?;
    }
    Ok(Some(()))
}

#[inline]
fn wide(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == WIDE).count()
}

/// Returns the hash of a term in records: FNV-1a.
#[inline]
pub fn hash(term: &[u8]) -> u32 {
    term.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Marks the record at the start of `bytes` as deleted.
pub fn set_dead(bytes: &mut [u8]) {
    bytes[offset_of!(RecordBytes, flags)] |= DEAD;
}

#[cfg(test)]
mod tests;
