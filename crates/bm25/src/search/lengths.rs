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

    /// Returns true if a document is deleted.
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

#[cfg(test)]
mod tests {
    use rag_pages::{MemoryPages, Tid};

    use crate::{
        Builder, Creation, Parameters, Scorer, SegmentCache, Terms, remove, statistics, top,
    };

    /// Of a segment of more than one page, tests keep no lengths.
    const DOCUMENTS: u32 = 20_000;

    fn document(number: u32) -> Terms {
        let mut terms = Terms::new();
        let mut add = |term: &str, repeated| {
            terms.push_counted(term.as_bytes(), repeated).unwrap();
        };
        add("common", 1 + number % 5);
        if number % 30 == 7 {
            add("rare", 1 + number % 4);
        }
        add("x", 1 + number * 7 % 90);
        terms.finish();
        terms
    }

    #[test]
    fn lengths_of_large_segments_are_read_page_by_page() {
        let pages = MemoryPages::new();
        let parameters = Parameters::default();
        let creation = Creation {
            parameters,
            identity: 1,
            label: b"",
            variant: 0,
            has_positions: false,
        };
        let mut builder = Builder::new(&pages, &creation, 1 << 30);
        let tid = |number| Tid {
            block: number,
            offset: 1,
        };
        for number in 0..DOCUMENTS {
            builder.add(tid(number), &document(number)).unwrap();
        }
        builder.finish().unwrap();
        remove(&pages, &mut |tid| tid.block % 6 == 1).unwrap();
        let cache = SegmentCache::default();
        for words in ["rare", "common", "common rare", "common rare x"] {
            let mut query = Terms::new();
            for word in words.split(' ') {
                query.add(word.as_bytes()).unwrap();
            }
            query.finish();
            let statistics = statistics(&pages, &cache, &query).unwrap();
            let scorer = Scorer::new(parameters, &statistics, &query);
            let mut expected: Vec<(Tid, f64)> = (0..DOCUMENTS)
                .filter(|number| number % 6 != 1)
                .map(|number| (tid(number), scorer.score(&document(number))))
                .filter(|(_, score)| *score > 0.0)
                .collect();
            expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            for k in [1, 10, 3000] {
                let found = top(&pages, &cache, &query, None, k).unwrap();
                assert_eq!(found, expected[..k.min(expected.len())], "{words}, {k}");
            }
        }
    }
}
