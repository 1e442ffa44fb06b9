//! Reads all terms of a dictionary.

use rag_pages::{Block, IndexError, ReadPages, memory::append};

use super::{Dictionary, TermPostings, leaf_parts, unreadable};
use crate::{
    format::{self, PageKind},
    segment::layout::ByteReader,
};

/// Reads all terms of a dictionary in their order.
pub struct TermsOfDictionary {
    dictionary: Dictionary,
    /// 0 after the last.
    next_leaf: Block,
    leaves: u32,
    content: Vec<u8>,
    position: usize,
    left: usize,
    term: Vec<u8>,
    /// Bytes that the term is known to have in common with the one before.
    shared: usize,
    block: Block,
}

impl TermsOfDictionary {
    /// Starts at a leaf, or at the end for `None`.
    pub(super) fn new(dictionary: Dictionary, leaf: Option<Block>) -> Self {
        Self {
            dictionary,
            next_leaf: leaf.unwrap_or(0),
            leaves: 0,
            content: vec![],
            position: 0,
            left: 0,
            term: vec![],
            shared: 0,
            block: 0,
        }
    }

    /// Returns the next term and what the dictionary has of it.
    pub fn next(
        &mut self,
        pages: &impl ReadPages,
    ) -> Result<Option<(&[u8], TermPostings)>, IndexError> {
        while self.left == 0 {
            if self.next_leaf == 0 {
                return Ok(None);
            }
            self.read_leaf(pages)?;
        }
        self.left -= 1;
        let mut reader = ByteReader::new(self.content.get(self.position..).unwrap_or_default());
        let has_positions = self.dictionary.has_positions;
        let (term, shared) = (&mut self.term, &mut self.shared);
        let postings = Self::read_entry(&mut reader, term, shared, has_positions);
        let postings = postings.ok_or_else(|| unreadable(self.block))?;
        self.position = self.content.len() - reader.len();
        Ok(Some((&self.term, postings)))
    }

    /// Returns the leaf of the term that was returned last.
    pub fn block(&self) -> Block {
        self.block
    }

    /// Returns the term that was returned last.
    pub fn term(&self) -> &[u8] {
        &self.term
    }

    /// Returns how many bytes the term that was returned last has in common with the one before, at
    /// least.
    pub fn shared(&self) -> usize {
        self.shared
    }

    fn read_entry(
        reader: &mut ByteReader<'_>,
        term: &mut Vec<u8>,
        known: &mut usize,
        has_positions: bool,
    ) -> Option<TermPostings> {
        let shared = usize::from(reader.byte()?);
        *known = shared;
        let len = reader.varint()? as usize;
        let rest = reader.take(len)?;
        if shared > term.len() {
            return None;
        }
        term.truncate(shared);
        append(term, rest).ok()?;
        TermPostings::read(reader, has_positions)
    }

    fn read_leaf(&mut self, pages: &impl ReadPages) -> Result<(), IndexError> {
        pages.check_interrupts();
        let block = self.next_leaf;
        self.leaves += 1;
        if self.leaves > pages.block_count() {
            return Err(IndexError::corrupted(block, "the leaves form a circle"));
        }
        self.block = block;
        let owned = self.dictionary.owned;
        let (next, count) = owned.read_page(pages, block, PageKind::Leaf, |page| {
            let (count, _, entries) =
                leaf_parts(format::content(page)).ok_or_else(|| unreadable(block))?;
            self.content.clear();
            append(&mut self.content, entries).map_err(IndexError::of_memory)?;
            Ok((format::next(page), count))
        })?;
        (self.next_leaf, self.left, self.position) = (next, count, 0);
        self.term.clear();
        Ok(())
    }
}
