//! One segment of several. Deleted documents are left out.
//!
//! Documents get new numbers in the order of their rows. Within a source their order stays, so
//! the postings of a term are merged as sorted lists are.

use rag_pages::{
    IndexError, ReadPages, ReusePages, Tid,
    memory::{self, push},
};

use super::{
    dictionary::{TermPostings, TermsOfDictionary},
    layout::{DOCUMENTS_PER_PAGE, ROWS_PER_PAGE},
    positions::TermPositions,
    postings::PostingsBlock,
    reader::{DocumentWindow, ListBlocks, PostingsList, SegmentReader},
    writer::{SegmentWriter, WrittenSegment},
};
use crate::{allocate::Allocation, format::SegmentEntry};

/// The new number of a document that is deleted.
const DEAD: u32 = u32::MAX;

/// Merges the documents that are not deleted of several segments into one. Returns `None` if none
/// is left.
pub fn merge<P: ReusePages>(
    pages: &P,
    sources: &[SegmentEntry],
    space: &mut Allocation<'_, P>,
) -> Result<Option<WrittenSegment>, IndexError> {
    let mut readers = vec![];
    for entry in sources {
        push(&mut readers, SegmentReader::open(pages, entry)?).map_err(IndexError::of_memory)?;
    }
    let has_positions = sources.iter().any(|entry| entry.positions.is_some());
    let mut writer = SegmentWriter::new(pages, space, has_positions);
    let numbers = merge_documents(pages, &readers, &mut writer)?;
    if numbers.iter().flatten().all(|number| *number == DEAD) {
        return Ok(None);
    }
    writer.end_documents()?;
    merge_terms(pages, &readers, &numbers, &mut writer)?;
    writer.finish().map(Some)
}

/// The documents of a source, in their order.
struct SourceDocuments<'r> {
    reader: &'r SegmentReader,
    rows: Vec<Tid>,
    window: Box<DocumentWindow>,
    next: u32,
}

impl SourceDocuments<'_> {
    /// Returns the row of the next document.
    fn peek(&mut self, pages: &impl ReadPages) -> Result<Option<Tid>, IndexError> {
        if self.next == self.reader.documents() {
            return Ok(None);
        }
        let place = self.next as usize % ROWS_PER_PAGE;
        if place == 0 && self.rows.is_empty() {
            pages.check_interrupts();
            let number = self.next as usize / ROWS_PER_PAGE;
            self.reader.read_rows(pages, number, &mut self.rows)?;
        }
        if (self.next as usize).is_multiple_of(DOCUMENTS_PER_PAGE) {
            let number = self.next as usize / DOCUMENTS_PER_PAGE;
            self.reader.read_window(pages, number, &mut self.window)?;
        }
        Ok(Some(self.rows[place]))
    }

    /// Passes over the next document. Returns its length, or `None` if it is deleted.
    fn take(&mut self) -> Option<u8> {
        let place = self.next as usize % DOCUMENTS_PER_PAGE;
        self.next += 1;
        if (self.next as usize).is_multiple_of(ROWS_PER_PAGE) {
            self.rows.clear();
        }
        (!self.window.is_dead(place)).then(|| self.window.norms[place])
    }
}

/// Writes the documents of all sources in the order of their rows. Returns the new number of each
/// document of each source.
fn merge_documents<P: ReusePages>(
    pages: &P,
    readers: &[SegmentReader],
    writer: &mut SegmentWriter<'_, '_, P>,
) -> Result<Vec<Vec<u32>>, IndexError> {
    let mut sources: Vec<_> = readers
        .iter()
        .map(|reader| SourceDocuments {
            reader,
            rows: vec![],
            window: Box::default(),
            next: 0,
        })
        .collect();
    let mut numbers = vec![];
    let mut heads = vec![];
    for source in &mut sources {
        let count = source.reader.documents() as usize;
        let room = memory::filled(count, DEAD).map_err(IndexError::of_memory)?;
        push(&mut numbers, room).map_err(IndexError::of_memory)?;
        heads.push(source.peek(pages)?);
    }
    let mut written = 0;
    loop {
        let first = heads.iter().enumerate();
        let first = first.filter_map(|(source, head)| head.map(|tid| (tid, source)));
        let Some((tid, number)) = first.min() else {
            return Ok(numbers);
        };
        let source = &mut sources[number];
        let old = source.next as usize;
        if let Some(norm) = source.take() {
            writer.add_document(tid, norm)?;
            numbers[number][old] = written;
            written += 1;
        }
        heads[number] = source.peek(pages)?;
    }
}

/// The postings of a term in a source, with their new numbers.
struct SourcePostings<'s> {
    reader: &'s SegmentReader,
    numbers: &'s [u32],
    list: PostingsList,
    positions: TermPositions,
    /// The block that is read next, if there is one, and the postings of the current one.
    next_block: usize,
    block: Box<PostingsBlock>,
    at: usize,
}

impl SourcePostings<'_> {
    /// Returns the next posting of a document that is not deleted.
    fn next(&mut self, pages: &impl ReadPages) -> Result<Option<(u32, u32)>, IndexError> {
        loop {
            while self.at < self.block.len {
                let old = self.block.documents[self.at] as usize;
                let frequency = self.block.frequencies[self.at];
                self.at += 1;
                let new = self.numbers.get(old).copied().unwrap_or(DEAD);
                if new != DEAD {
                    return Ok(Some((new, frequency)));
                }
            }
            if !self.read_block(pages)? {
                return Ok(None);
            }
        }
    }

    fn read_block(&mut self, pages: &impl ReadPages) -> Result<bool, IndexError> {
        let number = self.next_block;
        self.at = 0;
        match &mut self.list.blocks {
            ListBlocks::Short(block, ..) if number == 0 => std::mem::swap(block, &mut self.block),
            ListBlocks::Long(skips) if number < skips.len() => {
                pages.check_interrupts();
                let documents = self.list.documents;
                self.reader
                    .read_block(pages, skips, documents, number, &mut self.block)?;
            }
            _ => return Ok(false),
        }
        self.next_block += 1;
        let (reader, block) = (self.reader, &self.block);
        self.positions.read(pages, reader, number, block)?;
        Ok(true)
    }

    /// Returns the positions of the posting that was returned last.
    fn positions(&self) -> &[u32] {
        let last = self.at.checked_sub(1);
        last.map_or(&[], |last| self.positions.block.of(last))
    }
}

/// A source's next term.
struct SourceTerm {
    terms: TermsOfDictionary,
    term: Vec<u8>,
    postings: Option<TermPostings>,
}

impl SourceTerm {
    fn advance(&mut self, pages: &impl ReadPages) -> Result<(), IndexError> {
        self.postings = match self.terms.next(pages)? {
            Some((term, postings)) => {
                if term <= self.term.as_slice() && !self.term.is_empty() {
                    let problem = "the terms of a dictionary do not ascend";
                    return Err(IndexError::corrupted(self.terms.block(), problem));
                }
                self.term.clear();
                self.term.extend_from_slice(term);
                Some(postings)
            }
            None => None,
        };
        Ok(())
    }
}

fn merge_terms<P: ReusePages>(
    pages: &P,
    readers: &[SegmentReader],
    numbers: &[Vec<u32>],
    writer: &mut SegmentWriter<'_, '_, P>,
) -> Result<(), IndexError> {
    let mut sources = vec![];
    for reader in readers {
        let mut source = SourceTerm {
            terms: reader.dictionary.terms(pages)?,
            term: vec![],
            postings: None,
        };
        source.advance(pages)?;
        sources.push(source);
    }
    let mut term = vec![];
    loop {
        let left = sources.iter().filter(|source| source.postings.is_some());
        let Some(least) = left.map(|source| source.term.as_slice()).min() else {
            return Ok(());
        };
        term.clear();
        term.extend_from_slice(least);
        let mut lists = vec![];
        for (number, source) in sources.iter_mut().enumerate() {
            let Some(postings) = source.postings.filter(|_| source.term == term) else {
                continue;
            };
            let reader = &readers[number];
            let list = reader.list(pages, &postings)?;
            lists.push(SourcePostings {
                reader,
                numbers: &numbers[number],
                positions: TermPositions::open(pages, reader, &list)?,
                list,
                next_block: 0,
                block: Box::default(),
                at: 0,
            });
            source.advance(pages)?;
        }
        merge_postings(pages, &mut lists, writer)?;
        writer.end_term(&term)?;
    }
}

fn merge_postings<P: ReusePages>(
    pages: &P,
    lists: &mut [SourcePostings<'_>],
    writer: &mut SegmentWriter<'_, '_, P>,
) -> Result<(), IndexError> {
    if let [list] = lists {
        while let Some((document, frequency)) = list.next(pages)? {
            writer.add_posting(document, frequency, list.positions())?;
        }
        return Ok(());
    }
    let mut heads = vec![];
    for list in lists.iter_mut() {
        heads.push(list.next(pages)?);
    }
    loop {
        let first = heads.iter().enumerate();
        let first = first.filter_map(|(list, head)| head.map(|posting| (posting, list)));
        let Some(((document, frequency), list)) = first.min() else {
            return Ok(());
        };
        writer.add_posting(document, frequency, lists[list].positions())?;
        heads[list] = lists[list].next(pages)?;
    }
}
