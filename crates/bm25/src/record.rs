//! A record of a pending document: some of its terms, with their frequencies.

use std::mem::offset_of;

use rag_pages::{
    Tid,
    memory::{self, OutOfMemory, Reserve},
};

use crate::{
    format::{PENDING_ROOM, RECORD_HEAD, RecordBytes, put, u16_at, u32_at},
    norm,
    terms::Terms,
};

/// Flags of a record.
pub const DEAD: u8 = 1;
/// There are more records of this document.
pub const CONTINUES: u8 = 2;
/// This is not the first record of this document.
pub const CONTINUATION: u8 = 4;

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
        let record = Self {
            head,
            hashes,
            frequencies,
            lengths,
            wide_frequencies,
            wide_lengths,
            strings,
        };
        (record.start(terms) == strings.len()).then_some(record)
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

    /// Returns the frequency of a term, whose hash is that of [`hash`], if the record has it.
    #[inline]
    pub fn find(&self, hash: u32, term: &[u8]) -> Option<u32> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.hash(middle) < hash {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low..self.len())
            .take_while(|i| self.hash(*i) == hash)
            .find(|i| self.term(*i) == term)
            .map(|i| self.frequency(i))
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
        } else if self.terms().any(|(_, frequency)| frequency == 0) {
            Some("record has a term with frequency 0")
        } else {
            None
        }
    }
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

/// Returns the bytes that a term takes in a record.
pub fn size(term: &[u8], frequency: u32) -> usize {
    let mut size = TERM_HEAD + term.len();
    if frequency >= u32::from(WIDE) {
        size += WIDE_FREQUENCY;
    }
    if term.len() >= usize::from(WIDE) {
        size += WIDE_LENGTH;
    }
    size
}

/// Marks the record at the start of `bytes` as deleted.
pub fn set_dead(bytes: &mut [u8]) {
    bytes[offset_of!(RecordBytes, flags)] |= DEAD;
}

/// Appends the records of a document to `records`: one if it fits into a page, else several, each
/// with some of its terms. Returns how many.
///
/// # Errors
/// Memory runs out.
pub fn encode_document(
    tid: Tid,
    terms: &Terms,
    records: &mut Vec<u8>,
) -> Result<usize, OutOfMemory> {
    let norm = norm::encode(terms.length());
    let mut rest = terms.iter().peekable();
    let (mut chunk, mut flags, mut count) = (vec![], 0, 0);
    while rest.peek().is_some() {
        chunk.clear();
        let mut room = PENDING_ROOM - RECORD_HEAD;
        while let Some((term, frequency)) = rest.next_if(|(term, f)| size(term, *f) <= room) {
            room -= size(term, frequency);
            memory::push(&mut chunk, (hash(term), term, frequency))?;
        }
        if chunk.is_empty() {
            // `Terms` has no terms as long as a page.
            break;
        }
        let more = if rest.peek().is_some() { CONTINUES } else { 0 };
        encode(tid, flags | more, norm, &mut chunk, records)?;
        flags = CONTINUATION;
        count += 1;
    }
    Ok(count)
}

/// Appends a record of some terms, which it sorts by their hashes.
fn encode(
    tid: Tid,
    flags: u8,
    norm: u8,
    terms: &mut [(u32, &[u8], u32)],
    records: &mut Vec<u8>,
) -> Result<(), OutOfMemory> {
    terms.sort_unstable();
    let sizes = terms
        .iter()
        .map(|(_, term, frequency)| size(term, *frequency));
    let bytes = RECORD_HEAD + sizes.sum::<usize>();
    records.make_room(bytes)?;
    let start = records.len();
    records.resize(start + RECORD_HEAD, 0);
    let head = &mut records[start..];
    tid.write(head);
    put(head, offset_of!(RecordBytes, flags), [flags]);
    put(head, offset_of!(RecordBytes, norm), [norm]);
    put(
        head,
        offset_of!(RecordBytes, terms),
        (terms.len() as u16).to_le_bytes(),
    );
    put(
        head,
        offset_of!(RecordBytes, bytes),
        (bytes as u16).to_le_bytes(),
    );
    let narrow = |number: usize| u8::try_from(number).unwrap_or(WIDE);
    for (hash, ..) in &*terms {
        records.extend(hash.to_le_bytes());
    }
    records.extend(
        terms
            .iter()
            .map(|(_, _, frequency)| narrow(*frequency as usize)),
    );
    records.extend(terms.iter().map(|(_, term, _)| narrow(term.len())));
    for (_, _, frequency) in terms.iter().filter(|term| term.2 >= u32::from(WIDE)) {
        records.extend(frequency.to_le_bytes());
    }
    for (_, term, _) in terms
        .iter()
        .filter(|term| term.1.len() >= usize::from(WIDE))
    {
        records.extend((term.len() as u16).to_le_bytes());
    }
    for (_, term, _) in &*terms {
        records.extend_from_slice(term);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TID: Tid = Tid {
        block: 70_000,
        offset: 3,
    };

    fn encoded(terms: &[(Vec<u8>, u32)], flags: u8) -> Vec<u8> {
        let hashed = terms.iter().map(|(term, f)| (hash(term), &term[..], *f));
        let mut record = vec![];
        encode(TID, flags, 77, &mut hashed.collect::<Vec<_>>(), &mut record).unwrap();
        record
    }

    proptest! {
        #[test]
        fn a_record_has_the_terms_that_were_written(
            map in prop::collection::btree_map(
                prop::collection::vec(any::<u8>(), 1..300),
                prop_oneof![1..5_u32, 250..260_u32, Just(u32::MAX)],
                1..12,
            ),
            flags in 0..8_u8,
        ) {
            let terms: Vec<_> = map.into_iter().collect();
            let mut bytes = encoded(&terms, flags);
            let size: usize = terms.iter().map(|(term, f)| size(term, *f)).sum();
            prop_assert_eq!(bytes.len(), RECORD_HEAD + size);
            bytes.extend([9; 20]);
            let record = Record::parse(&bytes).unwrap();
            prop_assert_eq!((record.tid(), record.norm()), (TID, 77));
            prop_assert_eq!(record.is_dead(), flags & DEAD != 0);
            prop_assert_eq!(record.continues(), flags & CONTINUES != 0);
            prop_assert_eq!(record.is_continuation(), flags & CONTINUATION != 0);
            prop_assert_eq!(record.problem(), None);
            for (term, frequency) in &terms {
                prop_assert_eq!(record.find(hash(term), term), Some(*frequency));
                prop_assert_eq!(record.find(hash(term) ^ 1, term), None);
            }
            let mut found: Vec<_> = record.terms().map(|(t, f)| (t.to_vec(), f)).collect();
            found.sort();
            prop_assert_eq!(found, terms);
        }

        #[test]
        fn wrong_bytes_are_no_record_or_a_harmless_one(
            bytes in prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255), any::<u8>()], 0..200),
            size in 0..200_u16,
            terms in 0..12_u16,
        ) {
            let mut bytes = bytes;
            if bytes.len() >= RECORD_HEAD {
                put(&mut bytes, offset_of!(RecordBytes, bytes), size.to_le_bytes());
                put(&mut bytes, offset_of!(RecordBytes, terms), terms.to_le_bytes());
            }
            if let Some(record) = Record::parse(&bytes) {
                prop_assert!(record.bytes() <= bytes.len());
                prop_assert!(record.bytes() >= RECORD_HEAD);
                let all: Vec<_> = record.terms().collect();
                prop_assert_eq!(all.len(), record.len());
                record.problem();
                record.find(0, b"term");
            }
        }
    }
}
