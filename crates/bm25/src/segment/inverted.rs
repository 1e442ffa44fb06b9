//! An inverted index in memory, before it is written as a segment.
//!
//! Postings of a term are encoded as they come, in slices of growing size that lie in one arena. A
//! slice ends with the place of the next. So a term of one document takes few bytes, and a frequent
//! one needs no copying.

use rag_pages::{
    IndexError, ReusePages, Tid,
    memory::{self, OutOfMemory, Reserve, append, push},
};

use super::writer::{SegmentWriter, WrittenSegment};
use crate::allocate::Allocation;

/// Bytes of the first slice of a term. Each further slice has twice as many, up to the last size.
const FIRST_SLICE: usize = 12;
const LAST_SLICE: usize = 1 << 12;
/// Bytes at the end of a slice that tell where the next is.
const LINK: usize = 4;
/// Places in the arena have 32 bits. The terms of one more document, of 1 GB at most, must fit.
const ARENA_LIMIT: usize = 2 << 30;
/// No term, in the table of terms.
const EMPTY: u32 = u32::MAX;

/// An inverted index in memory.
pub struct Inverted {
    has_positions: bool,
    documents: Vec<(Tid, u8)>,
    arena: Vec<u8>,
    terms: Vec<TermSlices>,
    /// Hash table with open addressing: numbers of terms. Its length is a power of two.
    table: Vec<u32>,
    /// True if the documents of each term were added in ascending order.
    is_unordered: bool,
}

/// A term and its postings in the arena.
#[derive(Clone, Copy)]
struct TermSlices {
    hash: u32,
    /// Where its bytes are.
    start: u32,
    len: u16,
    /// Where the first slice begins, and where the current one is written and ends.
    first: u32,
    at: u32,
    end: u32,
    slice: u16,
    /// Number of times that it was added.
    documents: u32,
    last: u32,
}

impl Inverted {
    pub fn new(has_positions: bool) -> Self {
        Self {
            has_positions,
            documents: vec![],
            arena: vec![],
            terms: vec![],
            table: vec![],
            is_unordered: false,
        }
    }

    pub fn has_positions(&self) -> bool {
        self.has_positions
    }

    /// Adds a document. `norm` is its length, as [`crate::norm`] encodes it. Returns its number.
    pub fn add_document(&mut self, tid: Tid, norm: u8) -> Result<u32, OutOfMemory> {
        let number = self.documents.len() as u32;
        push(&mut self.documents, (tid, norm))?;
        Ok(number)
    }

    /// Adds a term of a document with its positions, in ascending order. They are left out if the
    /// index has none. Each term of a document is added once, and perhaps again with frequency 0
    /// and further positions.
    pub fn add_term(
        &mut self,
        document: u32,
        term: &[u8],
        frequency: u32,
        positions: &[u32],
    ) -> Result<(), OutOfMemory> {
        let number = self.find_or_add(term)?;
        let mut slices = self.terms[number];
        self.is_unordered |= slices.documents > 0 && document < slices.last;
        // A document before the last one gives a huge difference, and a correct sum.
        let difference = u64::from(document.wrapping_sub(slices.last));
        self.put(&mut slices, difference << 1 | u64::from(frequency == 1))?;
        if frequency != 1 {
            self.put(&mut slices, u64::from(frequency))?;
        }
        if self.has_positions {
            self.put(&mut slices, positions.len() as u64)?;
            let mut before = 0;
            for position in positions {
                self.put(&mut slices, u64::from(position.wrapping_sub(before)))?;
                before = *position;
            }
        }
        slices.last = document;
        slices.documents += 1;
        self.terms[number] = slices;
        Ok(())
    }

    /// Returns the number of documents.
    pub fn documents(&self) -> u32 {
        self.documents.len() as u32
    }

    /// Returns the bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.documents.capacity() * size_of::<(Tid, u8)>()
            + self.arena.capacity()
            + self.terms.capacity() * size_of::<TermSlices>()
            + self.table.capacity() * size_of::<u32>()
    }

    /// Returns true if no more documents fit, whatever the memory.
    pub fn is_full(&self) -> bool {
        self.arena.len() > ARENA_LIMIT || self.documents.len() > 1 << 30
    }

    fn find_or_add(&mut self, term: &[u8]) -> Result<usize, OutOfMemory> {
        if self.terms.len() * 2 >= self.table.len() {
            self.grow_table()?;
        }
        let hash = crate::pending::hash(term);
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let number = self.table[place];
            if number == EMPTY {
                break;
            }
            let known = &self.terms[number as usize];
            let start = known.start as usize;
            if known.hash == hash && self.arena[start..start + usize::from(known.len)] == *term {
                return Ok(number as usize);
            }
            place = (place + 1) & mask;
        }
        let start = self.arena.len();
        append(&mut self.arena, term)?;
        let first = self.new_slice(FIRST_SLICE)?;
        let number = self.terms.len();
        let slices = TermSlices {
            hash,
            start: start as u32,
            len: term.len() as u16,
            first,
            at: first,
            end: first + (FIRST_SLICE - LINK) as u32,
            slice: FIRST_SLICE as u16,
            documents: 0,
            last: 0,
        };
        push(&mut self.terms, slices)?;
        self.table[place] = number as u32;
        Ok(number)
    }

    fn grow_table(&mut self) -> Result<(), OutOfMemory> {
        let len = (self.table.len() * 2).max(1 << 10);
        let mut table = memory::filled(len, EMPTY)?;
        for (number, slices) in self.terms.iter().enumerate() {
            let mut place = slices.hash as usize & (len - 1);
            while table[place] != EMPTY {
                place = (place + 1) & (len - 1);
            }
            table[place] = number as u32;
        }
        self.table = table;
        Ok(())
    }

    fn new_slice(&mut self, bytes: usize) -> Result<u32, OutOfMemory> {
        let start = self.arena.len();
        let end = u32::try_from(start + bytes).map_err(|_| OutOfMemory)?;
        self.arena.make_room(bytes)?;
        self.arena.resize(end as usize, 0);
        Ok(start as u32)
    }

    /// Writes a number in 7 bits a byte.
    fn put(&mut self, slices: &mut TermSlices, mut number: u64) -> Result<(), OutOfMemory> {
        loop {
            if slices.at == slices.end {
                let bytes = (usize::from(slices.slice) * 2).min(LAST_SLICE);
                let next = self.new_slice(bytes)?;
                let link = slices.end as usize;
                self.arena[link..link + LINK].copy_from_slice(&next.to_le_bytes());
                slices.at = next;
                slices.end = next + (bytes - LINK) as u32;
                slices.slice = bytes as u16;
            }
            let is_last = number < 0x80;
            self.arena[slices.at as usize] = number as u8 & 0x7F | if is_last { 0 } else { 0x80 };
            slices.at += 1;
            if is_last {
                return Ok(());
            }
            number >>= 7;
        }
    }

    /// Calls `f` with each posting of a term as it was added, and its positions.
    fn each_posting(
        &self,
        slices: &TermSlices,
        mut f: impl FnMut(u32, u32, &[u32]) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let mut reader = SliceReader {
            arena: &self.arena,
            at: slices.first as usize,
            end: slices.first as usize + FIRST_SLICE - LINK,
            slice: FIRST_SLICE,
        };
        let (mut document, mut positions) = (0_u32, vec![]);
        for _ in 0..slices.documents {
            let first = reader.number();
            document = document.wrapping_add((first >> 1) as u32);
            let frequency = match first & 1 {
                1 => 1,
                _ => reader.number() as u32,
            };
            positions.clear();
            if self.has_positions {
                let mut position = 0_u32;
                for _ in 0..reader.number() {
                    position = position.wrapping_add(reader.number() as u32);
                    push(&mut positions, position).map_err(IndexError::of_memory)?;
                }
            }
            f(document, frequency, &positions)?;
        }
        Ok(())
    }

    /// Writes the segment, with its documents in the order of their rows.
    pub fn write<P: ReusePages>(
        mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
    ) -> Result<WrittenSegment, IndexError> {
        self.table = vec![];
        let mut writer = SegmentWriter::new(pages, space, self.has_positions);
        let numbers = self.new_numbers().map_err(IndexError::of_memory)?;
        match &numbers {
            None => {
                for &(tid, norm) in &self.documents {
                    writer.add_document(tid, norm)?;
                }
            }
            Some(numbers) => {
                let mut order = memory::filled(numbers.len(), 0).map_err(IndexError::of_memory)?;
                for (old, &new) in numbers.iter().enumerate() {
                    order[new as usize] = old;
                }
                for old in order {
                    let (tid, norm) = self.documents[old];
                    writer.add_document(tid, norm)?;
                }
            }
        }
        writer.end_documents()?;
        let mut order = std::mem::take(&mut self.terms);
        let term = |slices: &TermSlices| {
            let start = slices.start as usize;
            &self.arena[start..start + usize::from(slices.len)]
        };
        order.sort_unstable_by(|a, b| term(a).cmp(term(b)));
        let mut postings = Postings::default();
        for slices in &order {
            self.each_posting(slices, |document, frequency, positions| {
                let document = match &numbers {
                    Some(numbers) => numbers[document as usize],
                    None => document,
                };
                if numbers.is_none() && !self.is_unordered {
                    return postings.write(document, frequency, positions, &mut writer);
                }
                postings.keep(document, frequency, positions)
            })?;
            postings.write_kept(&mut writer)?;
            postings.write_last(&mut writer)?;
            writer.end_term(term(slices))?;
        }
        writer.finish()
    }

    /// Returns the number of each document in the order of rows, or `None` if they are in it.
    fn new_numbers(&self) -> Result<Option<Vec<u32>>, OutOfMemory> {
        if self.documents.is_sorted() {
            return Ok(None);
        }
        let mut order = memory::collect(0..self.documents.len() as u32)?;
        order.sort_unstable_by_key(|old| self.documents[*old as usize].0);
        let mut numbers = memory::filled(order.len(), 0)?;
        for (new, old) in order.into_iter().enumerate() {
            numbers[old as usize] = new as u32;
        }
        Ok(Some(numbers))
    }
}

/// Reads the numbers of a term.
struct SliceReader<'a> {
    arena: &'a [u8],
    at: usize,
    end: usize,
    slice: usize,
}

impl SliceReader<'_> {
    fn byte(&mut self) -> u8 {
        if self.at == self.end {
            let link: [u8; LINK] = std::array::from_fn(|i| self.arena[self.end + i]);
            self.at = u32::from_le_bytes(link) as usize;
            self.slice = (self.slice * 2).min(LAST_SLICE);
            self.end = self.at + self.slice - LINK;
        }
        self.at += 1;
        self.arena[self.at - 1]
    }

    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }
}

/// Puts the postings of a term in order, and together those that were added for one document.
#[derive(Default)]
struct Postings {
    /// Document, frequency, and which of the positions it has.
    kept: Vec<(u32, usize, usize, u32)>,
    kept_positions: Vec<u32>,
    /// The posting that is written next, with its positions.
    last: Option<(u32, u32)>,
    positions: Vec<u32>,
}

impl Postings {
    /// Keeps a posting until all are known.
    fn keep(&mut self, document: u32, frequency: u32, positions: &[u32]) -> Result<(), IndexError> {
        let start = self.kept_positions.len();
        append(&mut self.kept_positions, positions).map_err(IndexError::of_memory)?;
        let end = self.kept_positions.len();
        push(&mut self.kept, (document, start, end, frequency)).map_err(IndexError::of_memory)
    }

    /// Writes what was kept, in the order of documents.
    fn write_kept<P: ReusePages>(
        &mut self,
        writer: &mut SegmentWriter<'_, '_, P>,
    ) -> Result<(), IndexError> {
        let mut kept = std::mem::take(&mut self.kept);
        let positions = std::mem::take(&mut self.kept_positions);
        kept.sort_unstable();
        for &(document, start, end, frequency) in &kept {
            self.write(document, frequency, &positions[start..end], writer)?;
        }
        (self.kept, self.kept_positions) = (kept, positions);
        self.kept.clear();
        self.kept_positions.clear();
        Ok(())
    }

    /// Writes the posting before, and keeps this one, unless both are of one document.
    fn write<P: ReusePages>(
        &mut self,
        document: u32,
        frequency: u32,
        positions: &[u32],
        writer: &mut SegmentWriter<'_, '_, P>,
    ) -> Result<(), IndexError> {
        match &mut self.last {
            Some((last, of_last)) if *last == document && frequency.min(*of_last) == 0 => {
                *of_last = frequency.max(*of_last);
            }
            _ => {
                self.write_last(writer)?;
                self.last = Some((document, frequency));
            }
        }
        append(&mut self.positions, positions).map_err(IndexError::of_memory)
    }

    fn write_last<P: ReusePages>(
        &mut self,
        writer: &mut SegmentWriter<'_, '_, P>,
    ) -> Result<(), IndexError> {
        let Some((document, frequency)) = self.last.take() else {
            return Ok(());
        };
        if !self.positions.is_sorted_by(|a, b| a < b) {
            self.positions.sort_unstable();
            self.positions.dedup();
        }
        let written = writer.add_posting(document, frequency, &self.positions);
        self.positions.clear();
        written
    }
}
