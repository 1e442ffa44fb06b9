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
#[derive(Default)]
pub struct Inverted {
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
    documents: u32,
    last: u32,
}

impl Inverted {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a document. `norm` is its length, as [`crate::norm`] encodes it. Returns its number.
    pub fn add_document(&mut self, tid: Tid, norm: u8) -> Result<u32, OutOfMemory> {
        let number = self.documents.len() as u32;
        push(&mut self.documents, (tid, norm))?;
        Ok(number)
    }

    /// Adds a term of a document. Each term of a document is added once.
    pub fn add_term(
        &mut self,
        document: u32,
        term: &[u8],
        frequency: u32,
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
        self.arena.make_room(bytes)?;
        self.arena.resize(start + bytes, 0);
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

    /// Reads the postings of a term.
    fn read(&self, slices: &TermSlices, postings: &mut Vec<(u32, u32)>) -> Result<(), OutOfMemory> {
        postings.clear();
        let (mut at, mut slice) = (slices.first as usize, FIRST_SLICE);
        let mut end = at + FIRST_SLICE - LINK;
        let mut byte = || {
            if at == end {
                let link: [u8; LINK] = std::array::from_fn(|i| self.arena[end + i]);
                at = u32::from_le_bytes(link) as usize;
                slice = (slice * 2).min(LAST_SLICE);
                end = at + slice - LINK;
            }
            at += 1;
            self.arena[at - 1]
        };
        let mut number = || {
            let (mut number, mut shift) = (0, 0);
            loop {
                let byte = byte();
                number |= u64::from(byte & 0x7F) << shift;
                if byte < 0x80 {
                    return number;
                }
                shift += 7;
            }
        };
        let mut document = 0_u32;
        for _ in 0..slices.documents {
            let first = number();
            document = document.wrapping_add((first >> 1) as u32);
            let frequency = if first & 1 == 1 { 1 } else { number() as u32 };
            push(postings, (document, frequency))?;
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
        let mut writer = SegmentWriter::new(pages, space);
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
        let mut postings = vec![];
        for slices in &order {
            self.read(slices, &mut postings)
                .map_err(IndexError::of_memory)?;
            if let Some(numbers) = &numbers {
                for (document, _) in &mut postings {
                    *document = numbers[*document as usize];
                }
            }
            if numbers.is_some() || self.is_unordered {
                postings.sort_unstable();
            }
            for &(document, frequency) in &postings {
                writer.add_posting(document, frequency)?;
            }
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
