//! Reads pages of a segment.

use rag_pages::{Block, IndexError, Page, ReadPages};

use crate::format::{self, PageKind};

/// The pages of a segment.
#[derive(Debug, Clone, Copy)]
pub struct OwnedPages {
    /// The segment's number.
    pub owner_id: u64,
    /// Number of pages that the file had when the segment was opened. All of the segment are below.
    pub limit: Block,
}

impl OwnedPages {
    /// Calls `f` with a page of this kind.
    #[inline]
    pub fn read_page<R>(
        &self,
        pages: &impl ReadPages,
        block: Block,
        kind: PageKind,
        f: impl FnOnce(&Page) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        self.check(block)?;
        pages.read(block, |page| {
            format::expect(pages, page, block, self.owner_id, kind)?;
            f(page)
        })
    }

    /// Calls `f` with kind and content of a page of any kind.
    pub fn read_any<R>(
        &self,
        pages: &impl ReadPages,
        block: Block,
        f: impl FnOnce(PageKind, &[u8]) -> R,
    ) -> Result<R, IndexError> {
        self.check(block)?;
        pages.read(block, |page| {
            let kind = format::kind(page).unwrap_or(PageKind::Leaf);
            format::expect(pages, page, block, self.owner_id, kind)?;
            Ok(f(kind, format::content(page)))
        })
    }

    #[inline]
    fn check(&self, block: Block) -> Result<(), IndexError> {
        if block < self.limit {
            return Ok(());
        }
        Err(IndexError::corrupted(block, "the page does not exist"))
    }
}
