//! Writes a segment: first its documents in the order of their rows, then term after term.

use rag_pages::{
    Block, IndexError, ReusePages, Tid,
    memory::{self, append, push},
};

use super::{
    dictionary::{DictionaryWriter, TermPostings},
    layout::{
        BLOCK, DOCUMENTS_PER_PAGE, HEADER_HEAD, INLINE_BYTES, ROWS_PER_PAGE, SKIP_BYTES, UNPACKED,
    },
    positions::{PositionsPlace, PositionsWriter},
    postings::{Place, PostingsBlock, PostingsPlace, Skip},
};
use crate::{
    allocate::Allocation,
    format::{self, CONTENT_BYTES, PageKind},
    norm,
};

/// A segment that was written and is not part of the index yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenSegment {
    pub header: Block,
    pub documents: u32,
    /// Sum of the lengths.
    pub total_length: u64,
    /// Number of positions, if the segment has some.
    pub positions: Option<u64>,
}

/// Writes pages of a kind one after another. A page is written when the block of the next is known.
#[derive(Default)]
pub struct PageWriter {
    /// The block of the page that comes next, once it is known.
    next: Option<Block>,
}

impl PageWriter {
    /// Writes a page. Returns its block.
    pub fn write_page<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
        kind: PageKind,
        content: &[u8],
        is_last: bool,
    ) -> Result<Block, IndexError> {
        let block = self.block(space)?;
        self.next = if is_last { None } else { Some(space.next()?) };
        let (next, owner_id) = (self.next.unwrap_or(0), space.owner_id());
        pages.overwrite(block, |page| {
            format::init(page, owner_id, kind);
            format::set_next(page, next);
            format::content_mut(page)[..content.len()].copy_from_slice(content);
        });
        Ok(block)
    }

    /// Returns true if the block of the next page is known, so that the page must be written.
    pub fn is_begun(&self) -> bool {
        self.next.is_some()
    }

    /// Returns the block that the next page will have.
    pub fn block<P: ReusePages>(
        &mut self,
        space: &mut Allocation<'_, P>,
    ) -> Result<Block, IndexError> {
        match self.next {
            Some(block) => Ok(block),
            None => {
                let block = space.next()?;
                self.next = Some(block);
                Ok(block)
            }
        }
    }
}

/// Bytes that are written one after another on pages of a kind.
pub struct ByteStream {
    kind: PageKind,
    pages: PageWriter,
    content: Vec<u8>,
}

impl ByteStream {
    pub fn new(kind: PageKind) -> Self {
        Self {
            kind,
            pages: PageWriter::default(),
            content: vec![],
        }
    }

    /// Begins a new page if less than `bytes` are left on this one. Returns where the next byte
    /// will be.
    fn make_room<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
        bytes: usize,
    ) -> Result<Place, IndexError> {
        if self.content.len() + bytes > CONTENT_BYTES {
            self.pages
                .write_page(pages, space, self.kind, &self.content, false)?;
            self.content.clear();
        }
        Ok(Place {
            block: self.pages.block(space)?,
            offset: self.content.len() as u16,
        })
    }

    /// Writes bytes, which may go on on the next pages. Returns where they begin.
    pub fn write_across<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
        bytes: &[u8],
    ) -> Result<Place, IndexError> {
        let place = self.make_room(pages, space, 1)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            pages.check_interrupts();
            self.make_room(pages, space, 1)?;
            let room = CONTENT_BYTES - self.content.len();
            let (written, others) = rest.split_at(rest.len().min(room));
            append(&mut self.content, written).map_err(IndexError::of_memory)?;
            rest = others;
        }
        Ok(place)
    }

    pub fn finish<P: ReusePages>(
        mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
    ) -> Result<(), IndexError> {
        // A page without content may be the place of a block of no bytes.
        if self.pages.is_begun() {
            self.pages
                .write_page(pages, space, self.kind, &self.content, true)?;
        }
        Ok(())
    }
}

/// Writes a segment.
///
/// First each document in the order of rows, then [`end_documents`](Self::end_documents). Then, for
/// each term in the order of bytes, its postings in the order of documents and
/// [`end_term`](Self::end_term). At last [`finish`](Self::finish).
pub struct SegmentWriter<'w, 'a, P: ReusePages> {
    pages: &'w P,
    space: &'w mut Allocation<'a, P>,
    norms: Vec<u8>,
    total_length: u64,
    /// Bytes of the page of rows that is being written.
    rows: Vec<u8>,
    row_blocks: Vec<Block>,
    document_blocks: Vec<Block>,
    dictionary: DictionaryWriter,
    postings: ByteStream,
    skips: ByteStream,
    /// `None` if the segment has no positions.
    positions: Option<PositionsWriter>,
    postings_written: u64,
    /// The term that is being written: postings that are not written yet, skips of those that are,
    /// and the last document of the latter.
    block: PostingsBlock,
    term_skips: Vec<Skip>,
    before: Option<u32>,
    bytes: Vec<u8>,
}

impl<'w, 'a, P: ReusePages> SegmentWriter<'w, 'a, P> {
    pub fn new(pages: &'w P, space: &'w mut Allocation<'a, P>, has_positions: bool) -> Self {
        Self {
            pages,
            space,
            norms: vec![],
            total_length: 0,
            rows: vec![],
            row_blocks: vec![],
            document_blocks: vec![],
            dictionary: DictionaryWriter::default(),
            postings: ByteStream::new(PageKind::Postings),
            skips: ByteStream::new(PageKind::Skips),
            positions: has_positions.then(PositionsWriter::new),
            postings_written: 0,
            block: PostingsBlock::default(),
            term_skips: vec![],
            before: None,
            bytes: vec![],
        }
    }

    /// Adds the next document.
    pub fn add_document(&mut self, tid: Tid, norm: u8) -> Result<(), IndexError> {
        push(&mut self.norms, norm).map_err(IndexError::of_memory)?;
        self.total_length += u64::from(norm::decode(norm));
        self.rows.extend_from_slice(&tid.to_bytes());
        if self.rows.len() == ROWS_PER_PAGE * Tid::BYTES {
            self.write_rows()?;
        }
        Ok(())
    }

    /// Writes the pages of the documents.
    pub fn end_documents(&mut self) -> Result<(), IndexError> {
        if !self.rows.is_empty() {
            self.write_rows()?;
        }
        let norms = std::mem::take(&mut self.norms);
        for norms in norms.chunks(DOCUMENTS_PER_PAGE) {
            let block = self.write_page(PageKind::Documents, norms)?;
            push(&mut self.document_blocks, block).map_err(IndexError::of_memory)?;
        }
        self.norms = norms;
        Ok(())
    }

    fn write_rows(&mut self) -> Result<(), IndexError> {
        let rows = std::mem::take(&mut self.rows);
        let block = self.write_page(PageKind::Rows, &rows)?;
        self.rows = rows;
        self.rows.clear();
        push(&mut self.row_blocks, block).map_err(IndexError::of_memory)
    }

    fn write_page(&mut self, kind: PageKind, content: &[u8]) -> Result<Block, IndexError> {
        PageWriter::default().write_page(self.pages, self.space, kind, content, true)
    }

    /// Adds a posting of the next term, with its positions in ascending order.
    ///
    /// # Errors
    /// Documents do not ascend: the segment that they come from is corrupted.
    pub fn add_posting(
        &mut self,
        document: u32,
        frequency: u32,
        positions: &[u32],
    ) -> Result<(), IndexError> {
        let written = &self.block.documents[..self.block.len];
        if written.last().copied().or(self.before) >= Some(document) {
            return Err(IndexError::corrupted(
                0,
                "the documents of a term do not ascend",
            ));
        }
        self.block.push(document, frequency.max(1));
        if let Some(writer) = &mut self.positions {
            writer.push(positions).map_err(IndexError::of_memory)?;
        }
        if self.block.is_full() {
            self.write_block()?;
        }
        Ok(())
    }

    /// Ends the postings of a term, if it has any.
    pub fn end_term(&mut self, term: &[u8]) -> Result<(), IndexError> {
        let documents = self.term_skips.len() * BLOCK + self.block.len;
        if documents == 0 {
            return Ok(());
        }
        self.postings_written += documents as u64;
        let place = if self.term_skips.is_empty() {
            self.write_short()?
        } else {
            if self.block.len > 0 {
                self.write_block()?;
            }
            self.write_skips()?
        };
        let positions = match &mut self.positions {
            Some(writer) => writer.end_term(self.pages, self.space, &self.block)?,
            None => PositionsPlace::Nowhere,
        };
        self.block.clear();
        self.before = None;
        let postings = TermPostings {
            documents: documents as u32,
            place,
            positions,
        };
        self.pages.check_interrupts();
        self.dictionary.add(self.pages, self.space, term, &postings)
    }

    /// Returns the highest frequency and the shortest length of the documents in the block.
    fn bounds(&self) -> (u8, u8) {
        let frequency = self.block.iter().map(|(_, frequency)| frequency).max();
        let norm = self
            .block
            .iter()
            .filter_map(|(document, _)| self.norms.get(document as usize))
            .min();
        (
            frequency.unwrap_or(1).min(u32::from(u8::MAX)) as u8,
            norm.copied().unwrap_or(0),
        )
    }

    fn write_block(&mut self) -> Result<(), IndexError> {
        let (max_frequency, min_norm) = self.bounds();
        let Some(&last) = self.block.documents[..self.block.len].last() else {
            return Ok(());
        };
        if let Some(writer) = &mut self.positions {
            writer.end_block(self.pages, self.space, &self.block)?;
        }
        self.bytes.clear();
        let (document_bits, frequency_bits) = if self.block.is_full() {
            self.block.write_packed(self.before, &mut self.bytes)
        } else {
            self.block.write_unpacked(self.before, &mut self.bytes);
            (UNPACKED, UNPACKED)
        };
        let place = self.write_bytes()?;
        self.before = Some(last);
        self.block.clear();
        let skip = Skip {
            last,
            place,
            document_bits,
            frequency_bits,
            max_frequency,
            min_norm,
        };
        push(&mut self.term_skips, skip).map_err(IndexError::of_memory)
    }

    /// Writes the encoded block, which does not go over the end of a page.
    fn write_bytes(&mut self) -> Result<Place, IndexError> {
        let (pages, bytes) = (self.pages, &self.bytes);
        let place = self.postings.make_room(pages, self.space, bytes.len())?;
        append(&mut self.postings.content, bytes).map_err(IndexError::of_memory)?;
        Ok(place)
    }

    fn write_short(&mut self) -> Result<PostingsPlace, IndexError> {
        self.bytes.clear();
        self.block.write_unpacked(None, &mut self.bytes);
        if self.bytes.len() <= INLINE_BYTES {
            let mut bytes = [0; INLINE_BYTES];
            bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
            return Ok(PostingsPlace::Inline {
                bytes,
                len: self.bytes.len() as u8,
            });
        }
        let (max_frequency, min_norm) = self.bounds();
        Ok(PostingsPlace::Short {
            place: self.write_bytes()?,
            max_frequency,
            min_norm,
        })
    }

    /// Writes the skips of a term. They may go on on the next page, but none is divided.
    fn write_skips(&mut self) -> Result<PostingsPlace, IndexError> {
        let skips = std::mem::take(&mut self.term_skips);
        let mut first = None;
        for skip in &skips {
            let place = self.skips.make_room(self.pages, self.space, SKIP_BYTES)?;
            first.get_or_insert(place);
            skip.write(&mut self.skips.content);
        }
        self.term_skips = skips;
        self.term_skips.clear();
        Ok(PostingsPlace::Long {
            skips: first.unwrap_or(Place {
                block: 0,
                offset: 0,
            }),
        })
    }

    /// Writes what is left, and at last the header.
    pub fn finish(self) -> Result<WrittenSegment, IndexError> {
        let Self { pages, space, .. } = self;
        self.postings.finish(pages, space)?;
        self.skips.finish(pages, space)?;
        let positions = self.positions.as_ref().map(|writer| writer.count);
        if let Some(writer) = self.positions {
            writer.finish(pages, space)?;
        }
        let (root, terms) = self.dictionary.finish(pages, space)?;
        let documents = self.norms.len() as u32;
        let mut header = Vec::with_capacity(HEADER_HEAD);
        header.extend_from_slice(&documents.to_le_bytes());
        header.extend_from_slice(&root.to_le_bytes());
        header.extend_from_slice(&self.total_length.to_le_bytes());
        header.extend_from_slice(&terms.to_le_bytes());
        header.extend_from_slice(&self.postings_written.to_le_bytes());
        let blocks = self.document_blocks.iter().chain(&self.row_blocks);
        let bytes = blocks.flat_map(|block| block.to_le_bytes());
        append(
            &mut header,
            &memory::collect(bytes).map_err(IndexError::of_memory)?,
        )
        .map_err(IndexError::of_memory)?;
        let mut writer = PageWriter::default();
        let first = writer.block(space)?;
        let mut rest = header.as_slice();
        loop {
            let (content, left) = rest.split_at(rest.len().min(CONTENT_BYTES));
            writer.write_page(pages, space, PageKind::Header, content, left.is_empty())?;
            if left.is_empty() {
                break;
            }
            rest = left;
        }
        Ok(WrittenSegment {
            header: first,
            documents,
            total_length: self.total_length,
            positions,
        })
    }
}
