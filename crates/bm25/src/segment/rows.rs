//! The heap rows of a segment's documents.

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{OutOfMemory, push},
};

use super::{
    layout::ROWS_PER_PAGE,
    reader::{SegmentReader, VisitRows},
};
use crate::format::{self, PageKind};

impl SegmentReader {
    /// Calls `f` with the rows of each page of rows, and the number of the first of its documents.
    pub fn each_rows(&self, pages: &impl ReadPages, f: VisitRows<'_>) -> Result<(), IndexError> {
        let mut rows = vec![];
        for number in 0..self.row_blocks.len() {
            pages.check_interrupts();
            self.read_rows(pages, number, &mut rows)?;
            f((number * ROWS_PER_PAGE) as u32, &rows)?;
        }
        Ok(())
    }

    /// Reads a page of rows.
    pub fn read_rows(
        &self,
        pages: &impl ReadPages,
        number: usize,
        rows: &mut Vec<Tid>,
    ) -> Result<(), IndexError> {
        let block = self.page_of(&self.row_blocks, number)?;
        let count = (self.documents as usize - number * ROWS_PER_PAGE).min(ROWS_PER_PAGE);
        rows.clear();
        self.owned.read_page(pages, block, PageKind::Rows, |page| {
            let content = format::content(page).as_chunks::<{ Tid::BYTES }>().0;
            for bytes in &content[..count] {
                push(rows, Tid::read(bytes)).map_err(IndexError::of_memory)?;
            }
            Ok(())
        })
    }

    /// Returns the row of a document.
    pub fn row(&self, pages: &impl ReadPages, document: u32) -> Result<Tid, IndexError> {
        let block = self.page_of(&self.row_blocks, document as usize / ROWS_PER_PAGE)?;
        let offset = document as usize % ROWS_PER_PAGE * Tid::BYTES;
        self.owned.read_page(pages, block, PageKind::Rows, |page| {
            Ok(Tid::read(&format::content(page)[offset..]))
        })
    }

    /// Calls `f` with the documents whose rows are in ranges of rows, and with what comes with the
    /// range. The ranges are in ascending order, and so are the documents. A range is its first and
    /// its last row, as [`Tid::key`] numbers them; several ranges may be the same row.
    pub fn each_within<T>(
        &self,
        pages: &impl ReadPages,
        ranges: impl Iterator<Item = (u64, u64, T)>,
        mut f: impl FnMut(u32, &T) -> Result<(), OutOfMemory>,
    ) -> Result<(), IndexError> {
        let mut ranges = ranges.peekable();
        let mut number = 0;
        while let Some((next, ..)) = ranges.peek()
            && number < self.row_blocks.len()
        {
            pages.check_interrupts();
            number = self.row_page_of(pages, number, *next)?;
            let first = number * ROWS_PER_PAGE;
            let count = (self.documents as usize)
                .saturating_sub(first)
                .min(ROWS_PER_PAGE);
            let block = self.page_of(&self.row_blocks, number)?;
            self.owned.read_page(pages, block, PageKind::Rows, |page| {
                let rows = &format::content(page).as_chunks::<{ Tid::BYTES }>().0[..count];
                let last = rows.last().map_or(0, Tid::read_key);
                let mut place = 0;
                while let Some((from, to, with)) = ranges.peek() {
                    place = first_from(rows, place, *from);
                    for (found, row) in (first + place..).zip(&rows[place..]) {
                        if Tid::read_key(row) > *to {
                            break;
                        }
                        f(found as u32, with).map_err(IndexError::of_memory)?;
                    }
                    if last < *to {
                        break; // the range may go on in the next page
                    }
                    ranges.next();
                }
                Ok(())
            })?;
            number += 1;
        }
        Ok(())
    }

    /// Returns the last page of rows, from page `number` on, that begins with `row` or before it.
    /// Returns `number` if there is none.
    fn row_page_of(
        &self,
        pages: &impl ReadPages,
        number: usize,
        row: u64,
    ) -> Result<usize, IndexError> {
        let begins_before = |page: usize| {
            let first = self.row(pages, (page * ROWS_PER_PAGE) as u32)?;
            Ok::<bool, IndexError>(first.key() <= row)
        };
        let (mut from, mut step) = (number, 1);
        while from + step < self.row_blocks.len() && begins_before(from + step)? {
            from += step;
            step *= 2;
        }
        let mut after = (from + step).min(self.row_blocks.len());
        while from + 1 < after {
            let middle = usize::midpoint(from, after);
            if begins_before(middle)? {
                from = middle;
            } else {
                after = middle;
            }
        }
        Ok(from)
    }
}

/// Returns the first place from `from` on whose row does not come before `row`, or the number of
/// rows. It is mostly near.
#[inline]
fn first_from(rows: &[[u8; Tid::BYTES]], mut from: usize, row: u64) -> usize {
    let comes_before = |place: usize| {
        rows.get(place)
            .is_some_and(|known| Tid::read_key(known) < row)
    };
    let mut step = 1;
    while comes_before(from + step) {
        from += step;
        step *= 2;
    }
    let mut after = (from + step).min(rows.len());
    while from < after {
        let middle = usize::midpoint(from, after);
        if comes_before(middle) {
            from = middle + 1;
        } else {
            after = middle;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use rag_pages::Tid;

    use super::first_from;

    #[test]
    fn the_first_place_is_found_from_anywhere() {
        for end in 0..20 {
            let tid = |block| Tid { block, offset: 7 };
            let rows: Vec<_> = (0..end as u32).map(|block| tid(block).to_bytes()).collect();
            for from in 0..=end {
                for sought in from..=end {
                    let row = tid(sought as u32).key();
                    assert_eq!(first_from(&rows, from, row), sought);
                    assert_eq!(first_from(&rows, from, row - 7), sought);
                }
            }
        }
    }
}
