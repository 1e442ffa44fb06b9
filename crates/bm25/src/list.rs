//! A chain of pages, as the meta page leads to it.

use std::mem::offset_of;

use rag_pages::{Block, IndexError};

use crate::format::{ListBytes, put, u32_at, u64_at};

/// A chain of pages of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageList {
    /// The owner of the pages.
    pub id: u64,
    /// The first page, or 0 if there is none.
    pub head: Block,
    pub tail: Block,
    /// Number of pages of a pending list. Number of all blocks in flight, with those that are on
    /// owner pages.
    pub blocks: u32,
}

impl PageList {
    pub fn is_empty(&self) -> bool {
        self.head == 0
    }
}

/// Reads a block that is below the high-water mark.
///
/// # Errors
/// It is not.
pub fn decode_block(b: &[u8], at: usize, high_water: Block) -> Result<Block, IndexError> {
    let block = u32_at(b, at);
    if (1..high_water).contains(&block) {
        Ok(block)
    } else {
        Err(IndexError::corrupted(
            0,
            "the meta page leads to a block that is not in use",
        ))
    }
}

/// Reads a list.
///
/// # Errors
/// It leads to blocks that are not in use.
pub fn decode_list(b: &[u8], at: usize, high_water: Block) -> Result<PageList, IndexError> {
    let (head, tail) = (
        at + offset_of!(ListBytes, head),
        at + offset_of!(ListBytes, tail),
    );
    let mut list = PageList {
        id: u64_at(b, at + offset_of!(ListBytes, id)),
        ..PageList::default()
    };
    if (u32_at(b, head), u32_at(b, tail)) != (0, 0) {
        list.head = decode_block(b, head, high_water)?;
        list.tail = decode_block(b, tail, high_water)?;
        list.blocks = u32_at(b, at + offset_of!(ListBytes, blocks));
    }
    Ok(list)
}

pub fn encode_list(b: &mut [u8], at: usize, list: &PageList) {
    let b = &mut b[at..];
    put(b, offset_of!(ListBytes, id), list.id.to_le_bytes());
    put(b, offset_of!(ListBytes, head), list.head.to_le_bytes());
    put(b, offset_of!(ListBytes, tail), list.tail.to_le_bytes());
    put(b, offset_of!(ListBytes, blocks), list.blocks.to_le_bytes());
}
