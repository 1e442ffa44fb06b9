//! Finds terms in a dictionary.

use rag_pages::{Block, IndexError, ReadPages};

use super::{MAX_LEVELS, RESTART, TermPostings, TermsOfDictionary, leaf_parts, unreadable};
use crate::{
    format::PageKind,
    segment::{
        layout::{ByteReader, u16_at, u32_at},
        owned::OwnedPages,
    },
};

/// The term and the block of a page that an inner page leads to.
pub type Child = (Vec<u8>, Block);

/// The dictionary of a segment, on its pages.
#[derive(Debug, Clone, Copy)]
pub struct Dictionary {
    /// 0 without terms.
    pub root: Block,
    pub owned: OwnedPages,
    /// Terms have positions.
    pub has_positions: bool,
}

impl Dictionary {
    /// Returns what the dictionary has of a term.
    pub fn find(
        &self,
        pages: &impl ReadPages,
        term: &[u8],
    ) -> Result<Option<TermPostings>, IndexError> {
        if self.root == 0 {
            return Ok(None);
        }
        let mut block = self.root;
        for _ in 0..MAX_LEVELS {
            match self.step(pages, block, term)? {
                Step::Down(child) => block = child,
                Step::Leaf(found) => return Ok(found),
            }
        }
        Err(IndexError::corrupted(block, "the dictionary is too deep"))
    }

    fn step(&self, pages: &impl ReadPages, block: Block, term: &[u8]) -> Result<Step, IndexError> {
        let step = self
            .owned
            .read_any(pages, block, |kind, content| match kind {
                PageKind::Inner => find_child(content, term).map(Step::Down),
                PageKind::Leaf => find_entry(content, term, self.has_positions).map(Step::Leaf),
                _ => None,
            })?;
        step.ok_or_else(|| unreadable(block))
    }

    /// Returns the leaf that may have a term, or `None` without terms.
    fn leaf_of(&self, pages: &impl ReadPages, term: &[u8]) -> Result<Option<Block>, IndexError> {
        if self.root == 0 {
            return Ok(None);
        }
        let mut block = self.root;
        for _ in 0..MAX_LEVELS {
            let child = self
                .owned
                .read_any(pages, block, |kind, content| match kind {
                    PageKind::Inner => find_child(content, term).map(Some),
                    PageKind::Leaf => Some(None),
                    _ => None,
                })?;
            match child.ok_or_else(|| unreadable(block))? {
                Some(child) => block = child,
                None => return Ok(Some(block)),
            }
        }
        Err(IndexError::corrupted(block, "the dictionary is too deep"))
    }

    /// Returns the terms and blocks of the children of an inner page, and `None` for a leaf.
    pub fn children(
        &self,
        pages: &impl ReadPages,
        block: Block,
    ) -> Result<Option<Vec<Child>>, IndexError> {
        let children = self
            .owned
            .read_any(pages, block, |kind, content| match kind {
                PageKind::Inner => {
                    let count = usize::from(u16_at(content, 0)?);
                    let children = (0..count).map(|number| {
                        let (term, block) = child(content, number)?;
                        Some((term.to_vec(), block))
                    });
                    children.collect::<Option<Vec<_>>>().map(Some)
                }
                PageKind::Leaf => Some(None),
                _ => None,
            })?;
        children.ok_or_else(|| unreadable(block))
    }

    /// Starts to read all terms in their order.
    pub fn terms(&self, pages: &impl ReadPages) -> Result<TermsOfDictionary, IndexError> {
        self.terms_near(pages, b"")
    }

    /// Starts to read the terms from the leaf on that may have a term.
    pub fn terms_near(
        &self,
        pages: &impl ReadPages,
        term: &[u8],
    ) -> Result<TermsOfDictionary, IndexError> {
        Ok(TermsOfDictionary::new(*self, self.leaf_of(pages, term)?))
    }
}

enum Step {
    Down(Block),
    Leaf(Option<TermPostings>),
}

/// Returns term and block of a child of an inner page.
fn child(content: &[u8], number: usize) -> Option<(&[u8], Block)> {
    let offset = usize::from(u16_at(content, 2 + 2 * number)?);
    let block = u32_at(content, offset)?;
    let len = usize::from(u16_at(content, offset + 4)?);
    Some((content.get(offset + 6..offset + 6 + len)?, block))
}

/// Returns the child of an inner page that may have a term: the last whose term is not greater.
fn find_child(content: &[u8], term: &[u8]) -> Option<Block> {
    let count = usize::from(u16_at(content, 0)?);
    let (mut low, mut high) = (0, count);
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        if child(content, middle)?.0 <= term {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(child(content, low)?.1)
}

/// Looks up a term in a leaf. Returns `None` if the leaf is not readable.
#[allow(clippy::option_option)] // not readable, or not found
fn find_entry(content: &[u8], term: &[u8], has_positions: bool) -> Option<Option<TermPostings>> {
    let (count, restarts, entries) = leaf_parts(content)?;
    let at_restart = |number: usize| {
        let offset = usize::from(u16_at(restarts, 2 * number)?);
        let mut reader = ByteReader::new(entries.get(offset..)?);
        if reader.byte()? != 0 {
            return None;
        }
        let len = reader.varint()? as usize;
        Some((offset, reader.take(len)?))
    };
    let (mut low, mut high) = (0, restarts.len() / 2);
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        if at_restart(middle)?.1 <= term {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (offset, _) = at_restart(low)?;
    let mut reader = ByteReader::new(&entries[offset..]);
    // How many bytes of `term` the entry before has in common with it.
    let mut common = 0;
    for _ in 0..RESTART.min(count.checked_sub(low * RESTART)?) {
        let shared = usize::from(reader.byte()?);
        let len = reader.varint()? as usize;
        let rest = reader.take(len)?;
        let postings = TermPostings::read(&mut reader, has_positions)?;
        // An entry that shares more than what is common differs where the one before did. One that
        // shares less is greater than the term.
        if shared > common {
            continue;
        }
        if shared < common {
            return Some(None);
        }
        let wanted = &term[common..];
        let equal = wanted.iter().zip(rest).take_while(|(a, b)| a == b).count();
        if equal == wanted.len() && equal == rest.len() {
            return Some(Some(postings));
        }
        if equal == wanted.len() || (equal < rest.len() && rest[equal] > wanted[equal]) {
            return Some(None);
        }
        // an entry that shares more than 255 bytes says 255
        common = (common + equal).min(usize::from(u8::MAX));
    }
    Some(None)
}
