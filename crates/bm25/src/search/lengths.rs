//! The lengths of a segment's documents, and which of them are deleted, while it is searched.

use rag_pages::{IndexError, ReadPages};

use super::window::SegmentSearch;
use crate::segment::{layout::DOCUMENTS_PER_PAGE, reader::DocumentWindow};

/// Lengths and marks of the page of documents that was read last. Lengths of all but large segments
/// are kept by the reader of the segment, and need no page.
#[derive(Default)]
pub struct Lengths {
    page: Box<DocumentWindow>,
    number: Option<usize>,
}

impl Lengths {
    /// Forgets the page, which is of another segment.
    pub fn restart(&mut self) {
        self.number = None;
    }

    /// Returns the lengths of the documents of a page.
    #[inline]
    pub fn of_page<'l, P: ReadPages>(
        &'l mut self,
        search: &'l SegmentSearch<'_, P>,
        number: usize,
    ) -> Result<&'l [u8; DOCUMENTS_PER_PAGE], IndexError> {
        match search.segment.norms(search.pages)? {
            Some(pages) => pages
                .get(number)
                .ok_or_else(|| search.segment.without_page(number)),
            None => Ok(&self.read(search, number)?.norms),
        }
    }

    /// Returns whether a document is deleted.
    #[inline]
    pub fn is_dead<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<bool, IndexError> {
        if search.dead == 0 {
            return Ok(false);
        }
        let document = document as usize;
        let page = self.read(search, document / DOCUMENTS_PER_PAGE)?;
        Ok(page.is_dead(document % DOCUMENTS_PER_PAGE))
    }

    fn read<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        number: usize,
    ) -> Result<&DocumentWindow, IndexError> {
        if self.number != Some(number) {
            search.pages.check_interrupts();
            self.number = None; // if the page is not readable
            search
                .segment
                .read_window(search.pages, number, &mut self.page)?;
            self.number = Some(number);
        }
        Ok(&self.page)
    }
}
