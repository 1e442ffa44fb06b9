//! Writes the records of a document.

use std::mem::offset_of;

use rag_pages::{
    Tid,
    memory::{self, OutOfMemory, Reserve},
};

use super::{
    CONTINUATION, CONTINUES, POSITIONS, TERM_HEAD, WIDE, WIDE_FREQUENCY, WIDE_LENGTH, hash,
};
use crate::{
    format::{PENDING_ROOM, RECORD_HEAD, RecordBytes, put},
    norm,
    segment::layout::put_varint,
    terms::Terms,
};

/// Returns the bytes that a term takes in a record.
pub(super) fn size(term: &[u8], frequency: u32) -> usize {
    let mut size = TERM_HEAD + term.len();
    if frequency >= u32::from(WIDE) {
        size += WIDE_FREQUENCY;
    }
    if term.len() >= usize::from(WIDE) {
        size += WIDE_LENGTH;
    }
    size
}

/// A term of a document as a record has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry<'a> {
    pub hash: u32,
    pub term: &'a [u8],
    pub frequency: u32,
    /// `None` in a record without positions.
    pub positions: Option<&'a [u32]>,
}

impl<'a> Entry<'a> {
    fn size(&self) -> usize {
        let positions = self.positions.map_or(0, |positions| {
            let differences = differences(positions).map(varint_bytes);
            varint_bytes(positions.len() as u32) + differences.sum::<usize>()
        });
        size(self.term, self.frequency) + positions
    }

    /// Divides an entry with more positions than a record has room for.
    fn split(self, room: usize) -> (Self, Option<Self>) {
        // a number takes 5 bytes at most
        let mut room = room.saturating_sub(size(self.term, self.frequency) + 5);
        let positions = self.positions.unwrap_or_default();
        let fits = |difference: &u32| {
            let bytes = varint_bytes(*difference);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let count = differences(positions).take_while(fits).count();
        let (first, others) = positions.split_at(count);
        let part = |frequency, positions| Self {
            frequency,
            positions: Some(positions),
            ..self
        };
        let others = (!others.is_empty()).then(|| part(0, others));
        (part(self.frequency, first), others)
    }
}

/// Returns the first position, and then the differences less 1.
fn differences(positions: &[u32]) -> impl Iterator<Item = u32> {
    let mut next = 0;
    positions.iter().map(move |position| {
        let difference = position.wrapping_sub(next);
        next = position.wrapping_add(1);
        difference
    })
}

fn varint_bytes(number: u32) -> usize {
    (32 - (number | 1).leading_zeros()).div_ceil(7) as usize
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
    const ROOM: usize = PENDING_ROOM - RECORD_HEAD;
    let norm = norm::encode(terms.length());
    let kind = if terms.has_positions() { POSITIONS } else { 0 };
    let mut entries = terms
        .iter_with_positions()
        .map(|(term, frequency, positions)| Entry {
            hash: hash(term),
            term,
            frequency,
            positions: terms.has_positions().then_some(positions),
        });
    let mut next = entries.next();
    let (mut chunk, mut flags, mut count) = (vec![], kind, 0);
    while next.is_some() {
        chunk.clear();
        let mut room = ROOM;
        while let Some(entry) = next {
            let size = entry.size();
            if size <= room {
                room -= size;
                memory::push(&mut chunk, entry)?;
                next = entries.next();
                continue;
            }
            if chunk.is_empty() {
                // `Terms` has no terms as long as a page.
                let (first, others) = entry.split(room);
                memory::push(&mut chunk, first)?;
                next = others;
            }
            break;
        }
        let more = if next.is_some() { CONTINUES } else { 0 };
        encode(tid, flags | more, norm, &mut chunk, records)?;
        flags = kind | CONTINUATION;
        count += 1;
    }
    Ok(count)
}

/// Appends a record of some terms, which it sorts by their hashes.
pub(super) fn encode(
    tid: Tid,
    flags: u8,
    norm: u8,
    entries: &mut [Entry<'_>],
    records: &mut Vec<u8>,
) -> Result<(), OutOfMemory> {
    entries.sort_unstable();
    let bytes = RECORD_HEAD + entries.iter().map(Entry::size).sum::<usize>();
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
        (entries.len() as u16).to_le_bytes(),
    );
    put(
        head,
        offset_of!(RecordBytes, bytes),
        (bytes as u16).to_le_bytes(),
    );
    let narrow = |number: usize| u8::try_from(number).unwrap_or(WIDE);
    for entry in &*entries {
        records.extend(entry.hash.to_le_bytes());
    }
    records.extend(entries.iter().map(|entry| narrow(entry.frequency as usize)));
    records.extend(entries.iter().map(|entry| narrow(entry.term.len())));
    let frequencies = entries.iter().map(|entry| entry.frequency);
    for frequency in frequencies.filter(|frequency| *frequency >= u32::from(WIDE)) {
        records.extend(frequency.to_le_bytes());
    }
    let lengths = entries.iter().map(|entry| entry.term.len());
    for length in lengths.filter(|length| *length >= usize::from(WIDE)) {
        records.extend((length as u16).to_le_bytes());
    }
    for entry in &*entries {
        records.extend_from_slice(entry.term);
    }
    for positions in entries.iter().filter_map(|entry| entry.positions) {
        put_varint(records, positions.len() as u32);
        differences(positions).for_each(|difference| put_varint(records, difference));
    }
    Ok(())
}
