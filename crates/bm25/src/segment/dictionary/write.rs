//! Writes a dictionary from left to right.

use rag_pages::{Block, IndexError, ReusePages, memory::push};

use super::{LEAF_HEAD, RESTART, TermPostings};
use crate::{
    allocate::Allocation,
    format::{self, CONTENT_BYTES, PageKind},
    segment::{layout::put_varint, writer::PageWriter},
};

/// Writes a dictionary.
#[derive(Default)]
pub struct DictionaryWriter {
    /// The entries of the leaf that is being written, and the offsets of those that share nothing.
    entries: Vec<u8>,
    restarts: Vec<u16>,
    count: usize,
    last: Vec<u8>,
    first: Vec<u8>,
    /// The last term of the leaf before.
    last_of_previous: Vec<u8>,
    leaf: PageWriter,
    levels: Vec<InnerWriter>,
    pub terms: u64,
}

/// Writes the inner pages of a level.
#[derive(Default)]
struct InnerWriter {
    children: Vec<(Vec<u8>, Block)>,
    bytes: usize,
}

impl DictionaryWriter {
    /// Adds a term, which is greater than those before.
    pub fn add<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
        term: &[u8],
        postings: &TermPostings,
    ) -> Result<(), IndexError> {
        let mut value = Vec::with_capacity(48);
        postings.write(&mut value);
        let needed = 8 + term.len() + value.len();
        let used = LEAF_HEAD + 2 * (self.restarts.len() + 1) + self.entries.len();
        if self.count > 0 && used + needed > CONTENT_BYTES {
            self.end_leaf(pages, space, false)?;
        }
        let is_restart = self.count.is_multiple_of(RESTART);
        let shared = if is_restart {
            self.restarts.push(self.entries.len() as u16);
            0
        } else {
            let equal = self.last.iter().zip(term).take_while(|(a, b)| a == b);
            equal.count().min(usize::from(u8::MAX))
        };
        if self.count == 0 {
            self.first = separator(&self.last_of_previous, term);
        }
        self.entries.push(shared as u8);
        put_varint(&mut self.entries, (term.len() - shared) as u32);
        self.entries.extend_from_slice(&term[shared..]);
        self.entries.extend_from_slice(&value);
        self.last.clear();
        self.last.extend_from_slice(term);
        self.count += 1;
        self.terms += 1;
        Ok(())
    }

    fn end_leaf<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
        is_last: bool,
    ) -> Result<(), IndexError> {
        let mut content = Vec::with_capacity(CONTENT_BYTES);
        content.extend_from_slice(&(self.count as u16).to_le_bytes());
        content.extend_from_slice(&(self.restarts.len() as u16).to_le_bytes());
        for restart in &self.restarts {
            content.extend_from_slice(&restart.to_le_bytes());
        }
        content.extend_from_slice(&self.entries);
        let block = self
            .leaf
            .write_page(pages, space, PageKind::Leaf, &content, is_last)?;
        let first = std::mem::take(&mut self.first);
        self.add_child(pages, space, 0, first, block)?;
        self.last_of_previous.clone_from(&self.last);
        self.entries.clear();
        self.restarts.clear();
        self.count = 0;
        Ok(())
    }

    /// Adds a page to the level above it.
    fn add_child<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
        level: usize,
        first: Vec<u8>,
        block: Block,
    ) -> Result<(), IndexError> {
        if self.levels.len() == level {
            self.levels.push(InnerWriter::default());
        }
        let bytes = 8 + first.len();
        if 2 + self.levels[level].bytes + bytes > CONTENT_BYTES {
            self.end_inner(pages, space, level)?;
        }
        let inner = &mut self.levels[level];
        inner.bytes += bytes;
        push(&mut inner.children, (first, block)).map_err(IndexError::of_memory)
    }

    /// Writes an inner page: the number of children, their offsets, then block, length and term of
    /// each.
    fn end_inner<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
        level: usize,
    ) -> Result<(), IndexError> {
        let inner = std::mem::take(&mut self.levels[level]);
        let mut content = Vec::with_capacity(CONTENT_BYTES);
        content.extend_from_slice(&(inner.children.len() as u16).to_le_bytes());
        let mut offset = 2 + 2 * inner.children.len();
        for (term, _) in &inner.children {
            content.extend_from_slice(&(offset as u16).to_le_bytes());
            offset += 6 + term.len();
        }
        for (term, block) in &inner.children {
            content.extend_from_slice(&block.to_le_bytes());
            content.extend_from_slice(&(term.len() as u16).to_le_bytes());
            content.extend_from_slice(term);
        }
        let block = space.next()?;
        pages.overwrite(block, |page| {
            format::init(page, space.owner_id(), PageKind::Inner);
            format::content_mut(page)[..content.len()].copy_from_slice(&content);
        });
        let first = inner.children.into_iter().next();
        let first = first.map_or_else(Vec::new, |(term, _)| term);
        self.add_child(pages, space, level + 1, first, block)
    }

    /// Writes what is left. Returns the root: a leaf or an inner page, or 0 without terms.
    pub fn finish<P: ReusePages>(
        mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
    ) -> Result<(Block, u64), IndexError> {
        if self.count > 0 {
            self.end_leaf(pages, space, true)?;
        }
        let mut level = 0;
        while level < self.levels.len() {
            let is_top = level + 1 == self.levels.len();
            match self.levels[level].children.as_slice() {
                [(_, root)] if is_top => return Ok((*root, self.terms)),
                [] => {}
                _ => self.end_inner(pages, space, level)?,
            }
            level += 1;
        }
        Ok((0, self.terms))
    }
}

/// Returns the shortest bytes that are greater than `before` and not greater than `term`.
fn separator(before: &[u8], term: &[u8]) -> Vec<u8> {
    let shared = before.iter().zip(term).take_while(|(a, b)| a == b).count();
    term[..term.len().min(shared + 1)].to_vec()
}
