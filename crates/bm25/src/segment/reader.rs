//! Opens a segment: its documents, their rows, and the postings of its terms.

use std::{cell::OnceCell, mem::offset_of};

use rag_pages::{
    Block, IndexError, ReadPages, Tid, WritePages,
    memory::{self, append, push},
};

use super::{
    dictionary::{Dictionary, TermPostings},
    layout::{
        BLOCK, DOCUMENTS_PER_PAGE, HEADER_HEAD, HeaderBytes, MARK_BYTES, MARKS_OFFSET,
        ROWS_PER_PAGE, SKIP_BYTES, u32_at, u64_at,
    },
    owned::OwnedPages,
    positions::PositionsPlace,
    postings::{PostingsBlock, PostingsPlace, Skip, block_len, frequency_bound, is_packed},
};
use crate::format::{self, CONTENT_BYTES, PageKind, SegmentEntry};

/// Called with the number of a document, and the rows of the documents from it on.
pub type VisitRows<'a> = &'a mut dyn FnMut(u32, &[Tid]) -> Result<(), IndexError>;

/// Maximum number of pages of documents whose lengths a reader keeps: 7 KB each. A reader lives as
/// long as its session.
const MAX_KEPT_PAGES: usize = if cfg!(test) { 1 } else { 600 };

/// An open segment.
pub struct SegmentReader {
    pub owned: OwnedPages,
    pub dictionary: Dictionary,
    pub(super) documents: u32,
    total_length: u64,
    terms: u64,
    postings: u64,
    positions: Option<u64>,
    header_blocks: Vec<Block>,
    document_blocks: Vec<Block>,
    pub(super) row_blocks: Vec<Block>,
    /// The lengths of all documents, page by page, once a search has read them.
    norms: OnceCell<Vec<[u8; DOCUMENTS_PER_PAGE]>>,
}

/// The documents of a page of documents: lengths, and marks of the deleted.
pub struct DocumentWindow {
    pub norms: [u8; DOCUMENTS_PER_PAGE],
    marks: [u8; MARK_BYTES],
}

impl Default for DocumentWindow {
    fn default() -> Self {
        Self {
            norms: [0; DOCUMENTS_PER_PAGE],
            marks: [0; MARK_BYTES],
        }
    }
}

impl DocumentWindow {
    /// Returns true if the document at this place of the page is deleted.
    #[inline]
    pub fn is_dead(&self, place: usize) -> bool {
        self.marks[place / 8] & 1 << (place % 8) != 0
    }
}

/// The postings of a term in a segment.
#[derive(Debug, Clone)]
pub struct PostingsList {
    /// Number of documents.
    pub documents: u32,
    pub blocks: ListBlocks,
    pub positions: PositionsPlace,
}

/// The blocks of a list of postings.
#[derive(Debug, Clone)]
pub enum ListBlocks {
    /// Less than a block, with its highest frequency and shortest length.
    Short(Box<PostingsBlock>, u32, u8),
    Long(Vec<Skip>),
    /// Those of several terms together, in memory.
    Union(Box<Union>),
}

/// Postings of several terms together.
#[derive(Debug, Clone)]
pub struct Union {
    pub documents: Vec<u32>,
    pub frequencies: Vec<u32>,
    /// Of each block. There is nothing at their places.
    pub skips: Vec<Skip>,
}

impl Union {
    /// Reads a block.
    pub fn read_block(&self, number: usize, block: &mut PostingsBlock) {
        let start = (number * BLOCK).min(self.documents.len());
        let end = (start + BLOCK).min(self.documents.len());
        block.len = end - start;
        block.documents[..block.len].copy_from_slice(&self.documents[start..end]);
        block.frequencies[..block.len].copy_from_slice(&self.frequencies[start..end]);
    }
}

impl ListBlocks {
    pub fn len(&self) -> usize {
        match self {
            Self::Short(..) => 1,
            Self::Long(blocks) => blocks.len(),
            Self::Union(union) => union.skips.len(),
        }
    }
}

impl SegmentReader {
    /// # Errors
    /// The segment is corrupted, or its pages were recycled on a standby.
    pub fn open(pages: &impl ReadPages, entry: &SegmentEntry) -> Result<Self, IndexError> {
        let owned = OwnedPages {
            owner_id: entry.id,
            limit: pages.block_count(),
        };
        let mut reader = Self {
            owned,
            dictionary: Dictionary {
                root: 0,
                owned,
                has_positions: entry.positions.is_some(),
            },
            documents: 0,
            total_length: 0,
            terms: 0,
            postings: 0,
            positions: entry.positions,
            header_blocks: vec![],
            document_blocks: vec![],
            row_blocks: vec![],
            norms: OnceCell::new(),
        };
        reader.read_header(pages, entry.header)?;
        if (reader.documents, reader.total_length) != (entry.documents, entry.total_length) {
            let problem = "the header of a segment differs from the meta page";
            return Err(IndexError::corrupted(entry.header, problem));
        }
        Ok(reader)
    }

    fn read_header(&mut self, pages: &impl ReadPages, first: Block) -> Result<(), IndexError> {
        let mut blocks: Vec<Block> = vec![];
        let (mut document_pages, mut row_pages) = (0, 0);
        let mut block = first;
        loop {
            let is_first = self.header_blocks.is_empty();
            push(&mut self.header_blocks, block).map_err(IndexError::of_memory)?;
            let owned = self.owned;
            let next = owned.read_page(pages, block, PageKind::Header, |page| {
                let content = format::content(page);
                let mut words = content;
                if is_first {
                    let u32_of = |field| u32_at(content, field).unwrap_or_default();
                    let u64_of = |field| u64_at(content, field).unwrap_or_default();
                    self.documents = u32_of(offset_of!(HeaderBytes, documents));
                    self.dictionary.root = u32_of(offset_of!(HeaderBytes, root));
                    self.total_length = u64_of(offset_of!(HeaderBytes, total_length));
                    self.terms = u64_of(offset_of!(HeaderBytes, terms));
                    self.postings = u64_of(offset_of!(HeaderBytes, postings));
                    document_pages = (self.documents as usize).div_ceil(DOCUMENTS_PER_PAGE);
                    row_pages = (self.documents as usize).div_ceil(ROWS_PER_PAGE);
                    words = &content[HEADER_HEAD..];
                }
                let missing = (document_pages + row_pages).saturating_sub(blocks.len());
                let words = words.as_chunks::<4>().0;
                for word in &words[..missing.min(words.len())] {
                    push(&mut blocks, u32::from_le_bytes(*word)).map_err(IndexError::of_memory)?;
                }
                Ok(format::next(page))
            })?;
            if blocks.len() == document_pages + row_pages {
                break;
            }
            if next == 0 || blocks.len() > self.owned.limit as usize {
                return Err(IndexError::corrupted(
                    block,
                    "the header of a segment is cut short",
                ));
            }
            block = next;
        }
        self.row_blocks = blocks.split_off(document_pages);
        self.document_blocks = blocks;
        Ok(())
    }

    /// Returns the number of documents, with those that are deleted.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    pub fn total_length(&self) -> u64 {
        self.total_length
    }

    /// Returns the number of terms.
    pub fn terms(&self) -> u64 {
        self.terms
    }

    /// Returns the number of postings.
    pub fn postings(&self) -> u64 {
        self.postings
    }

    /// Returns the number of positions, if the segment has some.
    pub fn positions(&self) -> Option<u64> {
        self.positions
    }

    pub fn header_blocks(&self) -> &[Block] {
        &self.header_blocks
    }

    pub fn document_blocks(&self) -> &[Block] {
        &self.document_blocks
    }

    pub fn row_blocks(&self) -> &[Block] {
        &self.row_blocks
    }

    /// Reads the lengths and marks of the documents from `number * DOCUMENTS_PER_PAGE` on.
    pub fn read_window(
        &self,
        pages: &impl ReadPages,
        number: usize,
        window: &mut DocumentWindow,
    ) -> Result<(), IndexError> {
        let block = self.page_of(&self.document_blocks, number)?;
        self.owned
            .read_page(pages, block, PageKind::Documents, |page| {
                let content = format::content(page);
                window.norms.copy_from_slice(&content[..DOCUMENTS_PER_PAGE]);
                window
                    .marks
                    .copy_from_slice(&content[MARKS_OFFSET..MARKS_OFFSET + MARK_BYTES]);
                Ok(())
            })
    }

    /// Returns the lengths of all documents, page by page. Returns `None` for a segment of more
    /// documents than a process should keep lengths of.
    #[inline]
    pub fn norms(
        &self,
        pages: &impl ReadPages,
    ) -> Result<Option<&[[u8; DOCUMENTS_PER_PAGE]]>, IndexError> {
        match self.norms.get() {
            Some(norms) => Ok(Some(norms)),
            None if self.document_blocks.len() > MAX_KEPT_PAGES => Ok(None),
            None => self.read_norms(pages).map(Some),
        }
    }

    #[cold]
    fn read_norms(
        &self,
        pages: &impl ReadPages,
    ) -> Result<&[[u8; DOCUMENTS_PER_PAGE]], IndexError> {
        let count = self.document_blocks.len();
        let mut norms =
            memory::filled(count, [0; DOCUMENTS_PER_PAGE]).map_err(IndexError::of_memory)?;
        for (norms, block) in norms.iter_mut().zip(&self.document_blocks) {
            pages.check_interrupts();
            self.owned
                .read_page(pages, *block, PageKind::Documents, |page| {
                    norms.copy_from_slice(&format::content(page)[..DOCUMENTS_PER_PAGE]);
                    Ok(())
                })?;
        }
        Ok(self.norms.get_or_init(|| norms))
    }

    /// Marks documents, in ascending order, as deleted. Returns how many were not marked before.
    pub fn mark_dead(&self, pages: &impl WritePages, documents: &[u32]) -> Result<u32, IndexError> {
        let mut marked = 0;
        for group in documents
            .chunk_by(|a, b| *a as usize / DOCUMENTS_PER_PAGE == *b as usize / DOCUMENTS_PER_PAGE)
        {
            pages.check_interrupts();
            let block = self.page_of(
                &self.document_blocks,
                group[0] as usize / DOCUMENTS_PER_PAGE,
            )?;
            self.owned
                .read_page(pages, block, PageKind::Documents, |_| Ok(()))?;
            let new = pages.write(block, |page| {
                let marks = &mut format::content_mut(page)[MARKS_OFFSET..];
                let mut new = 0;
                for document in group {
                    let place = *document as usize % DOCUMENTS_PER_PAGE;
                    let (byte, bit) = (&mut marks[place / 8], 1 << (place % 8));
                    new += u32::from(*byte & bit == 0);
                    *byte |= bit;
                }
                (new > 0).then_some(new)
            });
            marked += new.unwrap_or(0);
        }
        Ok(marked)
    }

    pub(super) fn page_of(&self, blocks: &[Block], number: usize) -> Result<Block, IndexError> {
        let block = blocks.get(number).copied();
        block.ok_or_else(|| self.without_page(number))
    }

    /// Returns the error for postings of a document beyond the last page.
    #[cold]
    pub fn without_page(&self, number: usize) -> IndexError {
        let header = self.header_blocks.first().copied().unwrap_or_default();
        IndexError::corrupted(header, format!("a segment has no document page {number}"))
    }

    /// Returns the postings of a term, without those of long lists.
    pub fn find(
        &self,
        pages: &impl ReadPages,
        term: &[u8],
    ) -> Result<Option<PostingsList>, IndexError> {
        match self.dictionary.find(pages, term)? {
            Some(found) => self.list(pages, &found).map(Some),
            None => Ok(None),
        }
    }

    /// Opens a list of postings.
    pub fn list(
        &self,
        pages: &impl ReadPages,
        postings: &TermPostings,
    ) -> Result<PostingsList, IndexError> {
        let count = postings.documents as usize;
        let root = self.dictionary.root;
        let blocks = match postings.place {
            PostingsPlace::Inline { bytes, len } => {
                let mut block = Box::<PostingsBlock>::default();
                block
                    .read_unpacked(None, count, &bytes[..usize::from(len)])
                    .ok_or_else(|| unreadable(root))?;
                let most = block.iter().map(|(_, frequency)| frequency).max();
                ListBlocks::Short(block, most.unwrap_or(1), 0)
            }
            PostingsPlace::Short {
                place,
                max_frequency,
                min_norm,
            } => {
                let mut block = Box::<PostingsBlock>::default();
                self.owned
                    .read_page(pages, place.block, PageKind::Postings, |page| {
                        let bytes = format::content(page).get(usize::from(place.offset)..);
                        bytes
                            .and_then(|bytes| block.read_unpacked(None, count, bytes))
                            .ok_or_else(|| unreadable(place.block))
                    })?;
                ListBlocks::Short(block, frequency_bound(max_frequency), min_norm)
            }
            PostingsPlace::Long { skips } => {
                if postings.documents > self.documents {
                    return Err(unreadable(root));
                }
                ListBlocks::Long(self.read_skips(pages, skips, count.div_ceil(BLOCK))?)
            }
        };
        Ok(PostingsList {
            documents: postings.documents,
            blocks,
            positions: postings.positions,
        })
    }

    fn read_skips(
        &self,
        pages: &impl ReadPages,
        mut place: super::postings::Place,
        count: usize,
    ) -> Result<Vec<Skip>, IndexError> {
        let mut skips: Vec<Skip> = vec![];
        while skips.len() < count {
            let before = skips.len();
            let next = self
                .owned
                .read_page(pages, place.block, PageKind::Skips, |page| {
                    let bytes = format::content(page).get(usize::from(place.offset)..);
                    let bytes = bytes.unwrap_or_default().as_chunks::<SKIP_BYTES>().0;
                    let bytes = &bytes[..bytes.len().min(count - before)];
                    let read: Vec<Skip> = bytes.iter().map(Skip::read).collect();
                    append(&mut skips, &read).map_err(IndexError::of_memory)?;
                    Ok(format::next(page))
                })?;
            let has_room = usize::from(place.offset) + SKIP_BYTES <= CONTENT_BYTES;
            if skips.len() < count && (next == 0 || (skips.len() == before && has_room)) {
                return Err(unreadable(place.block));
            }
            place = super::postings::Place {
                block: next,
                offset: 0,
            };
        }
        Ok(skips)
    }

    /// Reads block `number` of a long list.
    #[inline]
    pub fn read_block(
        &self,
        pages: &impl ReadPages,
        skips: &[Skip],
        documents: u32,
        number: usize,
        block: &mut PostingsBlock,
    ) -> Result<(), IndexError> {
        let skip = &skips[number];
        let before = number.checked_sub(1).map(|before| skips[before].last);
        let at = skip.place.block;
        self.owned.read_page(pages, at, PageKind::Postings, |page| {
            let bytes = format::content(page).get(usize::from(skip.place.offset)..);
            let bytes = bytes.unwrap_or_default();
            let read = if is_packed(skip) {
                block.read_packed(before, skip, bytes)
            } else {
                block.read_unpacked(before, block_len(number, documents as usize), bytes)
            };
            read.ok_or_else(|| unreadable(at))
        })
    }
}

fn unreadable(block: Block) -> IndexError {
    IndexError::corrupted(block, "postings are not readable")
}
