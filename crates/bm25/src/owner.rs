//! Owner pages: which blocks belong to a segment, or to a dropped chain.
//!
//! A segment owns the pages of its chain of owner pages, and the extents on them. When it is
//! dropped, its owner pages become a dropped chain as they are. The pages of a dropped pending list
//! do as well: a page that is not an owner page owns only itself.

use std::mem::offset_of;

use rag_pages::{Block, IndexError, Page, ReadPages};

use crate::format::{
    ExtentBytes, MAX_EXTENTS, OwnerBytes, PageKind, content, content_mut, exists, kind, next, put,
    u16_at, u32_at,
};

/// Blocks that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub first: Block,
    pub blocks: u32,
}

impl Extent {
    /// Returns the blocks, all of which are in use.
    ///
    /// # Errors
    /// They are not. `page` is the owner page.
    fn check(self, page: Block, high_water: Block) -> Result<Self, IndexError> {
        let end = self.first.checked_add(self.blocks);
        if self.first > 0 && self.blocks > 0 && end.is_some_and(|end| end <= high_water) {
            Ok(self)
        } else {
            Err(IndexError::corrupted(page, "invalid extent"))
        }
    }
}

/// Returns the places of the first extent and after the last one.
fn range(page: &Page, block: Block) -> Result<std::ops::Range<usize>, IndexError> {
    let b = content(page);
    let count = usize::from(u16_at(b, offset_of!(OwnerBytes, count)));
    let taken = usize::from(u16_at(b, offset_of!(OwnerBytes, taken)));
    if taken <= count && count <= MAX_EXTENTS {
        Ok(taken..count)
    } else {
        Err(IndexError::corrupted(block, "invalid number of extents"))
    }
}

fn place(i: usize) -> usize {
    size_of::<OwnerBytes>() + i * size_of::<ExtentBytes>()
}

fn get(page: &Page, i: usize) -> Extent {
    let b = &content(page)[place(i)..];
    Extent {
        first: u32_at(b, offset_of!(ExtentBytes, first)),
        blocks: u32_at(b, offset_of!(ExtentBytes, blocks)),
    }
}

fn set(page: &mut Page, i: usize, extent: Extent) {
    let b = &mut content_mut(page)[place(i)..];
    put(
        b,
        offset_of!(ExtentBytes, first),
        extent.first.to_le_bytes(),
    );
    put(
        b,
        offset_of!(ExtentBytes, blocks),
        extent.blocks.to_le_bytes(),
    );
}

fn set_count(page: &mut Page, count: usize) {
    let at = offset_of!(OwnerBytes, count);
    put(content_mut(page), at, (count as u16).to_le_bytes());
}

/// Calls `f` with each extent of an owner page.
///
/// # Errors
/// The page is corrupted, or `f` fails.
pub fn each_extent(
    page: &Page,
    block: Block,
    high_water: Block,
    f: &mut dyn FnMut(Extent) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    for i in range(page, block)? {
        f(get(page, i).check(block, high_water)?)?;
    }
    Ok(())
}

/// Returns true if an owner page has room for one more extent.
///
/// # Errors
/// The page is corrupted.
pub fn has_room(page: &Page, block: Block) -> Result<bool, IndexError> {
    Ok(range(page, block)?.end < MAX_EXTENTS)
}

/// Adds an extent to an owner page that has room.
///
/// # Errors
/// The page is corrupted or has no room.
pub fn push(page: &mut Page, block: Block, extent: Extent) -> Result<(), IndexError> {
    let range = range(page, block)?;
    if let Some(last) = range.clone().next_back() {
        let before = get(page, last);
        if before.first.checked_add(before.blocks) == Some(extent.first) {
            // Extents that adjoin become one, so that they can be given back as one.
            let blocks = before.blocks.saturating_add(extent.blocks);
            set(page, last, Extent { blocks, ..before });
            return Ok(());
        }
    }
    if range.end >= MAX_EXTENTS {
        return Err(IndexError::corrupted(block, "owner page has no room"));
    }
    set(page, range.end, extent);
    set_count(page, range.end + 1);
    Ok(())
}

/// Removes blocks at the end of the last extent.
///
/// # Errors
/// The page is corrupted, or the extent does not end with them.
pub fn cut(page: &mut Page, block: Block, unused: Extent) -> Result<(), IndexError> {
    let last = range(page, block)?.next_back();
    let extent = last.map(|last| (last, get(page, last)));
    match extent {
        Some((last, extent))
            if extent.first <= unused.first
                && u64::from(extent.first) + u64::from(extent.blocks)
                    == u64::from(unused.first) + u64::from(unused.blocks) =>
        {
            let blocks = unused.first - extent.first;
            set(page, last, Extent { blocks, ..extent });
            if blocks == 0 {
                set_count(page, last);
            }
            Ok(())
        }
        _ => Err(IndexError::corrupted(
            block,
            "the last extent has other blocks",
        )),
    }
}

/// Removes the first blocks of the first extent. They must be those that [`DroppedPage`] has.
///
/// # Errors
/// The page has another first extent.
pub fn take(page: &mut Page, block: Block, taken: Extent) -> Result<(), IndexError> {
    let first = range(page, block)?.next();
    match first.map(|i| (i, get(page, i))) {
        Some((i, extent)) if extent.first == taken.first && extent.blocks >= taken.blocks => {
            if extent.blocks == taken.blocks {
                let at = offset_of!(OwnerBytes, taken);
                put(content_mut(page), at, (i as u16 + 1).to_le_bytes());
            } else {
                let rest = Extent {
                    first: extent.first + taken.blocks,
                    blocks: extent.blocks - taken.blocks,
                };
                set(page, i, rest);
            }
            Ok(())
        }
        _ => Err(IndexError::corrupted(
            block,
            "the first extent has other blocks",
        )),
    }
}

/// A page of a dropped chain.
pub struct DroppedPage {
    /// The next page. It belongs to the chain if this is not the tail.
    pub next: Block,
    /// The first extent on it.
    pub extent: Option<Extent>,
}

impl DroppedPage {
    /// Reads a page of a dropped chain.
    ///
    /// # Errors
    /// The page is corrupted.
    pub fn read(
        pages: &impl ReadPages,
        block: Block,
        high_water: Block,
    ) -> Result<Self, IndexError> {
        exists(pages, block)?;
        pages.read(block, |page| {
            let extent = if is_owner(page, block)? {
                let first = range(page, block)?.next();
                first.map(|i| get(page, i).check(block, high_water))
            } else {
                None
            };
            Ok(Self {
                next: next(page),
                extent: extent.transpose()?,
            })
        })
    }
}

/// Returns true for an owner page, false for a pending page.
///
/// # Errors
/// It is another page. Dropped chains have no others.
pub fn is_owner(page: &Page, block: Block) -> Result<bool, IndexError> {
    match kind(page) {
        Some(PageKind::Owner) => Ok(true),
        Some(PageKind::Pending) => Ok(false),
        _ => Err(IndexError::corrupted(
            block,
            "page cannot be in a chain of owner pages",
        )),
    }
}

/// Calls `f` with each page of a chain from `head` to `tail`.
///
/// # Errors
/// The chain is corrupted, or `f` fails.
pub fn each_page<P: ReadPages>(
    pages: &P,
    head: Block,
    tail: Block,
    f: &mut dyn FnMut(Block, &Page) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let mut block = head;
    // A chain has each block at most once, so that one with more pages is a circle.
    for _ in 0..pages.block_count() {
        pages.check_interrupts();
        exists(pages, block)?;
        let following = pages.read(block, |page| f(block, page).map(|()| next(page)))?;
        if block == tail {
            return Ok(());
        }
        block = following;
    }
    Err(IndexError::corrupted(head, "the chain of pages has no end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::init;

    fn extents(page: &Page) -> Vec<(Block, u32)> {
        let mut found = vec![];
        each_extent(page, 1, 10_000, &mut |extent| {
            found.push((extent.first, extent.blocks));
            Ok(())
        })
        .unwrap();
        found
    }

    fn extent(first: Block, blocks: u32) -> Extent {
        Extent { first, blocks }
    }

    #[test]
    fn extents_are_added_cut_and_taken() {
        let mut page = Page::ZERO;
        init(&mut page, 1, PageKind::Owner);
        push(&mut page, 1, extent(10, 5)).unwrap();
        push(&mut page, 1, extent(15, 3)).unwrap();
        push(&mut page, 1, extent(30, 4)).unwrap();
        assert_eq!(extents(&page), [(10, 8), (30, 4)]);
        cut(&mut page, 1, extent(32, 2)).unwrap();
        assert!(cut(&mut page, 1, extent(30, 1)).is_err());
        assert_eq!(extents(&page), [(10, 8), (30, 2)]);
        take(&mut page, 1, extent(10, 3)).unwrap();
        assert_eq!(extents(&page), [(13, 5), (30, 2)]);
        take(&mut page, 1, extent(13, 5)).unwrap();
        assert!(take(&mut page, 1, extent(13, 5)).is_err());
        assert_eq!(extents(&page), [(30, 2)]);
        cut(&mut page, 1, extent(30, 2)).unwrap();
        assert_eq!(extents(&page), []);
        assert!(cut(&mut page, 1, extent(30, 2)).is_err());
    }

    #[test]
    fn a_full_page_takes_no_more() {
        let mut page = Page::ZERO;
        init(&mut page, 1, PageKind::Owner);
        for i in 0..MAX_EXTENTS as u32 {
            assert_eq!(has_room(&page, 1), Ok(true));
            push(&mut page, 1, extent(2 * i + 1, 1)).unwrap();
        }
        assert_eq!(has_room(&page, 1), Ok(false));
        assert!(push(&mut page, 1, extent(9000, 1)).is_err());
        assert_eq!(extents(&page).len(), MAX_EXTENTS);
    }
}
